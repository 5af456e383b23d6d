"""Level 0: the pure machines under virtual time, with messages as objects, for millions of events."""
