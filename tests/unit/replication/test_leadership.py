"""What a leader makes of its followers' positions: R2, R4, C16, C17, R25."""

import pytest

from hightide.errors import ErrorCode
from hightide.replication.effects import FailWaiting, HighWatermarkMoved, ProposeInSync, StartEpoch
from hightide.replication.events import (
    BrokersChanged,
    DurabilityChanged,
    FollowershipGranted,
    MinimumChanged,
)
from hightide.replication.replica import Replica
from hightide.rules import ALL_ON
from tests.unit.replication.replicas import BROKERS, BrokerFact, EpochLog, advance, fetch, granted, replica_on


def leader(
    *, end: int = 10, minimum: int = 1, in_sync: tuple[int, ...] = (1, 2, 3), synced_only: bool = True
) -> Replica:
    machine = replica_on(EpochLog((3, 0), (4, end), end=end), minimum=minimum, synced_only=synced_only)
    assert machine.handle(granted(in_sync=in_sync)) == [StartEpoch(4, end)]
    return machine


@pytest.mark.covers("C16", "T5")
def test_the_high_watermark_is_the_lowest_position_of_the_set() -> None:
    machine = leader()
    assert fetch(machine, 2, 10).effects == ()
    assert fetch(machine, 3, 6).effects == [HighWatermarkMoved(6)]
    assert fetch(machine, 3, 10).effects == [HighWatermarkMoved(10)]


def test_a_silent_member_blocks_and_one_outside_the_set_does_not() -> None:
    machine = leader(in_sync=(1, 2))
    assert fetch(machine, 2, 10).effects == [HighWatermarkMoved(10)]
    assert leader(in_sync=(1, 2, 3)).high_watermark == 0


def test_the_leaders_own_end_counts_when_it_is_synced() -> None:
    machine = leader(in_sync=(1, 2))
    fetch(machine, 2, 10)
    assert advance(machine, 12, synced_end=10) == []
    fetch(machine, 2, 12, last_epoch=4)
    assert machine.high_watermark == 10
    assert advance(machine, 12) == [HighWatermarkMoved(12)]


@pytest.mark.covers("C22", "C23")
@pytest.mark.parametrize(("epoch", "error"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_fetch_of_another_epoch_is_refused_and_counts_for_nothing(epoch: int, error: ErrorCode) -> None:
    machine = leader(in_sync=(1, 2))
    assert fetch(machine, 2, 10, leader_epoch=epoch).error is error
    assert machine.high_watermark == 0


def test_a_former_life_of_a_broker_counts_for_nothing() -> None:
    machine = leader(in_sync=(1, 2))
    assert fetch(machine, 2, 10, broker_epoch=99).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert machine.high_watermark == 0


def test_a_life_that_the_leader_has_not_heard_of_is_served_and_counts_when_metadata_names_it() -> None:
    machine = leader(in_sync=(1, 2))
    verdict = fetch(machine, 2, 10, broker_epoch=200)
    assert verdict.serves
    assert machine.high_watermark == 0
    assert machine.handle(BrokersChanged({**BROKERS, 2: BrokerFact(200)})) == [HighWatermarkMoved(10)]


def test_a_position_is_forgotten_with_the_epoch() -> None:
    machine = leader(in_sync=(1, 2))
    fetch(machine, 2, 8)
    assert machine.handle(granted(epoch=5, partition_epoch=8, in_sync=(1, 2))) == [StartEpoch(5, 10)]
    assert machine.high_watermark == 8
    fetch(machine, 2, 9, leader_epoch=5)
    assert machine.high_watermark == 9


def test_a_diverging_follower_is_sent_back_and_counts_for_nothing() -> None:
    machine = replica_on(EpochLog((0, 0), (1, 10), (3, 15), end=30))
    machine.handle(granted(in_sync=(1, 2)))
    verdict = fetch(machine, 2, 25, last_epoch=2)
    assert verdict.diverging == (1, 15)
    assert not verdict.serves
    assert machine.high_watermark == 0


@pytest.mark.parametrize(("offset", "last_epoch"), [(4, 3), (11, -1)])
def test_offsets_outside_the_log_are_out_of_range(offset: int, last_epoch: int) -> None:
    machine = replica_on(EpochLog((3, 5), end=10, start=5))
    machine.handle(granted())
    assert fetch(machine, 2, offset, last_epoch=last_epoch).error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_stranger_and_a_follower_are_no_leader() -> None:
    machine = leader()
    assert machine.on_follower_fetch(9, 109, 4, 10, 3, 0, 0.0, True).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    machine.handle(FollowershipGranted(2, 5, 8, (1, 2, 3), (2, 3)))
    assert fetch(machine, 3, 10, leader_epoch=5).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_fsync_topic_is_credited_from_a_synced_session_only() -> None:
    machine = leader(in_sync=(1, 2))
    assert fetch(machine, 2, 10, synced=False).serves
    assert machine.high_watermark == 0
    assert fetch(machine, 2, 10, synced=True).effects == [HighWatermarkMoved(10)]


def test_a_switch_to_fsync_waits_for_synced_sessions() -> None:
    machine = leader(in_sync=(1, 2), synced_only=False)
    fetch(machine, 2, 10, synced=False)
    assert machine.high_watermark == 10
    machine.handle(DurabilityChanged(True))
    advance(machine, 12)
    fetch(machine, 2, 12, synced=False, last_epoch=4)
    assert machine.high_watermark == 10


@pytest.mark.covers("T16", "C31")
def test_a_set_that_shrinks_below_the_minimum_fails_who_waits_and_commits_nothing() -> None:
    machine = leader(in_sync=(1, 2), minimum=2)
    fetch(machine, 2, 10)
    effects = machine.handle(granted(partition_epoch=8, in_sync=(1,)))
    assert effects == [FailWaiting(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]
    assert not machine.has_enough_in_sync
    assert advance(machine, 15) == []
    assert machine.handle(MinimumChanged(1)) == [HighWatermarkMoved(15)]


def test_a_raised_minimum_fails_who_waits() -> None:
    machine = leader(in_sync=(1, 2))
    assert machine.handle(MinimumChanged(3)) == [FailWaiting(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]


def test_a_deposed_leader_fails_who_waits() -> None:
    effects = leader().handle(FollowershipGranted(2, 5, 8, (1, 2, 3), (2, 3)))
    assert effects[0] == FailWaiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_proposed_member_counts_before_it_is_committed() -> None:
    machine = leader(in_sync=(1, 2))
    fetch(machine, 2, 10)
    verdict = fetch(machine, 3, 10)
    assert verdict.effects == [ProposeInSync(4, 7, ((1, 101), (2, 102), (3, 103)))]
    advance(machine, 12)
    fetch(machine, 2, 12, last_epoch=4)
    assert machine.high_watermark == 10


def test_without_that_rule_it_does_not() -> None:
    machine = replica_on(EpochLog((3, 0), (4, 10), end=12), rules=ALL_ON.without("r4_proposed_members_count"))
    machine.handle(granted(in_sync=(1, 2)))
    fetch(machine, 3, 12, last_epoch=4)
    fetch(machine, 2, 12, last_epoch=4)
    assert machine.high_watermark == 12
