"""Two runs of one job against each other."""
