"""Programs of the project that no user runs: generated documentation and what the tests fetch."""
