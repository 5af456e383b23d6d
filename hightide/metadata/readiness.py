"""Whether replicas are open: PENDING until their broker says so, READY, or NOT_READY with the reason (C8).

A heartbeat tells the metadata offset up to which the broker has opened everything assigned to it, and lists what it
could not open. So one number speaks for any number of replicas, and a new controller knows all after one heartbeat of
each broker. The creator of a topic can wait for its leaders or for all of its replicas (C9).
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from hightide.metadata.entities import Partition
from hightide.metadata.image import Delta, Image
from hightide.metadata.liveness import Liveness
from hightide.types import NO_BROKER, NO_OFFSET, PartitionKey


class Readiness(Enum):
    """How far a replica is."""

    PENDING = "pending"
    READY = "ready"
    NOT_READY = "not ready"


class ReplicaReadiness(NamedTuple):
    """One replica; `broker_id` is NO_BROKER where a leader is wanted and there is none."""

    key: PartitionKey
    broker_id: int
    state: Readiness
    reason: str = ""

    def __str__(self) -> str:
        who = "no broker leads it" if self.broker_id == NO_BROKER else f"broker {self.broker_id} is {self.state.value}"
        return f"partition {self.key.partition}: {who}" + (f": {self.reason}" if self.reason else "")


class ReadinessBoard:
    """When partitions were created, as far as it matters: for those older than `_floor` the floor stands in."""

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._created: dict[PartitionKey, int] = {}
        self._floor = NO_OFFSET

    def activated(self, offset: int) -> None:
        """A controller begins with the metadata up to this offset."""
        self._created = {}
        self._floor = offset

    def replayed(self, before: Image, delta: Delta, offset: int) -> None:
        """Note the partitions that a batch created."""
        for key in delta.partitions:
            if before.partition(*key) is None:
                self._created[key] = offset
        for topic in delta.topics_deleted:
            for number in range(len(topic.partitions)):
                self._created.pop(PartitionKey(topic.topic_id, number), None)

    def forget_old(self, image: Image) -> None:
        """Everybody has opened what is below some offset: no need to know when exactly it was created."""
        if not self._created:
            return
        sessions = [self._liveness.find(broker_id, broker.epoch) for broker_id, broker in image.brokers.items()]
        lowest = min((NO_OFFSET if session is None else session.applied_offset for session in sessions), default=-1)
        if lowest > self._floor:
            self._floor = lowest
            self._created = {key: offset for key, offset in self._created.items() if offset > lowest}

    def of(self, image: Image, key: PartitionKey, broker_id: int) -> ReplicaReadiness:
        """One replica's readiness."""
        unready = self._liveness.unready(broker_id, key)
        if unready is not None:
            return ReplicaReadiness(key, broker_id, Readiness.NOT_READY, unready.reason)
        broker = image.brokers.get(broker_id)
        session = None if broker is None else self._liveness.find(broker_id, broker.epoch)
        if session is None or session.applied_offset < self._created.get(key, self._floor):
            return ReplicaReadiness(key, broker_id, Readiness.PENDING)
        return ReplicaReadiness(key, broker_id, Readiness.READY)

    def awaited(self, image: Image, topic_ids: Iterable[bytes], wait: str) -> list[ReplicaReadiness]:
        """What the creator of topics still waits for; `wait` is a value of hightide.create.wait."""
        awaited = []
        for topic_id in topic_ids:
            topic = image.topics.get(topic_id)
            for number, partition in enumerate(topic.partitions if topic is not None else ()):
                key = PartitionKey(topic_id, number)
                for broker_id in _wanted(partition, wait):
                    readiness = self.of(image, key, broker_id)
                    if readiness.state is not Readiness.READY:
                        awaited.append(readiness)
        return awaited


def _wanted(partition: Partition, wait: str) -> Iterator[int]:
    if wait == "leaders":
        yield partition.leader
    elif wait == "all":
        yield from partition.replicas
