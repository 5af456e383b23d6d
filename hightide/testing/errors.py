"""What can go wrong with a test cluster."""


class ClusterError(Exception):
    """A test cluster that can't do what it was asked for, or did not get there in time, in sentences for people."""
