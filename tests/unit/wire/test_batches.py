"""Building batches."""

import pytest

from hightide.wire.batches import build_batch, recompress
from hightide.wire.compression import Codec
from hightide.wire.records import HEADER_BYTES, Record, crc_ok, iterate_records, read_header


def test_records_without_offsets_are_numbered() -> None:
    batch = build_batch([Record(value=b"a"), Record(value=b"b"), Record(offset=9), Record()], base_offset=5)
    header = read_header(batch)
    assert [record.offset for record in iterate_records(batch, 0, header)] == [5, 6, 9, 10]
    assert (header.last_offset, header.record_count) == (10, 4)


@pytest.mark.parametrize("offsets", [(5, 5), (6, 5), (4,)])
def test_offsets_must_rise_from_the_base(offsets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="after"):
        build_batch([Record(offset=offset) for offset in offsets], base_offset=5)


def test_timestamps_may_fall() -> None:
    batch = build_batch([Record(timestamp=50), Record(timestamp=70), Record(timestamp=10), Record()])
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp) == (50, 70)
    assert [record.timestamp for record in iterate_records(batch, 0, header)] == [50, 70, 10, -1]


def test_an_append_time_is_the_time_of_every_record() -> None:
    batch = build_batch([Record(timestamp=50), Record(timestamp=70)], append_time=99)
    header = read_header(batch)
    assert header.has_append_time
    assert [record.timestamp for record in iterate_records(batch, 0, header)] == [99, 99]


def test_a_batch_may_be_empty() -> None:
    batch = build_batch([])
    header = read_header(batch)
    assert (len(batch), header.record_count) == (HEADER_BYTES, 0)
    assert crc_ok(batch, 0, header)
    assert list(iterate_records(batch, 0, header)) == []


def test_large_numbers_take_more_bytes() -> None:
    record = Record(2**31 - 1, 2**62, b"k" * 200, b"v" * 70_000, [("h" * 128, b"x" * 129)])
    batch = build_batch([Record(timestamp=-(2**61)), record])
    assert list(iterate_records(batch, 0, read_header(batch)))[1] == record


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_recompression_changes_the_codec_and_nothing_else(source: Codec, target: Codec) -> None:
    records = [Record(timestamp=number, key=b"k%d" % number, value=b"v" * number) for number in range(50)]
    batch = build_batch(records, codec=source, producer_id=4, producer_epoch=1, base_sequence=8, transactional=True)
    result = recompress(batch, target, None)
    before, after = read_header(batch), read_header(result)
    assert after.codec is target
    assert crc_ok(result, 0, after)
    assert len(result) == after.size
    same = before.replaced(attributes=after.attributes, batch_length=after.batch_length, crc=after.crc)
    assert after == same
    assert list(iterate_records(result, 0, after)) == list(iterate_records(batch, 0, before))
