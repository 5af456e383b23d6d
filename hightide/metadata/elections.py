"""Who leads a partition with the in-sync commit rule, and who may (R7).

The order: the first live in-sync member in assignment order; then the first live eligible leader replica; then, when
nobody of either set is left and everybody in the last known set is back, the one with the longest log among them;
then, where the topic allows it, the live replica with the longest log; else nobody. The last two can lose records and
say so.

The three sets after a change, `min` being min.insync.replicas or the number of replicas if that is smaller:

| in sync      | eligible                                  | last known                              |
|--------------|-------------------------------------------|-----------------------------------------|
| >= min       | nobody: commits go on without the others  | nobody: the same                        |
| < min        | who had everything before, and still does | as before, and who was removed in doubt |
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from hightide.metadata.entities import LOST_DIRECTORY, Partition
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_BROKER, PartitionKey
from hightide.wire.messages.metadata_log import PartitionChangeRecord

LogEnds = Mapping[int, tuple[int, int]]  # broker id → (last epoch, log end), as far as brokers have told
Live = Callable[[int], bool]


class Removal(Enum):
    """Why a replica leaves the in-sync and the eligible set, beyond its broker being away."""

    DOUBTED = "an unclean restart in `replicated`, doubt, an offline directory: it may hold everything"
    LOST = "another directory, an old stored epoch, an end below the checkpointed high watermark: it does not"
    QUARANTINED = "corrupt below what was synced: it is refetched from a peer, if there is one (R17)"


class Elected(NamedTuple):
    """A leader, and whether its log may miss acknowledged records."""

    leader: int
    possible_loss: bool = False


NOBODY: Final = Elected(NO_BROKER)
NOTHING_REMOVED: Final[Mapping[int, Removal]] = {}


def choose_leader(
    partition: Partition,
    live: Live,
    *,
    unclean_allowed: bool = False,
    log_ends: LogEnds | None = None,
    back: Live | None = None,
    willing: Live | None = None,
    rules: Rules = ALL_ON,
) -> Elected:
    """The leader by R7; NOBODY leaves the partition offline.

    `live`: may be in sync and lead. `back`: counts as returned when the last known are waited for. `willing`: can lead
    where the topic prefers any leader to none. Both are as `live` unless they are given.
    """
    sets: list[Collection[int]] = [partition.in_sync_replicas, partition.eligible_leader_replicas]
    if not rules.r7_leader_has_everything:
        sets = [partition.replicas]
    for members in sets:
        for replica in partition.replicas:
            if replica in members and live(replica):
                return Elected(replica)
    known = partition.last_known_eligible
    nobody_eligible = not partition.in_sync_replicas and not partition.eligible_leader_replicas
    if nobody_eligible and known:
        is_back = [(back or live)(replica) for replica in known]
        if all(is_back) or (any(is_back) and not rules.r7_all_last_known_back):
            leader = _longest([r for r in known if _may_return(partition, r, live, rules)], partition, log_ends, rules)
            if leader != NO_BROKER:
                return Elected(leader, possible_loss=True)
    if unclean_allowed or not rules.r7_unclean_only_if_allowed:
        candidates = [replica for replica in partition.replicas if (willing or live)(replica)]
        leader = _longest(candidates, partition, log_ends, rules)
        if leader != NO_BROKER:
            return Elected(leader, possible_loss=True)
    return NOBODY


def eligible_leaders(
    partition: Partition,
    in_sync: Iterable[int],
    min_in_sync: int,
    removed: Collection[int] = (),
    rules: Rules = ALL_ON,
) -> tuple[int, ...]:
    """The eligible set beside a new in-sync set: nobody when that is large enough, else whoever had everything."""
    members = set(in_sync)
    if len(members) >= min_in_sync and rules.r7_eligible_empty_at_minimum:
        return ()
    gone = removed if rules.r7_removed_are_not_eligible else ()
    return tuple(replica for replica in partition.members if replica not in members and replica not in gone)


def last_known(
    partition: Partition, in_sync: Collection[int], min_in_sync: int, removed: Collection[int] = ()
) -> tuple[int, ...]:
    """The last known set beside a new in-sync set: whoever may hold the newest records, though nobody can be sure."""
    if len(in_sync) >= min_in_sync or not (partition.last_known_eligible or removed):
        return ()
    held = {*partition.last_known_eligible, *(member for member in partition.members if member in removed)}
    return tuple(replica for replica in partition.replicas if replica in held and replica not in in_sync)


def elect(
    key: PartitionKey,
    partition: Partition,
    live: Live,
    min_in_sync: int,
    *,
    unclean_allowed: bool = False,
    log_ends: LogEnds | None = None,
    back: Live | None = None,
    willing: Live | None = None,
    removed: Mapping[int, Removal] = NOTHING_REMOVED,
    directory: Callable[[int], bytes] | None = None,
    rules: Rules = ALL_ON,
) -> tuple[PartitionChangeRecord, Elected] | None:
    """What must be committed so that only live members are in sync and somebody live leads, or None when all is well.

    `removed` names replicas that lose their place in every set, `directory` where a broker keeps its logs now.
    Idempotent (C21): the record's outcome, judged again, needs no record.
    """
    in_sync = tuple(r for r in partition.in_sync_replicas if live(r) and r not in removed)
    if partition.leader in in_sync and in_sync == partition.in_sync_replicas and not removed:
        return None
    gone = _leaving(partition, removed, rules)
    after = (_marked(partition, removed) if removed else partition)._replace(
        in_sync_replicas=in_sync,
        eligible_leader_replicas=eligible_leaders(partition, in_sync, min_in_sync, gone, rules),
        last_known_eligible=last_known(partition, in_sync, min_in_sync, gone),
    )
    elected = Elected(partition.leader)
    if partition.leader not in in_sync:
        elected = choose_leader(
            after,
            lambda replica: live(replica) and replica not in removed,
            unclean_allowed=unclean_allowed,
            log_ends=log_ends,
            back=back,
            willing=willing,
            rules=rules,
        )
        after = led_by(after, elected, min_in_sync, directory, rules)
    record = partition.change_to(after, *key)
    return None if record is None else (record, elected)


def led_by(
    partition: Partition,
    elected: Elected,
    min_in_sync: int,
    directory: Callable[[int], bytes] | None = None,
    rules: Rules = ALL_ON,
) -> Partition:
    """The partition with another leader. After a possible loss the logs of former members may have gone another way."""
    leader = elected.leader
    after = partition._replace(leader=leader)
    if leader == NO_BROKER or leader in partition.in_sync_replicas:
        return after
    in_sync = (leader,)
    if directory is not None and partition.directory_of(leader) == LOST_DIRECTORY:
        after = after.with_directory(leader, directory(leader))
    return after._replace(
        in_sync_replicas=in_sync,
        eligible_leader_replicas=()
        if elected.possible_loss
        else eligible_leaders(partition, in_sync, min_in_sync, rules=rules),
        last_known_eligible=() if elected.possible_loss else last_known(partition, in_sync, min_in_sync),
    )


def _leaving(partition: Partition, removed: Mapping[int, Removal], rules: Rules) -> Collection[int]:
    """Who loses its place in both sets. The only member is not given up for corruption: nobody has more (R17)."""
    if not removed:
        return ()
    if rules.r17_last_member_stays:
        only = partition.members if len(partition.members) == 1 else ()
        return {r for r, why in removed.items() if why is not Removal.QUARANTINED or r not in only}
    return set(removed)


def _marked(partition: Partition, removed: Mapping[int, Removal]) -> Partition:
    """Whoever lost data never leads as one of the last known, until it was in sync again."""
    for replica, why in removed.items():
        if why is not Removal.DOUBTED and replica in partition.replicas:
            partition = partition.with_directory(replica, LOST_DIRECTORY)
    return partition


def _may_return(partition: Partition, replica: int, live: Live, rules: Rules) -> bool:
    if not rules.r7_lost_never_return and partition.directory_of(replica) == LOST_DIRECTORY:
        return True
    return live(replica) and partition.directory_of(replica) != LOST_DIRECTORY


def _longest(candidates: Collection[int], partition: Partition, log_ends: LogEnds | None, rules: Rules) -> int:
    """The highest (epoch, end), ties in assignment order. Nobody while one of several has not told yet."""
    ordered = [replica for replica in partition.replicas if replica in candidates]
    ends = log_ends or {}
    if not rules.r7_longest_log_leads and ordered:
        return ordered[0]
    if len(ordered) > 1 and not all(replica in ends for replica in ordered):
        return NO_BROKER
    return max(ordered, key=lambda r: (ends.get(r, (-1, -1)), -ordered.index(r)), default=NO_BROKER)
