"""A broker's lease: until when it may write as a leader without hearing from the controller (R16, C13, C14).

The lease runs from the *send* time of the last heartbeat that was answered, less the age of what the answering
controller knew of its majority, and is shorter than the session after which another leader is appointed. So two lease
holders never overlap while clocks run at their stated drift. It is compared with the clock at every append: a timer
that fires late after a pause would be too late.
"""

from typing import Final

FOREVER: Final = float("inf")


def lease_seconds(session_seconds: float, drift: float) -> float:
    """How long a lease may be, so that it ends before the session does on any clock that keeps its stated drift."""
    return session_seconds * (1 - drift)


class Lease:
    """One broker's lease, shared by all its partitions. Invariant: `until` never falls."""

    __slots__ = ("strict", "until")

    def __init__(self, *, strict: bool = True, until: float = 0.0) -> None:
        self.until = until
        self.strict = strict

    def extended(self, sent_at: float, age: float, seconds: float) -> None:
        """A heartbeat sent at `sent_at` was answered; answers may come in any order."""
        self.until = max(self.until, sent_at - age + seconds)


UNLIMITED: Final = Lease(until=FOREVER)
"""For a process that needs none: the only broker, with the only controller inside."""
