"""For users' tests: a real broker started in one line."""
