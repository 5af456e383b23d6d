"""How far a follower or observer is with its leader: what it has asked for, and what it heard."""

from hightide.replication.quorum_effects import FetchFrom, LoadSnapshot


class Following:
    """One question is under way at a time: a fetch or a snapshot, or a pause before the next fetch."""

    __slots__ = ("_number", "fetch", "has_fetched", "high_watermark", "load", "retry_at")

    def __init__(self) -> None:
        self._number = 0
        self.stop()

    def stop(self) -> None:
        """Forget the leader; answers that are still under way mean nothing."""
        self.fetch: FetchFrom | None = None
        self.load: LoadSnapshot | None = None
        self.retry_at: float | None = None
        self.has_fetched = False
        self.high_watermark = 0

    @property
    def is_busy(self) -> bool:
        """Whether the next fetch has to wait."""
        return self.fetch is not None or self.load is not None or self.retry_at is not None

    def ask(self, of: int, epoch: int, offset: int, last_epoch: int) -> FetchFrom:
        """The next fetch, which alone counts from now on."""
        self._number += 1
        self.fetch = FetchFrom(self._number, of, epoch, offset, last_epoch)
        return self.fetch
