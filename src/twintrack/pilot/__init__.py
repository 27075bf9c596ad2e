"""The protocol on its tracks, its drills, and what its runs say: summary and report."""
