"""Followers of a compacted log (R20): who ends below the leader's tombstone horizon begins anew, nobody else does."""

import pytest

from hightide.replication.effects import ListAgain, RememberHorizon, RestartLogAt
from hightide.replication.events import FetchAnswered, FollowershipGranted
from hightide.replication.fetching import SERVED, NextFetch, judge_offsets
from hightide.rules import ALL_ON
from hightide.types import NO_EPOCH
from tests.unit.replication.replicas import EpochLog, replica_on

FOLLOWS = FollowershipGranted(2, 4, 7, (1, 2, 3), (1, 2, 3))


def compacted(horizon: int, *, end: int = 50) -> EpochLog:
    log = EpochLog((3, 0), end=end)
    log.tombstone_horizon = horizon
    return log


@pytest.mark.parametrize(
    ("offset", "known", "is_told"),
    [
        (29, 0, True),
        (30, 0, False),
        (29, 30, False),
        (29, 29, True),
        (0, 0, True),
        (50, -1, True),
        (29, -1, True),
        (29, 40, False),
    ],
)
def test_the_leader_tells_who_may_have_missed_a_tombstone(offset: int, known: int, is_told: bool) -> None:
    """`known`: the follower's own horizon, -1 when it does not even know that offsets may be missing."""
    verdict = judge_offsets(compacted(30), offset, 3, known)
    assert verdict.diverging == ((NO_EPOCH, 30) if is_told else None)


def test_a_log_that_never_was_compacted_has_no_horizon() -> None:
    assert judge_offsets(EpochLog((3, 0), end=50), 10, 3, -1) is SERVED


def test_without_the_rule_it_is_served() -> None:
    assert judge_offsets(compacted(30), 10, 3, 0, ALL_ON.without("r20_refetch_below_horizon")) is SERVED


def answer(offset: int, horizon: int) -> FetchAnswered:
    return FetchAnswered(4, offset, 1.0, diverging=(NO_EPOCH, horizon), high_watermark=45, log_start=5)


def test_a_follower_below_the_horizon_begins_anew() -> None:
    machine = replica_on(compacted(0, end=20), high_watermark=20)
    machine.handle(FOLLOWS)
    assert machine.next_fetch(0.0) == NextFetch(2, 4, 20, 3, 0, 0)
    assert machine.handle(answer(20, 30)) == [RestartLogAt(5), RememberHorizon(30), ListAgain()]
    assert machine.high_watermark == 20, "nothing else of the answer counts"


def test_a_follower_that_has_everything_only_learns_that_offsets_may_be_missing() -> None:
    machine = replica_on(EpochLog((3, 0), end=40), high_watermark=40)
    machine.handle(FOLLOWS)
    assert machine.handle(answer(40, 30)) == [RememberHorizon(0), ListAgain()]
