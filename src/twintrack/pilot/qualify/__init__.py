"""What a job will need, before anything is reserved."""
