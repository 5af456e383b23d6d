"""Looking at the records of a batch without opening them, and the batch again with some of them."""

import pytest

from hightide.errors import ProtocolError
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.record_spans import batch_of, empty_batch, record_spans
from hightide.wire.records import BatchHeader, Record, crc_ok, iterate_records, read_header, records_of

RECORDS = [
    Record(10, 1000, b"a", b"value", [("h", b"1"), ("none", None)]),
    Record(12, 990, None, b""),
    Record(15, 1300, b"", None),
    Record(700, 1001, b"k" * 200, b"v" * 5000),
]


def batch(codec: Codec = Codec.NONE, append_time: int = -1) -> bytearray:
    return build_batch(
        RECORDS, base_offset=10, leader_epoch=4, codec=codec, producer_id=9, producer_epoch=2, base_sequence=77,
        append_time=append_time,
    )  # fmt: skip


def content(data: bytes | bytearray) -> tuple[BatchHeader, list[Record]]:
    header = read_header(data)
    assert crc_ok(data, 0, header)
    assert header.size == len(data)
    return header, list(iterate_records(data, 0, header))


def test_spans_say_what_compaction_asks() -> None:
    header = read_header(batch())
    found = list(record_spans(records_of(batch(), 0, header), header))
    assert [(span.offset, span.timestamp, span.key, span.has_value) for span in found] == [
        (record.offset, record.timestamp, record.key, record.value is not None) for record in RECORDS
    ]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("kept", [[0], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("horizon", [None, 999, 2**41])
def test_some_records_of_a_batch(codec: Codec, kept: list[int], horizon: int | None) -> None:
    data = batch(codec)
    before = read_header(data)
    records = records_of(data, 0, before)
    spans = list(record_spans(records, before))
    header, left = content(batch_of(before, records, [spans[index] for index in kept], horizon))
    assert [tuple(record) for record in left] == [(*RECORDS[index][:4], RECORDS[index].headers) for index in kept]
    assert header.codec == codec
    assert header.record_count == len(kept)
    assert header.max_timestamp == max(RECORDS[index].timestamp for index in kept)
    assert header.delete_horizon == horizon
    for name in ("base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch"):
        assert getattr(header, name) == getattr(before, name)
    assert header.base_sequence == 77


def test_a_batch_with_the_brokers_time_keeps_it() -> None:
    data = batch(append_time=5000)
    before = read_header(data)
    spans = list(record_spans(records_of(data, 0, before), before))
    header, left = content(batch_of(before, records_of(data, 0, before), spans[:1], 8000))
    assert (header.max_timestamp, left[0].timestamp, header.delete_horizon) == (5000, 5000, 8000)


def test_an_empty_batch_says_which_offsets_and_sequences_it_had() -> None:
    before = read_header(batch(Codec.ZSTD))
    header, left = content(empty_batch(before))
    assert left == []
    assert (header.base_offset, header.last_offset, header.last_sequence) == (10, 700, before.last_sequence)
    assert (header.codec, header.delete_horizon, header.max_timestamp) == (Codec.NONE, None, 1300)
    assert header.largest_timestamp == -1


def test_an_empty_batch_may_be_nobodys() -> None:
    before = read_header(build_batch(RECORDS, base_offset=10, producer_id=9, producer_epoch=2, transactional=True))
    header, _ = content(empty_batch(before, keeps_producer=False))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.is_transactional, header.last_offset) == (False, 700)


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_records_that_are_not_whole(cut: int) -> None:
    header = read_header(batch())
    data = bytes(records_of(batch(), 0, header))
    for damaged in (data[:-cut], data[cut:], data + b"\0" * cut):
        with pytest.raises(ProtocolError):
            list(record_spans(damaged, header))
