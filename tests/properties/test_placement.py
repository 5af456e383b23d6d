"""Placement for any cluster: complete, without duplicates, even, deterministic, spread over racks (T12, T13)."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hightide.metadata.placement import Candidate, round_robin


@st.composite
def wishes(draw: st.DrawFn) -> tuple[list[Candidate], int, int, int]:
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
    choices: list[list[str | None]] = [[None], ["a", "b"], ["a", "b", "c"], [None, "a"]]
    racks = draw(st.sampled_from(choices))
    brokers = [Candidate(broker_id, draw(st.sampled_from(racks))) for broker_id in ids]
    factor = draw(st.integers(1, len(brokers)))
    return brokers, draw(st.integers(1, 40)), factor, draw(st.integers(0, 100))


@pytest.mark.covers("T12")
@given(wishes())
def test_complete_without_duplicates_and_deterministic(wish: tuple[list[Candidate], int, int, int]) -> None:
    brokers, partitions, factor, start = wish
    placed = round_robin(brokers, range(partitions), factor, start)
    known = {broker.broker_id for broker in brokers}
    assert len(placed) == partitions
    assert all(len(set(replicas)) == len(replicas) == factor and known.issuperset(replicas) for replicas in placed)
    assert placed == round_robin(sorted(brokers, reverse=True), range(partitions), factor, start)


@pytest.mark.covers("T13")
@given(wishes())
def test_leaders_differ_by_one_at_most_and_so_do_replicas_without_racks(
    wish: tuple[list[Candidate], int, int, int],
) -> None:
    brokers, partitions, factor, start = wish
    placed = round_robin(brokers, range(partitions), factor, start)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[broker.broker_id] for broker in brokers) <= 1
    rounds = partitions // len(brokers) * len(brokers)
    if rounds and all(broker.rack is None for broker in brokers):
        replicas_of = Counter(broker for replicas in placed[:rounds] for broker in replicas)
        assert set(replicas_of.values()) == {rounds * factor // len(brokers)}


@given(wishes())
def test_as_many_racks_as_possible(wish: tuple[list[Candidate], int, int, int]) -> None:
    brokers, partitions, factor, start = wish
    racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
    if len(racks) == len(brokers):
        for replicas in round_robin(brokers, range(partitions), factor, start):
            assert len({racks[broker] for broker in replicas}) == min(factor, len(set(racks.values())))
