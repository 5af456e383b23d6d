"""The replicas of new partitions: placed by a strategy, or written down by whoever asks."""

from collections import Counter
from collections.abc import Callable, Sequence

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.entities import UNASSIGNED_DIRECTORY, Partition
from hightide.metadata.image import Image
from hightide.metadata.placement import Candidate, Placement, check_placed

INVALID = ErrorCode.INVALID_REPLICA_ASSIGNMENT
Strategies = Callable[[str], Placement]  # a value of hightide.placement → the strategy


class Seats:
    """The live brokers as places for replicas. What one request has placed so far counts for what comes next."""

    def __init__(self, image: Image, strategies: Strategies) -> None:
        self._image = image
        self._strategies = strategies
        self._replicas: Counter[int] = Counter()
        self._leaders: Counter[int] = Counter()

    def candidates(self) -> list[Candidate]:
        """The live brokers, by id, with their load."""
        index = self._image.index
        return [
            Candidate(
                broker.broker_id,
                broker.rack,
                len(index.hosted_by(broker.broker_id)) + self._replicas[broker.broker_id],
                len(index.led_by(broker.broker_id)) + self._leaders[broker.broker_id],
            )
            for broker in self._image.live_brokers()
        ]

    def place(self, strategy: str, partitions: range, replication_factor: int, start: int) -> list[list[int]]:
        """The replicas of new partitions."""
        candidates = self.candidates()
        placed = self._strategies(strategy)(candidates, partitions, replication_factor, start)
        check_placed(placed, candidates, partitions, replication_factor)
        return placed

    def take(self, replicas: Sequence[int]) -> None:
        """A partition went there."""
        self._replicas.update(replicas)
        self._leaders[replicas[0]] += 1


def check_manual_assignment(image: Image, replicas: Sequence[int], replication_factor: int | None) -> None:
    """INVALID_REPLICA_ASSIGNMENT when a list of replicas cannot be, in Kafka's words."""
    if not replicas:
        raise ApiError(INVALID, "The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for replica in sorted(replicas):
        if replica not in image.brokers:
            what = f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            raise ApiError(INVALID, what)
        if replica in seen:
            raise ApiError(INVALID, f"The manual partition assignment includes the broker {replica} more than once.")
        seen.add(replica)
    if replication_factor is not None and len(replicas) != replication_factor:
        raise ApiError(
            INVALID,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s).",
        )


def new_partition(image: Image, replicas: Sequence[int], number: int) -> Partition:
    """A partition at its beginning: every live replica is in sync, the first of them leads."""
    in_sync = tuple(replica for replica in replicas if _live(image, replica))
    if not in_sync:
        raise ApiError(
            INVALID,
            f"All brokers specified in the manual partition assignment for partition {number} "
            "are fenced or in controlled shutdown.",
        )
    directories = tuple(_directory(image, replica) for replica in replicas)
    return Partition(tuple(replicas), directories, in_sync, in_sync[0])


def _live(image: Image, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.live


def _directory(image: Image, broker_id: int) -> bytes:
    broker = image.brokers.get(broker_id)
    return UNASSIGNED_DIRECTORY if broker is None else broker.directory()
