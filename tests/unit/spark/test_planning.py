"""From offsets to tasks."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.spark.planning import DataLossError, OffsetRange, limit_offsets, plan_ranges, split_ranges
from hightide.types import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))


def test_ranges_go_from_where_it_was_to_where_it_ends() -> None:
    ranges = plan_ranges({A: 5, B: 3}, {A: 9, B: 3, C: 4}, {A: 0, B: 0, C: 0}, fail_on_data_loss=True)
    assert ranges == [OffsetRange(A, 5, 9), OffsetRange(C, 0, 4)]


LOSSES = [
    ({A: 5, B: 1}, {A: 9}, {A: 0}, "Partitions orders-1 have been deleted", [OffsetRange(A, 5, 9)]),
    ({A: 5}, {A: 9}, {A: 7}, "Offsets 5 to 6 of partition orders-0 are gone", [OffsetRange(A, 7, 9)]),
    ({A: 5}, {A: 9}, {A: 12}, "Offsets 5 to 8 of partition orders-0 are gone", []),
    ({}, {A: 9}, {A: 2}, "Added partition orders-0 starts from 2 instead of 0", [OffsetRange(A, 2, 9)]),
    ({A: 9}, {A: 5}, {A: 0}, "Partition orders-0 offset was changed from 9 to 5", []),
]


@pytest.mark.covers("S1")
@pytest.mark.parametrize(("start", "end", "earliest", "message", "left"), LOSSES)
def test_what_is_gone_is_told_or_left_out(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    earliest: dict[TopicPartition, int],
    message: str,
    left: list[OffsetRange],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DataLossError, match=message) as raised:
        plan_ranges(start, end, earliest, fail_on_data_loss=True)
    assert 'set the source option "failOnDataLoss" to "false"' in str(raised.value)
    with caplog.at_level(logging.WARNING):
        assert plan_ranges(start, end, earliest, fail_on_data_loss=False) == left
    assert message in caplog.text


sizes = st.lists(st.integers(0, 1000), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(sizes=sizes, least=st.none() | st.integers(1, 40), most=st.none() | st.integers(1, 300))
def test_pieces_cover_everything_once(sizes: list[int], least: int | None, most: int | None) -> None:
    ranges = [OffsetRange(TopicPartition("t", index), 10, 10 + size) for index, size in enumerate(sizes) if size]
    pieces = split_ranges(ranges, least, most)
    for whole in ranges:
        mine = [piece for piece in pieces if piece.partition == whole.partition]
        assert [offset for piece in mine for offset in range(piece.start, piece.end)] == list(
            range(whole.start, whole.end)
        )
    if most is not None:
        assert all(piece.size <= most for piece in pieces)
    if least is None and most is None:
        assert pieces == ranges


def test_large_partitions_are_cut_first() -> None:
    ranges = [OffsetRange(A, 0, 1000), OffsetRange(B, 0, 10), OffsetRange(C, 0, 500)]
    pieces = split_ranges(ranges, 7, None)
    assert [sum(piece.partition == where for piece in pieces) for where in (A, B, C)] == [4, 1, 2]


@settings(max_examples=200, deadline=None)
@given(sizes=sizes, most=st.integers(1, 2000))
def test_a_limited_batch_is_small_and_starves_nobody(sizes: list[int], most: int) -> None:
    begin = {TopicPartition("t", index): 7 for index in range(len(sizes))}
    end = {TopicPartition("t", index): 7 + size for index, size in enumerate(sizes)}
    limited = limit_offsets(begin, end, most)
    taken = {where: limited[where] - 7 for where in end}
    assert all(0 <= taken[where] <= end[where] - 7 for where in end)
    assert all(taken[where] for where in end if end[where] > 7)
    assert sum(taken.values()) <= max(most, most + len(sizes))
    if sum(sizes) <= most:
        assert limited == end
