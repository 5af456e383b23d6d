"""What is due, which segments become one, and the table of keys."""

import pytest

from hightide.storage.compaction_plans import CompactionJob, StoredSegment, grouped
from hightide.storage.key_offsets import KeyOffsets


def job(*sizes: int, segment_bytes: int = 100, index_bytes: int = 1 << 20, step: int = 10) -> CompactionJob:
    segments = [StoredSegment(number * step, (number + 1) * step, size) for number, size in enumerate(sizes)]
    return CompactionJob("d", segments, 0, 0, 0, segment_bytes, index_bytes, 4096, 10, {}, [])


@pytest.mark.parametrize(
    ("sizes", "end", "groups"),
    [
        ((50, 50, 1), 30, [[0, 10], [20]]),
        ((50, 51, 49), 30, [[0], [10, 20]]),
        ((200, 1, 1), 30, [[0], [10, 20]]),
        ((1, 1, 1), 20, [[0, 10]]),
        ((1, 1, 1), 11, [[0, 10]]),
        ((0, 0), 20, [[0, 10]]),
    ],
)
def test_neighbours_that_fit_one_segment_become_one(sizes: tuple[int, ...], end: int, groups: list[list[int]]) -> None:
    assert [[segment.base for segment in group] for group in grouped(job(*sizes), end)] == groups


def test_a_segment_is_never_wider_than_its_index_can_say() -> None:
    found = grouped(job(1, 1, 1, step=2**30), 3 * 2**30)
    assert [[segment.base // 2**30 for segment in group] for group in found] == [[0], [1], [2]]


def test_nor_are_its_entries_too_many() -> None:
    assert len(grouped(job(50, 50, index_bytes=8), 20)) == 2


def test_short_and_long_keys_are_told_apart() -> None:
    keys = [b"", b"a", b"x" * 15, b"x" * 16, b"x" * 17, b"y" * 1000]
    offsets = KeyOffsets(0, 100)
    for number, key in enumerate(keys):
        offsets.put(key, number)
    assert [offsets.newest(key) for key in keys] == [0, 1, 2, 3, 4, 5]
    assert offsets.newest(b"nobody") == -1
    assert len(offsets) == len(keys)


def test_the_table_is_bounded_but_always_takes_the_first_batch() -> None:
    offsets = KeyOffsets(0, 3)
    assert offsets.has_room_for(100)
    offsets.put(b"a", 1)
    assert offsets.has_room_for(2)
    assert not offsets.has_room_for(3)
