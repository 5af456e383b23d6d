"""The transaction index: Kafka's bytes, and the aborted transactions that a range of offsets needs."""

from struct import pack

import pytest

from hightide.storage.transaction_index import AbortedTransaction, TransactionIndex


def index_of(*entries: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex()
    for entry in entries:
        index.append(entry)
    return index


FIRST = AbortedTransaction(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=15)
SECOND = AbortedTransaction(producer_id=8, first_offset=15, last_offset=30, last_stable_offset=31)


def test_it_has_kafkas_bytes() -> None:
    index = index_of(FIRST)
    assert index.encode() == pack(">hqqqq", 0, 7, 10, 20, 15)
    assert TransactionIndex.decode(index.encode()).entries == [FIRST]


def test_damaged_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="35 bytes"):
        TransactionIndex.decode(bytes(35))
    with pytest.raises(ValueError, match="version 1"):
        TransactionIndex.decode(pack(">hqqqq", 1, 7, 10, 20, 15))


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 10, []), (0, 11, [FIRST]), (20, 21, [FIRST, SECOND]), (21, 22, [SECOND]), (31, 40, [])],
)
def test_a_range_gets_the_transactions_that_reach_into_it(
    start: int, end: int, found: list[AbortedTransaction]
) -> None:
    assert list(index_of(FIRST, SECOND).overlapping(start, end)) == found


def test_it_knows_when_no_later_segment_can_matter() -> None:
    assert not index_of(FIRST).covers(16)
    assert index_of(FIRST, SECOND).covers(31)
    assert not TransactionIndex().covers(0)


def test_truncation_forgets_markers_behind_the_cut() -> None:
    index = index_of(FIRST, SECOND)
    index.truncate(30)
    assert index.entries == [FIRST]
