"""The sparse indexes: Kafka's bytes, and lookups that never begin behind what they look for."""

from struct import pack

import pytest

from hightide.storage.index import OffsetIndex, TimeIndex


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for relative, position in entries:
        index.append(relative, position)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for timestamp, relative in entries:
        index.append(timestamp, relative)
    return index


def test_the_offset_index_has_kafkas_bytes() -> None:
    index = offset_index((9, 4096), (19, 8192))
    assert index.encode() == pack(">iiii", 9, 4096, 19, 8192)
    assert OffsetIndex.decode(index.encode()).encode() == index.encode()


def test_the_time_index_has_kafkas_bytes() -> None:
    index = time_index((1_700_000_000_000, 9), (1_700_000_000_001, 19))
    assert index.encode() == pack(">qiqi", 1_700_000_000_000, 9, 1_700_000_000_001, 19)
    assert TimeIndex.decode(index.encode()).encode() == index.encode()


@pytest.mark.parametrize("length", [1, 7, 11, 13])
def test_a_cut_entry_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        OffsetIndex.decode(bytes(length))
    with pytest.raises(ValueError, match="bytes"):
        TimeIndex.decode(bytes(length))


@pytest.mark.parametrize(
    ("relative", "found"),
    [(0, None), (8, None), (9, (9, 100)), (18, (9, 100)), (19, (19, 200)), (1000, (19, 200))],
)
def test_a_batch_is_looked_for_from_the_last_that_ends_before(relative: int, found: tuple[int, int] | None) -> None:
    assert offset_index((9, 100), (19, 200)).at_or_before(relative) == found


@pytest.mark.parametrize(("position", "found"), [(99, None), (100, (9, 100)), (199, (9, 100)), (200, (19, 200))])
def test_a_boundary_is_found_by_position(position: int, found: tuple[int, int] | None) -> None:
    assert offset_index((9, 100), (19, 200)).at_or_before_position(position) == found


def test_truncation_forgets_batches_behind_the_cut() -> None:
    index = offset_index((9, 100), (19, 200), (29, 300))
    index.truncate(200)
    assert index.encode() == offset_index((9, 100)).encode()
    times = time_index((1, 9), (2, 19), (3, 29))
    times.truncate(19)
    assert times.encode() == time_index((1, 9)).encode()


def test_the_time_index_keeps_only_rising_maxima() -> None:
    assert time_index((5, 1), (5, 2), (4, 3), (6, 4)).encode() == time_index((5, 1), (6, 4)).encode()


@pytest.mark.parametrize(("timestamp", "found"), [(5, None), (6, (5, 1)), (7, (6, 4)), (99, (6, 4))])
def test_a_time_is_looked_for_behind_the_last_older_entry(timestamp: int, found: tuple[int, int] | None) -> None:
    assert time_index((5, 1), (6, 4)).before(timestamp) == found
