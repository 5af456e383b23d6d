"""A log as replication sees it: questions only. What should happen to it, a machine asks as an effect."""

from typing import Protocol


class LogView(Protocol):
    """The log of one replica. Offsets below `start` are gone, `end` is the next to be written."""

    @property
    def start(self) -> int:
        """The first offset that may be read."""

    @property
    def end(self) -> int:
        """After the last whole batch that was written."""

    @property
    def synced_end(self) -> int:
        """Below it everything survives a power loss."""

    @property
    def last_epoch(self) -> int:
        """The leader epoch that wrote the last record; -1 while there is none.

        Not the newest epoch of the history: a leader that appended nothing leaves an epoch without records there.
        """

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest own epoch ≤ `epoch` and where it ends (KIP-101); (-1, -1) for one newer than all own ones.

        An epoch older than all own ones answers itself and the start of the oldest.
        """


class CompactedLogView(LogView, Protocol):
    """The log of a topic, which may be compacted."""

    @property
    def tombstone_horizon(self) -> int:
        """Tombstones below it may be missing (R20); -1 in a log that never was compacted."""
