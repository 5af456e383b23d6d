"""What an elected leader knows of those who fetch from it: how far they are, and when they were heard of."""

from hightide.replication.voters import VoterSet
from hightide.types import NO_OFFSET

NEVER = float("-inf")


class Fetcher:
    """One voter or observer. `position`: everything below is on its disk, by the offset of its newest fetch (C17)."""

    __slots__ = ("caught_up_at", "contact", "fetched_at", "position")

    def __init__(self, now: float) -> None:
        self.position = NO_OFFSET
        self.fetched_at = now
        self.caught_up_at = NEVER
        self.contact = NEVER


class Progress:
    """The fetchers of one epoch, which began at `epoch_start`. Without a position nothing is known to be there (R4)."""

    __slots__ = ("_majority", "announce_at", "epoch_start", "observers", "voters")

    def __init__(self, node_id: int, voters: VoterSet, epoch_start: int, now: float) -> None:
        self.epoch_start = epoch_start
        self.announce_at = now
        self._majority = voters.majority
        self.voters = {voter: Fetcher(now) for voter in voters.ids if voter != node_id}
        self.observers: dict[int, Fetcher] = {}

    def fetcher(self, replica: int, counts: bool, now: float) -> Fetcher:
        """Whom to credit; only a voter on its own disk counts for anything."""
        if counts and replica in self.voters:
            return self.voters[replica]
        fetcher = self.observers.get(replica)
        if fetcher is None:
            fetcher = self.observers[replica] = Fetcher(now)
        return fetcher

    def position_of(self, replica: int) -> int:
        """How far a voter or observer is; -1 when that is not known."""
        fetcher = self.voters.get(replica) or self.observers.get(replica)
        return NO_OFFSET if fetcher is None else fetcher.position

    def silent_voters(self, since: float) -> list[int]:
        """Voters that never fetched in this epoch, or not since then."""
        return [voter for voter, fetcher in self.voters.items() if fetcher.position < 0 or fetcher.fetched_at <= since]

    def forget_observers(self, unheard_since: float) -> None:
        """Drop observers that went away, so that those who come and go leave nothing behind."""
        for replica in [key for key, fetcher in self.observers.items() if fetcher.fetched_at < unheard_since]:
            del self.observers[replica]

    def ends(self, own: int) -> list[int]:
        """Up to where each voter's log is on disk."""
        ends = [fetcher.position for fetcher in self.voters.values()]
        ends.append(own)
        return ends

    def majority_fetched_at(self, now: float) -> float:
        """The newest time since which a majority, the leader included, has been heard of."""
        return self._majority_time([fetcher.fetched_at for fetcher in self.voters.values()], now)

    def majority_contact(self, now: float) -> float:
        """R16's q: the newest time such that a majority answered to something the leader sent at or after it."""
        return self._majority_time([fetcher.contact for fetcher in self.voters.values()], now)

    def _majority_time(self, times: list[float], now: float) -> float:
        times.append(now)
        times.sort(reverse=True)
        return times[self._majority - 1]

    def successors(self) -> tuple[int, ...]:
        """The other voters, the one with the most first (EndQuorumEpoch's preferred candidates)."""
        return tuple(sorted(self.voters, key=lambda voter: (-self.voters[voter].position, voter)))
