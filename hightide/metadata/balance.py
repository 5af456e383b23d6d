"""Preferred leaders: the first replica of an assignment leads whenever it can, so that load is where it was placed.

Moving a leader is voluntary: only to a member of the in-sync set that is live, never at the price of a record.
"""

from typing import Final

from hightide.metadata.decision import View
from hightide.metadata.entities import Partition
from hightide.metadata.rounds import Round
from hightide.types import PartitionKey
from hightide.wire.messages.metadata_log import PartitionChangeRecord

MOVES_AT_ONCE_MAX: Final = 1_000  # Kafka's limit: every move is a short pause of the partition


def prefers_another(partition: Partition) -> bool:
    """Whether somebody else leads than the assignment prefers."""
    return partition.has_leader and partition.leader != partition.replicas[0]


def preferred_election(partition: Partition, key: PartitionKey, round_: Round) -> PartitionChangeRecord | None:
    """The record that gives a partition its preferred leader; None when that one is not in sync or not live."""
    preferred = partition.replicas[0]
    if preferred not in partition.in_sync_replicas or not round_.is_usable(key, partition, preferred):
        return None
    return partition.change_to(partition._replace(leader=preferred), *key)


def balance_leaders(view: View) -> tuple[list[PartitionChangeRecord], bool]:
    """Moves for partitions led elsewhere than preferred, and whether there are more than may be done at once."""
    round_ = Round(view)
    records: list[PartitionChangeRecord] = []
    for topic in view.image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if not prefers_another(partition):
                continue
            if len(records) == MOVES_AT_ONCE_MAX:
                return records, True
            record = preferred_election(partition, PartitionKey(topic.topic_id, number), round_)
            if record is not None:
                records.append(record)
    return records, False
