"""Runs made elsewhere, brought in as events."""
