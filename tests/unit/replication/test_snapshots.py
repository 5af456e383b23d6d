"""Where a follower stands in the leader's log."""

import pytest

from hightide.replication.snapshots import EpochEnd, SnapshotId, check_position, truncation_point
from tests.unit.replication.replicas import EpochLog

# R1's example: leader e0[0,10) e1[10,15) e3[15,30), follower e0[0,10) e2[10,25).
LEADER = EpochLog((0, 0), (1, 10), (3, 15), end=30)
FOLLOWER = EpochLog((0, 0), (2, 10), end=25)


@pytest.mark.parametrize(("offset", "last_epoch"), [(0, -1), (10, 0), (4, 0), (15, 1), (30, 3)])
def test_on_the_leaders_log(offset: int, last_epoch: int) -> None:
    assert check_position(LEADER, None, offset, last_epoch) is None


def test_the_example_of_rule_1() -> None:
    diverging = check_position(LEADER, None, 25, 2)
    assert diverging == EpochEnd(1, 15)
    assert truncation_point(FOLLOWER, diverging) == 10
    assert check_position(LEADER, None, 10, 0) is None


def test_a_tail_of_the_same_epoch_that_the_leader_lost() -> None:
    diverging = check_position(LEADER, None, 40, 3)
    assert diverging == EpochEnd(3, 30)
    assert truncation_point(EpochLog((0, 0), (1, 10), (3, 15), end=40), diverging) == 30


def test_an_epoch_the_leader_never_heard_of() -> None:
    diverging = check_position(LEADER, None, 33, 7)
    assert diverging == EpochEnd(3, 30)
    assert truncation_point(EpochLog((0, 0), (1, 10), (3, 15), (7, 28), end=33), diverging) == 28


def test_no_common_epoch_drops_the_log() -> None:
    diverging = check_position(EpochLog((3, 0), end=10), None, 5, 1)
    assert isinstance(diverging, EpochEnd)
    assert truncation_point(EpochLog((1, 0), end=5), diverging) == 0
    assert truncation_point(EpochLog((2, 0), end=5), EpochEnd(1, 3)) == 0


SNAPSHOT = SnapshotId(12, 1)
CUT = EpochLog((1, 12), (3, 15), end=30, start=12)


@pytest.mark.parametrize(("offset", "last_epoch"), [(0, -1), (11, 1), (12, 0), (20, 0), (12, 2)])
def test_before_the_leaders_start_a_snapshot_is_needed(offset: int, last_epoch: int) -> None:
    assert check_position(CUT, SNAPSHOT, offset, last_epoch) == SNAPSHOT


@pytest.mark.parametrize(("offset", "last_epoch"), [(12, 1), (15, 1), (14, 1), (30, 3)])
def test_whoever_loaded_it_goes_on(offset: int, last_epoch: int) -> None:
    assert check_position(CUT, SNAPSHOT, offset, last_epoch) is None


def test_above_the_start_it_is_a_divergence_like_any_other() -> None:
    assert check_position(CUT, SNAPSHOT, 20, 1) == EpochEnd(1, 15)


def test_a_cut_log_without_a_snapshot_is_an_error() -> None:
    with pytest.raises(ValueError, match="stands on no snapshot"):
        check_position(CUT, None, 3, 1)
