"""Where partitions are: by broker, by leader, and names that look alike. Updated by delta, equal to a rebuild (C5)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from hightide.metadata.entities import Partition, Topic
from hightide.metadata.frozen_map import FrozenMap
from hightide.types import PartitionKey


class PartitionChange(NamedTuple):
    """One partition before and after a batch; None where it did not or does not exist."""

    key: PartitionKey
    before: Partition | None
    after: Partition | None


class PartitionSet:
    """A set of partitions that never changes; membership and size in O(1), iteration by topic."""

    __slots__ = ("_count", "_topics")

    def __init__(self, topics: FrozenMap[bytes, frozenset[int]] | None = None, count: int = 0) -> None:
        self._topics: FrozenMap[bytes, frozenset[int]] = topics if topics is not None else FrozenMap()
        self._count = count

    def __contains__(self, key: PartitionKey) -> bool:
        partitions = self._topics.get(key.topic_id)
        return partitions is not None and key.partition in partitions

    def __iter__(self) -> Iterator[PartitionKey]:
        for topic_id, partitions in self._topics.items():
            for partition in sorted(partitions):
                yield PartitionKey(topic_id, partition)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSet) and (self._count, self._topics) == (other._count, other._topics)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PartitionSet({list(self)!r})"

    def changed(self, moves: Mapping[bytes, "_Move"]) -> "PartitionSet":
        """The set with partitions added and removed, topic by topic."""
        topics: dict[bytes, frozenset[int] | None] = {}
        count = self._count
        for topic_id, move in moves.items():
            before = self._topics.get(topic_id, _NONE)
            after = (before - move.removed) | move.added
            topics[topic_id] = after or None
            count += len(after) - len(before)
        return PartitionSet(self._topics.changed(topics), count)


class _Move(NamedTuple):
    added: set[int]
    removed: set[int]


class Index:
    """`hosted` and `led` by broker id; `led` under NO_BROKER are the partitions that nobody leads."""

    __slots__ = ("alike", "hosted", "led", "partition_count")

    def __init__(self) -> None:
        self.hosted: dict[int, PartitionSet] = {}
        self.led: dict[int, PartitionSet] = {}
        self.alike: FrozenMap[str, tuple[str, ...]] = FrozenMap()
        self.partition_count = 0

    def hosted_by(self, broker_id: int) -> PartitionSet:
        """The partitions that a broker has a replica of."""
        return self.hosted.get(broker_id, NO_PARTITIONS)

    def led_by(self, broker_id: int) -> PartitionSet:
        """The partitions that a broker leads."""
        return self.led.get(broker_id, NO_PARTITIONS)

    def colliding(self, name: str) -> tuple[str, ...]:
        """Topics whose names differ from this one in `.` and `_` only: their metrics would share a name."""
        return tuple(other for other in self.alike.get(folded(name), ()) if other != name)

    def changed(
        self, partitions: Iterable[PartitionChange], created: Iterable[Topic] = (), deleted: Iterable[Topic] = ()
    ) -> "Index":
        """The index after a batch."""
        hosted: dict[int, dict[bytes, _Move]] = {}
        led: dict[int, dict[bytes, _Move]] = {}
        index = Index()
        index.partition_count = self.partition_count
        for key, before, after in partitions:
            index.partition_count += (after is not None) - (before is not None)
            _note(hosted, key, before.replicas if before else (), after.replicas if after else ())
            _note(led, key, (before.leader,) if before else (), (after.leader,) if after else ())
        index.hosted = _moved(self.hosted, hosted)
        index.led = _moved(self.led, led)
        index.alike = self._names(created, deleted)
        return index

    def _names(self, created: Iterable[Topic], deleted: Iterable[Topic]) -> FrozenMap[str, tuple[str, ...]]:
        changes: dict[str, tuple[str, ...] | None] = {}
        for topics, exist in ((deleted, False), (created, True)):
            for topic in topics:
                name = folded(topic.name)
                others = changes[name] if name in changes else self.alike.get(name, ())
                kept = tuple(other for other in others or () if other != topic.name)
                changes[name] = tuple(sorted((*kept, topic.name) if exist else kept)) or None
        return self.alike.changed(changes)

    @classmethod
    def rebuilt(cls, topics: Iterable[Topic]) -> "Index":
        """The index made from nothing: what `changed` must agree with."""
        everything = list(topics)
        changes = [
            PartitionChange(PartitionKey(topic.topic_id, number), None, partition)
            for topic in everything
            for number, partition in enumerate(topic.partitions)
        ]
        return cls().changed(changes, created=everything)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


def folded(name: str) -> str:
    """A topic's name as metrics would write it."""
    return name.replace(".", "_")


def _note(moves: dict[int, dict[bytes, _Move]], key: PartitionKey, before: Iterable[int], after: Iterable[int]) -> None:
    old, new = set(before), set(after)
    for broker in old ^ new:
        move = moves.setdefault(broker, {}).setdefault(key.topic_id, _Move(set(), set()))
        (move.added if broker in new else move.removed).add(key.partition)


def _moved(sets: dict[int, PartitionSet], moves: dict[int, dict[bytes, _Move]]) -> dict[int, PartitionSet]:
    if not moves:
        return sets
    moved = dict(sets)
    for broker, topics in moves.items():
        after = sets.get(broker, NO_PARTITIONS).changed(topics)
        if after:
            moved[broker] = after
        else:
            moved.pop(broker, None)
    return moved


_NONE: Final[frozenset[int]] = frozenset()
NO_PARTITIONS: Final = PartitionSet()
