"""The values that instructions compute; knows nothing of time."""
