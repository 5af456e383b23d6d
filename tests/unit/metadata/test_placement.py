"""Placement: the examples of the mission, balance, racks, refusals."""

import sys
from collections import Counter
from collections.abc import Sequence
from types import ModuleType

import pytest

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.placement import (
    PLACEMENTS,
    Candidate,
    Placement,
    alternate_racks,
    check_placed,
    consistent_hash,
    load_aware,
    placement_named,
    plain_round_robin,
    round_robin,
)
from hightide.wire.messages.create_topics import CreatableTopic
from tests.metadata_quorum import Quorum

EVEN = {name: strategy for name, strategy in PLACEMENTS.items() if strategy is not consistent_hash}


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


@pytest.mark.covers("T12", "T13")
@pytest.mark.parametrize("strategy", EVEN.values(), ids=EVEN)
@pytest.mark.parametrize(("count", "partitions", "factor"), [(3, 3, 3), (3, 6, 2), (5, 10, 3), (1, 3, 1), (5, 50, 3)])
def test_strategies_that_count_are_even_on_an_empty_cluster(
    strategy: Placement, count: int, partitions: int, factor: int
) -> None:
    placed = strategy(brokers(count), range(partitions), factor, 0)
    check_placed(placed, brokers(count), range(partitions), factor)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {partitions // count}
    assert set(Counter(b for replicas in placed for b in replicas).values()) == {partitions * factor // count}
    assert placed == strategy(list(reversed(brokers(count))), range(partitions), factor, 0)


def test_load_aware_fills_the_empty_brokers_first() -> None:
    loaded = [Candidate(1, None, 30, 10), Candidate(2, None, 30, 10), Candidate(3), Candidate(4)]
    placed = load_aware(loaded, range(10), 2, 0)
    assert {broker for replicas in placed for broker in replicas} == {3, 4}
    assert Counter(replicas[0] for replicas in placed) == {3: 5, 4: 5}


def test_load_aware_spreads_over_racks_before_it_looks_at_load() -> None:
    candidates = [Candidate(1, "a"), Candidate(2, "a"), Candidate(3, "b", 50, 50)]
    for replicas in load_aware(candidates, range(4), 2, 0):
        assert 3 in replicas


def test_plain_round_robin_does_not_look_at_racks() -> None:
    same = [Candidate(1, "a"), Candidate(2, "a"), Candidate(3, "b")]
    assert plain_round_robin(same, range(3), 2, 0) == [[1, 2], [2, 3], [3, 1]]
    assert round_robin(same, range(1), 2, 0) == [[1, 3]]


@pytest.mark.covers("C7", "N12")
def test_consistent_hash_moves_about_one_nth_when_a_broker_comes_or_goes() -> None:
    before = consistent_hash(brokers(5), range(1000), 3, 7)
    check_placed(before, brokers(5), range(1000), 3)
    assert before == consistent_hash(list(reversed(brokers(5))), range(1000), 3, 7)
    assert min(Counter(broker for replicas in before for broker in replicas).values()) > 500  # of 600 on average
    after = consistent_hash(brokers(6), range(1000), 3, 7)
    moved = sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True))
    assert 0.8 * 3000 / 6 < moved < 1.2 * 3000 / 6
    assert all(set(new) - set(old) <= {6} for old, new in zip(before, after, strict=True))


def test_consistent_hash_takes_racks_that_are_missing_first() -> None:
    candidates = [Candidate(1, "a"), Candidate(2, "a"), Candidate(3, "b")]
    for replicas in consistent_hash(candidates, range(20), 2, 0):
        assert 3 in replicas


@pytest.mark.covers("C7", "T17")
def test_the_strategy_of_the_cluster_and_of_one_topic() -> None:
    quorum = Quorum({"hightide.placement": "load-aware"})
    quorum.start(1, 2)
    quorum.create("crowd", 4, 2)
    quorum.start(3, 4)
    quorum.create("by.load", 2, 2)
    assert {broker for p in quorum.topic("by.load").partitions for broker in p.replicas} == {3, 4}
    quorum.create("by.turns", 4, 1, configs={"hightide.placement": "round-robin"})
    assert sorted(p.replicas[0] for p in quorum.topic("by.turns").partitions) == [1, 2, 3, 4]


def test_topics_of_one_request_count_for_each_other() -> None:
    quorum = Quorum({"hightide.placement": "load-aware"})
    quorum.start(1, 2, 3)
    topics = [CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=1) for n in range(6)]
    quorum.create_all(topics)
    assert Counter(quorum.partition(f"t{n}").leader for n in range(6)) == {1: 2, 2: 2, 3: 2}


def smallest_first(
    candidates: Sequence[Candidate], partitions: range, replication_factor: int, start: int
) -> list[list[int]]:
    """A strategy of somebody's own."""
    ids = sorted(candidate.broker_id for candidate in candidates)
    return [ids[:replication_factor] for _ in partitions]


def wrong(candidates: Sequence[Candidate], partitions: range, replication_factor: int, start: int) -> list[list[int]]:
    """A strategy with a mistake."""
    return [[7] * replication_factor for _ in partitions]


@pytest.mark.covers("T17")
def test_a_strategy_of_ones_own_plugs_in_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("own_placement")
    module.__dict__.update(smallest_first=smallest_first, wrong=wrong)
    monkeypatch.setitem(sys.modules, "own_placement", module)
    assert placement_named("own_placement:smallest_first") is smallest_first
    quorum = Quorum({"hightide.placement": "own_placement:smallest_first"})
    quorum.start(1, 2, 3)
    quorum.create("t", 2, 2)
    assert [p.replicas for p in quorum.topic("t").partitions] == [(1, 2), (1, 2)]
    refused = quorum.create("u", 1, 2, configs={"hightide.placement": "own_placement:wrong"}).topics[0]
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    missing = quorum.create("v", 1, 2, configs={"hightide.placement": "own_placement:nothing"}).topics[0]
    assert missing.error_code == ErrorCode.INVALID_CONFIG
    assert quorum.image.topic_named("u") is None
