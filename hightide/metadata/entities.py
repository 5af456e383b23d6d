"""What the cluster consists of: brokers, topics, partitions, replicas. Immutable values, made from and into records.

Only what the cluster agreed on is in here. What the controller alone observes (the last heartbeat, say) is not, so it
can never travel (C6).
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from hightide.types import NO_BROKER, NO_EPOCH, ZERO_UUID, format_uuid
from hightide.wire.messages.metadata_log import (
    BrokerEndpoint,
    BrokerFeature,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

T = TypeVar("T")
UNASSIGNED_DIRECTORY: Final = ZERO_UUID
LOST_DIRECTORY: Final = bytes(15) + b"\x01"  # Kafka's DirectoryId.LOST: what the replica had is gone for good (R7)
RESERVED_DIRECTORIES: Final = frozenset(bytes(15) + bytes([last]) for last in range(100))  # as in Kafka's DirectoryId
LEADER_UNCHANGED: Final = -2
CLUSTER_DEFAULT: Final = ""  # the name of the resource BROKER that stands for all brokers


class ResourceType(IntEnum):
    """What settings belong to, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4


class Resource(NamedTuple):
    """A topic by name, a broker by its id as text, or all brokers by the empty name."""

    type: ResourceType
    name: str


class ReplicaKey(NamedTuple):
    """The name of a replica (C4)."""

    broker_id: int
    topic_id: bytes
    partition: int


class Replica(NamedTuple):
    """A replica and its part in the partition."""

    key: ReplicaKey
    is_leader: bool
    in_sync: bool


class Endpoint(NamedTuple):
    """An address that a broker advertises."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class Feature(NamedTuple):
    """A feature level range that a broker supports."""

    name: str
    minimum: int
    maximum: int


class Broker(NamedTuple):
    """One registration: `epoch` names this life of the process (R8)."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    directories: tuple[bytes, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False
    unfenced_epoch: int = NO_EPOCH
    """The newest of its epochs that was ever unfenced: a disk that remembers only an older one is out of date (R8)."""

    @property
    def live(self) -> bool:
        """Whether it may lead partitions and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, name: str) -> Endpoint | None:
        """The address behind a listener's name."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == name), None)

    def directory(self) -> bytes:
        """Where a new replica goes: the broker's only directory, else the broker will say."""
        return self.directories[0] if len(self.directories) == 1 else UNASSIGNED_DIRECTORY

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> "Broker":
        """The registration that a record tells."""
        return cls(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            tuple(Feature(f.name, f.min_supported_version, f.max_supported_version) for f in record.features),
            record.rack,
            tuple(record.log_dirs),
            record.fenced,
            record.in_controlled_shutdown,
            record.unfenced_epoch,
        )

    def to_record(self) -> RegisterBrokerRecord:
        """The record that tells this registration."""
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            incarnation_id=self.incarnation_id,
            end_points=[
                BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.endpoints
            ],
            features=[
                BrokerFeature(name=f.name, min_supported_version=f.minimum, max_supported_version=f.maximum)
                for f in self.features
            ],
            rack=self.rack,
            log_dirs=list(self.directories),
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            unfenced_epoch=self.unfenced_epoch,
        )


