"""Counters of a node: plain integers, because some are bumped on every request."""


class Stats:
    """What happened in this process life."""

    __slots__ = (
        "connections_accepted", "connections_refused", "fetches", "followed_partitions", "produced_bytes",
        "produced_together", "produces", "protocol_errors", "unexpected_errors",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connections_accepted = 0
        self.connections_refused = 0
        self.protocol_errors = 0
        self.unexpected_errors = 0
        self.produces = 0
        self.produced_bytes = 0
        self.produced_together = 0  # requests whose records were written with those of others
        self.fetches = 0
        self.followed_partitions = 0  # looked at for the fetches of followers
