"""Placement: the examples of the mission, balance, racks, refusals."""

from collections import Counter

import pytest

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.placement import Candidate, alternate_racks, round_robin


def brokers(count: int) -> list[Candidate]:
    return [Candidate(broker_id) for broker_id in range(1, count + 1)]


@pytest.mark.covers("T2")
def test_three_brokers_three_partitions() -> None:
    assert round_robin(brokers(3), range(3), 3, 0) == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


@pytest.mark.covers("T2")
def test_successive_topics_start_at_successive_brokers() -> None:
    assert [round_robin(brokers(3), range(1), 3, start)[0][0] for start in range(4)] == [1, 2, 3, 1]


@pytest.mark.covers("T12", "T13")
@pytest.mark.parametrize(("count", "partitions", "factor"), [(3, 3, 3), (3, 6, 2), (5, 10, 3), (1, 3, 1), (5, 50, 3)])
def test_every_partition_is_placed_evenly_without_duplicates(count: int, partitions: int, factor: int) -> None:
    placed = round_robin(brokers(count), range(partitions), factor, 0)
    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor == len(replicas) for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    replicas_of = Counter(broker for replicas in placed for broker in replicas)
    assert set(leaders.values()) == {partitions // count}
    assert set(replicas_of.values()) == {partitions * factor // count}
    assert placed == round_robin(list(reversed(brokers(count))), range(partitions), factor, 0)


@pytest.mark.covers("T13")
def test_five_brokers_fifty_partitions_give_ten_leaders_and_thirty_replicas_each() -> None:
    placed = round_robin(brokers(5), range(50), 3, 0)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(1, 6), 10)
    assert Counter(broker for replicas in placed for broker in replicas) == dict.fromkeys(range(1, 6), 30)


def test_the_followers_of_one_leader_spread_over_all_others() -> None:
    placed = round_robin(brokers(5), range(50), 2, 0)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3, 4, 5}


def test_more_partitions_continue_the_pattern() -> None:
    assert round_robin(brokers(3), range(2, 6), 2, 1) == round_robin(brokers(3), range(6), 2, 1)[2:]


RACKED = [
    Candidate(1, "a"),
    Candidate(2, "a"),
    Candidate(3, "b"),
    Candidate(4, "b"),
    Candidate(5, "c"),
    Candidate(6, "c"),
]


def test_replicas_spread_over_racks_and_stay_even() -> None:
    racks = {candidate.broker_id: candidate.rack for candidate in RACKED}
    placed = round_robin(RACKED, range(30), 3, 0)
    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in placed)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(1, 7), 5)
    assert Counter(broker for replicas in placed for broker in replicas) == dict.fromkeys(range(1, 7), 15)


def test_with_fewer_racks_than_replicas_every_rack_is_used() -> None:
    two = [Candidate(1, "a"), Candidate(2, "a"), Candidate(3, "b"), Candidate(4, "b")]
    racks = {candidate.broker_id: candidate.rack for candidate in two}
    for replicas in round_robin(two, range(8), 3, 0):
        assert {racks[broker] for broker in replicas} == {"a", "b"}


def test_racks_alternate() -> None:
    assert [c.broker_id for c in alternate_racks(RACKED)] == [1, 3, 5, 2, 4, 6]
    assert [c.broker_id for c in alternate_racks([Candidate(2), Candidate(1)])] == [1, 2]


@pytest.mark.covers("T12", "T14")
@pytest.mark.parametrize(
    ("count", "factor", "what"),
    [
        (0, 1, "All brokers are currently fenced"),
        (1, 3, "factor of 3 cannot be reached because only 1 broker"),
        (3, 0, "must be positive"),
    ],
)
def test_what_cannot_be_placed_is_an_error(count: int, factor: int, what: str) -> None:
    with pytest.raises(ApiError, match=what) as refused:
        round_robin(brokers(count), range(1), factor, 0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
