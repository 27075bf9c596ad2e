"""What a capacity request must contain, rendered from the job and its runs."""
