"""Checkpoints to other programs' layouts and back, with proof."""
