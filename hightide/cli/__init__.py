"""The `hightide` command, for people."""
