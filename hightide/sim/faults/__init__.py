"""The faults of a plan, each a small story: it begins, it lasts, it is undone; it tells whether it took effect."""
