"""R16, C13, C14: until when a leader may write."""

import pytest

from hightide.replication.leases import UNLIMITED, Lease, lease_seconds
from hightide.replication.replica import CommitRule, Replica
from hightide.rules import ALL_ON, Rules
from tests.unit.replication.replicas import EpochLog, fetch, granted, replica_on


def leader(lease: Lease, rules: Rules = ALL_ON) -> Replica:
    machine = Replica(
        1, CommitRule.IN_SYNC, end=10, synced_end=10, high_watermark=10, synced_only=True, rules=rules,
        log=EpochLog((3, 0), (4, 10), end=10), lease=lease,
    )  # fmt: skip
    machine.handle(granted(in_sync=(1, 2)))
    return machine


@pytest.mark.covers("C14")
def test_a_lease_runs_from_the_send_time_less_the_age() -> None:
    lease = Lease()
    lease.extended(sent_at=10.0, age=1.5, seconds=5.0)
    assert lease.until == 13.5


def test_answers_out_of_order_never_shorten_it() -> None:
    lease = Lease()
    lease.extended(10.0, 0.0, 5.0)
    lease.extended(9.0, 0.0, 5.0)
    assert lease.until == 15.0


def test_it_is_shorter_than_the_session() -> None:
    assert lease_seconds(6.0, drift=0.1) == pytest.approx(5.4)


@pytest.mark.covers("C13")
def test_a_leader_writes_until_its_lease_ends() -> None:
    machine = leader(Lease(until=5.0))
    assert machine.may_append(4.9)
    assert not machine.may_append(5.0)
    assert not machine.may_append(5.0, acks_all=False)
    assert leader(Lease(until=5.0), ALL_ON.without("r16_lease")).may_append(6.0)


@pytest.mark.covers("C13")
def test_a_lease_that_is_not_strict_lets_acks_all_go_on_while_every_member_is_heard() -> None:
    machine = leader(Lease(strict=False, until=5.0))
    assert not machine.may_append(6.0)
    fetch(machine, 2, 10)
    assert machine.may_append(6.0)
    assert not machine.may_append(6.0, acks_all=False)


def test_a_broker_with_its_own_controller_needs_none() -> None:
    assert replica_on(EpochLog(end=0)).lease is UNLIMITED
    assert replica_on(EpochLog(end=0)).may_append(1e12)