class Partition(NamedTuple):
    """One partition. `replicas` and `directories` run in parallel; I9 says how the sets relate."""

    replicas: tuple[int, ...]
    directories: tuple[bytes, ...]
    in_sync_replicas: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_eligible: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    whole_logs_synced: bool = True
    """False from a switch to fsync until every in-sync member reported its whole log synced (R23)."""

    @property
    def has_leader(self) -> bool:
        """Whether anybody leads it."""
        return self.leader != NO_BROKER

    @property
    def members(self) -> tuple[int, ...]:
        """Whoever may lead without loss: the in-sync and the eligible, in assignment order."""
        return tuple(
            replica
            for replica in self.replicas
            if replica in self.in_sync_replicas or replica in self.eligible_leader_replicas
        )

    def directory_of(self, replica: int) -> bytes:
        """The directory of a replica's log."""
        return self.directories[self.replicas.index(replica)]

    def with_directory(self, replica: int, directory: bytes) -> "Partition":
        """The partition with one replica's log elsewhere."""
        directories = list(self.directories)
        directories[self.replicas.index(replica)] = directory
        return self._replace(directories=tuple(directories))

    @classmethod
    def from_record(cls, record: PartitionRecord) -> "Partition":
        """The partition that a record tells."""
        return cls(
            tuple(record.replicas),
            tuple(record.directories) or (UNASSIGNED_DIRECTORY,) * len(record.replicas),
            tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            record.leader_recovery_state,
            record.whole_logs_synced,
        )

    def to_record(self, topic_id: bytes, partition: int) -> PartitionRecord:
        """The record that tells this partition."""
        return PartitionRecord(
            topic_id=topic_id,
            partition_id=partition,
            replicas=list(self.replicas),
            directories=list(self.directories),
            isr=list(self.in_sync_replicas),
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            eligible_leader_replicas=list(self.eligible_leader_replicas) or None,
            last_known_elr=list(self.last_known_eligible) or None,
            adding_replicas=list(self.adding_replicas),
            removing_replicas=list(self.removing_replicas),
            leader_recovery_state=self.leader_recovery_state,
            whole_logs_synced=self.whole_logs_synced,
        )

    def merged(self, change: PartitionChangeRecord) -> "Partition":
        """The partition after a change. Naming a leader, the same one too, begins a new leader epoch (R8, C22)."""
        elected = change.leader != LEADER_UNCHANGED
        state = change.leader_recovery_state
        return Partition(
            _merged(self.replicas, change.replicas),
            _merged(self.directories, change.directories),
            _merged(self.in_sync_replicas, change.isr),
            change.leader if elected else self.leader,
            self.leader_epoch + elected,
            self.partition_epoch + 1,
            _merged(self.eligible_leader_replicas, change.eligible_leader_replicas),
            _merged(self.last_known_eligible, change.last_known_elr),
            _merged(self.adding_replicas, change.adding_replicas),
            _merged(self.removing_replicas, change.removing_replicas),
            self.leader_recovery_state if state < 0 else state,
            self.whole_logs_synced if change.whole_logs_synced < 0 else change.whole_logs_synced > 0,
        )

    def change_to(self, other: "Partition", topic_id: bytes, partition: int) -> PartitionChangeRecord | None:
        """The record that turns this partition into another, None when nothing differs; epochs follow by themselves."""
        if other == self:
            return None
        record = PartitionChangeRecord(topic_id=topic_id, partition_id=partition)
        if other.in_sync_replicas != self.in_sync_replicas:
            record.isr = list(other.in_sync_replicas)
        if other.leader != self.leader:
            record.leader = other.leader
        if other.eligible_leader_replicas != self.eligible_leader_replicas:
            record.eligible_leader_replicas = list(other.eligible_leader_replicas)
        if other.last_known_eligible != self.last_known_eligible:
            record.last_known_elr = list(other.last_known_eligible)
        if other.directories != self.directories:
            record.directories = list(other.directories)
        if other.whole_logs_synced != self.whole_logs_synced:
            record.whole_logs_synced = int(other.whole_logs_synced)
        return record


class Topic(NamedTuple):
    """A topic; the index in `partitions` is the partition's id: from 0, without gaps (C2)."""

    name: str
    topic_id: bytes
    partitions: tuple[Partition, ...] = ()


def partition_cluster_id(topic_id: bytes, partition: int) -> str:
    """C3: the name of a partition's replica set: 128 bits of BLAKE2b over its identity, printed as Kafka prints ids."""
    from hashlib import blake2b

    return format_uuid(blake2b(topic_id + partition.to_bytes(4, "big"), digest_size=16).digest())


def _merged(old: tuple[T, ...], new: list[T] | None) -> tuple[T, ...]:
    return old if new is None else tuple(new)
