"""Joining and leaving the in-sync set, and how a proposal ends: R5, R6, R23, T4."""

import pytest

from hightide.errors import ErrorCode
from hightide.replication.effects import ProposeInSync
from hightide.replication.events import BrokersChanged, InSyncAnswered, TimePassed
from hightide.replication.replica import Replica
from hightide.rules import ALL_ON, Rules
from tests.unit.replication.replicas import BROKERS, BrokerFact, EpochLog, advance, fetch, granted, replica_on

JOIN = ProposeInSync(4, 7, ((1, 101), (2, 102), (3, 103)))
LEAVE = ProposeInSync(4, 7, ((1, 101), (2, 102)))


def leader(*, in_sync: tuple[int, ...] = (1, 2), high_watermark: int = 5, rules: Rules = ALL_ON) -> Replica:
    machine = replica_on(EpochLog((3, 0), (4, 10), end=10), high_watermark=high_watermark, rules=rules)
    machine.handle(granted(in_sync=in_sync))
    return machine


@pytest.mark.covers("T4")
def test_whoever_reached_high_watermark_and_epoch_start_may_join() -> None:
    assert fetch(leader(), 3, 10).effects == [JOIN]


@pytest.mark.covers("T4")
def test_the_high_watermark_alone_is_not_enough() -> None:
    """KAFKA-7128: above a new leader's high watermark lies what its predecessor acknowledged."""
    assert fetch(leader(), 3, 7).effects == ()
    assert fetch(leader(rules=ALL_ON.without("r5_join_at_epoch_start")), 3, 7).effects == [JOIN]


def test_a_fenced_broker_does_not_join_until_it_is_unfenced() -> None:
    machine = leader()
    machine.handle(BrokersChanged({**BROKERS, 3: BrokerFact(103, live=False)}))
    assert fetch(machine, 3, 10).effects == ()
    machine.handle(BrokersChanged(BROKERS))
    assert fetch(machine, 3, 10).effects == [JOIN]


def test_a_life_unknown_to_metadata_does_not_join() -> None:
    assert fetch(leader(), 3, 10, broker_epoch=200).effects == ()


@pytest.mark.covers("C20", "T4")
def test_a_member_that_is_not_caught_up_for_too_long_leaves() -> None:
    machine = leader(in_sync=(1, 2, 3))
    fetch(machine, 2, 10, now=1.0)
    fetch(machine, 3, 10, now=1.0)
    advance(machine, 20)
    fetch(machine, 2, 20, now=5.0, last_epoch=4)
    assert machine.handle(TimePassed(11.0)) == []
    assert machine.handle(TimePassed(11.5)) == [LEAVE]


def test_a_member_that_never_fetched_leaves_as_late() -> None:
    machine = leader(in_sync=(1, 2, 3))
    fetch(machine, 2, 10, now=9.0)
    assert machine.handle(TimePassed(10.0)) == []
    assert machine.handle(TimePassed(10.5)) == [LEAVE]


def test_an_idle_member_that_has_everything_stays() -> None:
    machine = leader(in_sync=(1, 2, 3))
    fetch(machine, 2, 10, now=1.0)
    fetch(machine, 3, 10, now=1.0)
    assert machine.handle(TimePassed(100.0)) == []


def test_a_member_that_is_always_one_fetch_behind_is_caught_up() -> None:
    """It never meets the end of a busy log, but has all that there was when it last asked."""
    machine = leader(in_sync=(1, 2, 3))
    for second in range(60):
        advance(machine, 10 + 10 * second, 10)
        fetch(machine, 2, 10 + 10 * max(0, second - 1), now=float(second), last_epoch=4)
        fetch(machine, 3, 10 + 10 * max(0, second - 1), now=float(second), last_epoch=4)
        assert machine.handle(TimePassed(float(second))) == []


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_UPDATE_VERSION],
)
def test_no_reply_ends_a_proposal(error: ErrorCode) -> None:
    machine = leader()
    fetch(machine, 2, 10)
    fetch(machine, 3, 10, now=1.0)
    assert machine.handle(InSyncAnswered(error, 1.1, 4, 8, (1, 2, 3))) == []
    assert machine.leadership is not None
    assert machine.leadership.maximal == {1, 2, 3}
    assert machine.in_sync_replicas == (1, 2)
    assert machine.handle(TimePassed(1.5)) == []
    assert machine.handle(TimePassed(2.0)) == [JOIN], "the same again until metadata answers"


def test_an_image_ends_a_proposal_whatever_it_says() -> None:
    machine = leader()
    fetch(machine, 3, 10)
    machine.handle(granted(partition_epoch=8, in_sync=(1, 2)))
    assert machine.leadership is not None
    assert machine.leadership.proposal is None
    assert machine.leadership.maximal == {1, 2}


def test_an_image_that_is_not_newer_ends_nothing() -> None:
    machine = leader()
    fetch(machine, 3, 10)
    machine.handle(granted(partition_epoch=7, in_sync=(1, 2)))
    assert machine.leadership is not None
    assert machine.leadership.maximal == {1, 2, 3}


def test_a_new_leader_epoch_ends_a_proposal() -> None:
    machine = leader()
    fetch(machine, 3, 10)
    machine.handle(granted(epoch=5, partition_epoch=8, in_sync=(1, 2)))
    assert machine.leadership is not None
    assert machine.leadership.maximal == {1, 2}


def test_a_topic_switched_to_fsync_is_reported_when_every_member_is_synced() -> None:
    machine = replica_on(EpochLog((3, 0), (4, 10), end=10))
    machine.handle(granted(in_sync=(1, 2))._replace(whole_logs_synced=False))
    assert machine.handle(TimePassed(1.0)) == []
    fetch(machine, 2, 10, now=1.5)
    report = LEAVE._replace(whole_logs_synced=True)
    assert machine.handle(TimePassed(2.0)) == [report]
    assert machine.handle(granted(partition_epoch=8, in_sync=(1, 2))) == []
    assert machine.handle(TimePassed(4.0)) == []


def test_deadlines_come_from_what_waits() -> None:
    machine = leader(in_sync=(1, 2, 3))
    assert machine.next_deadline == 5.0
    machine.handle(TimePassed(10.5))
    assert machine.next_deadline == 11.5


def test_a_sole_replica_reports_its_synced_log_too() -> None:
    machine = replica_on(EpochLog((3, 0), (4, 10), end=10))
    machine.handle(granted(in_sync=(1,))._replace(replicas=(1,), whole_logs_synced=False))
    assert machine.next_deadline == 1.0
    assert machine.handle(TimePassed(1.0)) == [ProposeInSync(4, 7, ((1, 101),), whole_logs_synced=True)]
    machine.handle(granted(partition_epoch=8, in_sync=(1,))._replace(replicas=(1,)))
    assert machine.next_deadline is None
