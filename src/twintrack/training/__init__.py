"""Model, adapters, data, the one loop and its checkpoints; no branch on a track's name."""
