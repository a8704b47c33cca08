"""The tasks on the test sites, how attempts are scored, and a recorded solution for each task."""
