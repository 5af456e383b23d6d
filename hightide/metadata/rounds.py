"""Elections of many partitions by one command: who is there is looked up once, then each partition is judged (R7)."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hightide.metadata.decision import View
from hightide.metadata.elections import NOTHING_REMOVED, Elected, Removal, elect
from hightide.metadata.entities import (
    LEADER_UNCHANGED,
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    Partition,
    Topic,
)
from hightide.metadata.replica_states import ReplicaState
from hightide.types import PartitionKey
from hightide.wire.message import LogRecord
from hightide.wire.messages.metadata_log import PartitionChangeRecord, PossibleLossRecord


class Elections(NamedTuple):
    """What a command did to partitions; `possible_losses` belongs in the log for people (R7)."""

    possible_losses: tuple[PartitionKey, ...] = ()


class Round:
    """Elections on one view. `without` and `including` are brokers that the same command takes out or lets in."""

    def __init__(self, view: View, *, without: Collection[int] = (), including: Collection[int] = ()) -> None:
        self._view = view
        brokers = view.image.brokers
        present = {broker.broker_id for broker in brokers.values() if broker.live}
        self._directories = {
            broker_id: frozenset(brokers[broker_id].directories)
            for broker_id in (present | set(including)) - set(without)
            if broker_id in brokers
        }
        self._settings: dict[bytes, tuple[int, bool]] = {}
        """What topics want, looked up once: the minimum in sync, and whether a leader is worth records."""
        self.records: list[LogRecord] = []
        self._losses: list[PartitionKey] = []

    @property
    def outcome(self) -> Elections:
        """What happened."""
        return Elections(tuple(self._losses))

    def elect_all(self, keys: Iterable[PartitionKey]) -> "Round":
        """Judge every one of these partitions."""
        for key in keys:
            self.elect(key)
        return self

    def elect(
        self,
        key: PartitionKey,
        removed: Mapping[int, Removal] = NOTHING_REMOVED,
        *,
        unclean: bool = False,
        new_epoch: bool = False,
    ) -> Elected | None:
        """Judge one partition; None when nothing changes. `unclean`: an operator allows it, whatever the topic says.

        `new_epoch`: whoever leads does so in a new leader epoch, to which nobody's former position means anything.
        """
        view = self._view
        topic = view.image.topics[key.topic_id]
        partition = topic.partitions[key.partition]
        minimum, unclean_allowed = self._settings_of(topic)
        outcome = elect(
            key,
            partition,
            lambda replica: self.is_usable(key, partition, replica),
            min(minimum, len(partition.replicas)),
            unclean_allowed=unclean or unclean_allowed,
            log_ends=None if partition.has_leader and not removed else view.facts.log_ends(key),
            back=lambda replica: self.is_back(key, partition, replica),
            willing=lambda replica: self.is_willing(key, partition, replica),
            removed=removed,
            directory=self.directory,
            rules=view.rules,
        )
        if outcome is None and new_epoch:
            outcome = (
                PartitionChangeRecord(topic_id=key.topic_id, partition_id=key.partition),
                Elected(partition.leader),
            )
        if outcome is None:
            return None
        record, elected = outcome
        if new_epoch and record.leader == LEADER_UNCHANGED:
            record.leader = partition.leader
        self._add(topic, partition, record, elected)
        return elected

    def _settings_of(self, topic: Topic) -> tuple[int, bool]:
        known = self._settings.get(topic.topic_id)
        if known is None:
            view = self._view
            known = (view.min_in_sync(topic), view.unclean_election_allowed(topic))
            self._settings[topic.topic_id] = known
        return known

    def _add(self, topic: Topic, partition: Partition, record: PartitionChangeRecord, elected: Elected) -> None:
        self.records.append(record)
        if elected.possible_loss:
            self._losses.append(PartitionKey(topic.topic_id, record.partition_id))
            self.records.append(
                PossibleLossRecord(
                    topic_id=topic.topic_id,
                    partition_id=record.partition_id,
                    leader=elected.leader,
                    leader_epoch=partition.leader_epoch + 1,
                )
            )

    def is_usable(self, key: PartitionKey, partition: Partition, replica: int) -> bool:
        """Whether a replica may be in sync and lead: its broker is live, its directory online, its log open."""
        directories = self._directories.get(replica)
        if directories is None or not _is_online(partition.directory_of(replica), directories):
            return False
        return self._view.facts.unready(replica, key) is None

    def is_back(self, key: PartitionKey, partition: Partition, replica: int) -> bool:
        """Whether nothing more is to be waited for from one of the last known: it is here, or what it had is gone."""
        directories = self._directories.get(replica)
        if directories is None:
            return False
        unready = self._view.facts.unready(replica, key)
        if unready is not None and unready.state is not ReplicaState.QUARANTINED:
            return False
        directory = partition.directory_of(replica)
        return directory == LOST_DIRECTORY or _is_online(directory, directories)

    def is_willing(self, key: PartitionKey, partition: Partition, replica: int) -> bool:
        """Whether a replica can lead at all, with whatever it has."""
        return self.is_back(key, partition, replica) and self._view.facts.unready(replica, key) is None

    def directory(self, broker_id: int) -> bytes:
        """Where a broker keeps its logs now."""
        return self._view.image.brokers[broker_id].directory()


def _is_online(directory: bytes, directories: frozenset[bytes]) -> bool:
    if directory in directories or directory == UNASSIGNED_DIRECTORY:
        return True
    return not directories and directory != LOST_DIRECTORY  # a broker that names no directory has one, unnamed
