"""From evidence to a verdict with its reasons."""
