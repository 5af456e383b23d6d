"""Who leads a partition with the in-sync commit rule, and who may (R7).

The order: the first live in-sync member in assignment order; then the first live eligible leader replica; then, when
nobody of either set is left and everybody in the last known set is back, the one with the longest log among them;
then, where the topic allows it, any live replica; else nobody. The last two can lose records and say so.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from hightide.metadata.entities import LEADER_UNCHANGED, Partition
from hightide.types import NO_BROKER, PartitionKey
from hightide.wire.messages.metadata_log import PartitionChangeRecord

LogEnds = Mapping[int, tuple[int, int]]  # broker id → (last epoch, log end), as far as brokers have told


class Elected(NamedTuple):
    """A leader, and whether its log may miss acknowledged records."""

    leader: int
    possible_loss: bool = False


NOBODY = Elected(NO_BROKER)


def choose_leader(
    partition: Partition,
    live: Callable[[int], bool],
    *,
    unclean_allowed: bool = False,
    log_ends: LogEnds | None = None,
) -> Elected:
    """The leader by R7; NOBODY leaves the partition offline."""
    for members in (partition.in_sync_replicas, partition.eligible_leader_replicas):
        for replica in partition.replicas:
            if replica in members and live(replica):
                return Elected(replica)
    known = partition.last_known_eligible
    nobody_eligible = not partition.in_sync_replicas and not partition.eligible_leader_replicas
    if nobody_eligible and known and all(live(replica) for replica in known):
        return Elected(_longest(partition, known, log_ends or {}), possible_loss=True)
    candidates = [replica for replica in partition.replicas if live(replica)]
    if unclean_allowed and candidates:
        return Elected(_longest(partition, candidates, log_ends or {}), possible_loss=True)
    return NOBODY


def eligible_leaders(partition: Partition, in_sync: Iterable[int], min_in_sync: int) -> tuple[int, ...]:
    """The eligible set beside a new in-sync set: nobody when that is large enough, else whoever had everything."""
    members = set(in_sync)
    if len(members) >= min_in_sync:
        return ()
    had_everything = {*partition.in_sync_replicas, *partition.eligible_leader_replicas} - members
    return tuple(replica for replica in partition.replicas if replica in had_everything)


def elect(
    key: PartitionKey,
    partition: Partition,
    live: Callable[[int], bool],
    min_in_sync: int,
    *,
    unclean_allowed: bool = False,
    log_ends: LogEnds | None = None,
) -> tuple[PartitionChangeRecord, Elected] | None:
    """What must be committed so that only live members are in sync and somebody live leads, or None when all is well.

    Idempotent (C21): the record's outcome, judged again, needs no record.
    """
    in_sync = [replica for replica in partition.in_sync_replicas if live(replica)]
    elected = Elected(partition.leader)
    if partition.leader not in in_sync:
        elected = choose_leader(partition, live, unclean_allowed=unclean_allowed, log_ends=log_ends)
        if elected.leader != NO_BROKER and elected.leader not in in_sync:
            in_sync = [elected.leader]
    # After a possible loss the logs of former members may have gone another way than the new leader's.
    eligible = () if elected.possible_loss else eligible_leaders(partition, in_sync, min_in_sync)
    record = PartitionChangeRecord(topic_id=key.topic_id, partition_id=key.partition)
    if tuple(in_sync) != partition.in_sync_replicas:
        record.isr = in_sync
    if eligible != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = list(eligible)
    if elected.leader != partition.leader:
        record.leader = elected.leader
    if elected.leader != NO_BROKER and partition.last_known_eligible and record.leader != LEADER_UNCHANGED:
        record.last_known_elr = []
    changed = record.isr is not None or record.eligible_leader_replicas is not None
    return (record, elected) if changed or record.leader != LEADER_UNCHANGED else None


def _longest(partition: Partition, candidates: Iterable[int], log_ends: LogEnds) -> int:
    """The highest (epoch, end); where nobody told, assignment order decides."""
    allowed = set(candidates)
    ordered = [replica for replica in partition.replicas if replica in allowed]
    return max(ordered, key=lambda replica: (log_ends.get(replica, (-1, -1)), -partition.replicas.index(replica)))
