"""Who belongs into the in-sync set: joining by position (R5), leaving by time (T4, C20).

The leader only proposes; the controller commits. One proposal is under way at a time and has one end: a replayed image
with a higher partition epoch, or a new leader epoch. Replies, time-outs and disconnects end nothing, since the attempt
they seem to end may still be committed (R6).
"""

from hightide.replication.effects import ProposeInSync
from hightide.replication.leadership import FollowerState, Leadership
from hightide.rules import Rules


def may_join(follower: FollowerState, *, epoch_start: int, high_watermark: int, rules: Rules) -> bool:
    """Whether a replica that just fetched has what an in-sync member must have.

    At or above the high watermark alone is not enough: a new leader's high watermark lags behind what its predecessor
    acknowledged, and only the start of its epoch is surely above that (KAFKA-7128).
    """
    if rules.r5_join_at_high_watermark and follower.position < high_watermark:
        return False
    if rules.r5_join_at_epoch_start and follower.position < epoch_start:
        return False
    return not rules.r5_join_live_only or (follower.is_live and follower.broker_epoch == follower.current_epoch)


def with_member(leadership: Leadership, leader_epoch: int, partition_epoch: int, joining: int) -> ProposeInSync:
    """The committed set and one more."""
    return _proposal(leadership, leader_epoch, partition_epoch, (*leadership.committed, joining))


def without_laggards(
    leadership: Leadership, leader_epoch: int, partition_epoch: int, end: int, now: float, lag_time_max: float
) -> ProposeInSync | None:
    """The committed set without those that lag, or None when nobody does."""
    followers = leadership.followers
    kept = tuple(
        member
        for member in leadership.committed
        if member not in followers or not followers[member].lags(end, now, lag_time_max)
    )
    if len(kept) == len(leadership.committed):
        return None
    return _proposal(leadership, leader_epoch, partition_epoch, kept)


def all_synced(leadership: Leadership, leader_epoch: int, partition_epoch: int) -> ProposeInSync | None:
    """R23's report that a topic switched to `fsync` is synced on all members, or None when it is not due."""
    if leadership.whole_logs_synced or not leadership.all_synced(leadership.committed):
        return None
    report = _proposal(leadership, leader_epoch, partition_epoch, leadership.committed)
    return report._replace(whole_logs_synced=True)


def _proposal(
    leadership: Leadership, leader_epoch: int, partition_epoch: int, members: tuple[int, ...]
) -> ProposeInSync:
    """Each member with the life of its broker that is meant, so that a later one is not let in by it (KIP-903)."""
    followers = leadership.followers
    in_sync = tuple(
        (member, followers[member].current_epoch if member in followers else leadership.own_broker_epoch)
        for member in members
    )
    return ProposeInSync(leader_epoch, partition_epoch, in_sync)
