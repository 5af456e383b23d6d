"""Record batches: looking, patching, iterating, and refusing what is malformed."""

from struct import pack, pack_into

import pytest

from hightide.errors import ProtocolError
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.records import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    ControlType,
    Record,
    control_key,
    control_type_of,
    crc_ok,
    iterate_headers,
    iterate_records,
    patch_append_time,
    patch_crc,
    patch_max_timestamp,
    patch_offsets,
    read_header,
)

# One record written out by hand: twelve bytes, no attributes, deltas of 0, key "k", value "v", one header h=x.
RECORD = bytes.fromhex("18 00 00 00 02 6b 02 76 02 02 68 02 78")


def batch_of(payload: bytes, count: int = 1, **fields: int) -> bytearray:
    """A batch around raw bytes, with a right CRC."""
    values = {
        "base_offset": 0, "batch_length": 49 + len(payload), "partition_leader_epoch": -1, "magic": 2, "crc": 0,
        "attributes": 0, "last_offset_delta": max(count - 1, 0), "base_timestamp": 1000, "max_timestamp": 1000,
        "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "record_count": count,
    } | fields  # fmt: skip
    batch = bytearray(HEADER.pack(*BatchHeader(**values).fields) + payload)
    patch_crc(batch, 0, len(batch) - 12)
    return batch


def records_in(batch: bytearray) -> list[Record]:
    return list(iterate_records(batch, 0, read_header(batch)))


def test_a_batch_written_by_hand_is_read() -> None:
    batch = batch_of(RECORD, base_offset=7)
    assert records_in(batch) == [Record(7, 1000, b"k", b"v", [("h", b"x")])]


def test_the_header_is_read_in_place() -> None:
    batch = build_batch(
        [Record(timestamp=5, value=b"a"), Record(timestamp=9, value=b"b")],
        base_offset=40, leader_epoch=3, producer_id=11, producer_epoch=2, base_sequence=6, transactional=True,
    )  # fmt: skip
    header = read_header(b"xyz" + batch, 3)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 41, 42)
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (5, 9, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (11, 2, 6, 7)
    assert header.size == len(batch)
    assert header.partition_leader_epoch == 3
    assert header.is_transactional
    assert header.has_producer_id
    assert not header.is_control
    assert not header.has_append_time
    assert header.delete_horizon is None
    assert header.codec is Codec.NONE


@pytest.mark.covers("N11")
def test_sequences_wrap_at_int32() -> None:
    header = read_header(build_batch([Record()] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0
    assert read_header(build_batch([Record()])).last_sequence == -1


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    assert read_header(batch_of(RECORD, attributes=0x40)).delete_horizon == 1000


@pytest.mark.parametrize("length", [0, 1, 60])
def test_a_short_header_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        read_header(bytes(length))


def test_whole_batches_are_listed_and_the_cut_one_left_out() -> None:
    first, second = build_batch([Record(value=b"1")]), build_batch([Record(value=b"22")], base_offset=1)
    both = first + second
    assert [(position, header.base_offset) for position, header in iterate_headers(both)] == [(0, 0), (len(first), 1)]
    for cut in range(len(first), len(both)):
        assert [position for position, _ in iterate_headers(memoryview(both)[:cut])] == [0]


@pytest.mark.parametrize(("offset", "value"), [(16, b"\x01"), (16, b"\x03"), (8, pack(">i", 48)), (8, pack(">i", -1))])
def test_listing_stops_at_what_is_no_batch(offset: int, value: bytes) -> None:
    batch = build_batch([Record()])
    batch[offset : offset + len(value)] = value
    with pytest.raises(ProtocolError):
        list(iterate_headers(batch))


def test_every_flipped_bit_behind_the_crc_is_found() -> None:
    batch = build_batch([Record(value=b"payload")])
    header = read_header(batch)
    assert crc_ok(batch, 0, header)
    for bit in range(21 * 8, len(batch) * 8):
        batch[bit // 8] ^= 1 << bit % 8
        assert not crc_ok(batch, 0, header)
        batch[bit // 8] ^= 1 << bit % 8


def test_a_batch_that_is_not_there_has_no_valid_crc() -> None:
    batch = build_batch([Record()])
    header = read_header(batch)
    assert not crc_ok(batch[:-1], 0, header)
    assert not crc_ok(batch, 0, header.replaced(batch_length=3))


def test_offsets_and_epoch_are_patched_outside_the_crc() -> None:
    batch = bytearray(5) + build_batch([Record(timestamp=1, value=b"v"), Record(timestamp=2)])
    patch_offsets(memoryview(batch), 5, 2**40, 77)
    header = read_header(batch, 5)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 77)
    assert crc_ok(batch, 5, header)
    assert [record.offset for record in iterate_records(batch, 5, header)] == [2**40, 2**40 + 1]


@pytest.mark.parametrize("codec", list(Codec))
def test_append_time_overrides_every_record(codec: Codec) -> None:
    batch = build_batch([Record(timestamp=1, value=b"v"), Record(timestamp=2)], codec=codec)
    patch_append_time(batch, 0, read_header(batch), 5000)
    header = read_header(batch)
    assert header.has_append_time
    assert (header.max_timestamp, header.codec) == (5000, codec)
    assert crc_ok(batch, 0, header)
    assert [record.timestamp for record in iterate_records(batch, 0, header)] == [5000, 5000]


def test_the_largest_timestamp_can_be_repaired() -> None:
    batch = build_batch([Record(timestamp=1)])
    patch_max_timestamp(batch, 0, read_header(batch), 9)
    header = read_header(batch)
    assert header.max_timestamp == 9
    assert not header.has_append_time
    assert crc_ok(batch, 0, header)


def test_header_names_that_are_not_utf8_survive() -> None:
    batch = batch_of(RECORD.replace(b"h", b"\xff"))
    (record,) = records_in(batch)
    assert record.headers == [("\udcff", b"x")]
    assert build_batch([record])[HEADER_BYTES:] == batch[HEADER_BYTES:]


@pytest.mark.parametrize(
    ("payload", "count", "reason"),
    [
        (b"", 1, "1 records in 0 bytes"),
        (RECORD, 2, "2 records in 13 bytes"),
        (RECORD + b"\x80" * 4, 2, "cut short"),
        (RECORD, 0, "behind the last record"),
        (RECORD, -1, "-1 records"),
        (RECORD, 20_000_000, "records in"),
        (RECORD + b"\0", 1, "behind the last record"),
        (RECORD[:-1], 1, "a record of"),
        (b"\x05" + RECORD[1:], 1, "a record of -3 bytes"),
        (b"\x08" + RECORD[1:], 1, "a record of 4 bytes"),
        (b"\xff\xff\xff\xff\xff\x01" + bytes(20), 1, "too long"),
        (b"\xff\xff\xff\xff\x7f" + bytes(20), 1, "too long"),
        (bytes([26]) + RECORD[1:] + b"\0", 1, "fill"),
        (bytes([12, 0, 0, 2, 1, 1, 0]), 1, "offset delta 1"),
        (bytes([12, 0, 0, 1, 1, 1, 0]), 1, "offset delta -1"),
        (bytes([12, 0, 0, 0, 1, 1, 0]) * 2, 2, "offset delta 0 after 0"),
        (bytes([12, 0, 0, 0, 3, 1, 0]), 1, "a length of -2"),
        (bytes([12, 0, 0, 0, 20, 1, 0]), 1, "a length of 10"),
        (bytes([12, 0, 0, 0, 1, 1, 1]), 1, "-1 headers"),
        (bytes([12, 0, 0, 0, 1, 1, 8]), 1, "4 headers"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1, "without a name"),
    ],
)
def test_malformed_records_are_protocol_errors(payload: bytes, count: int, reason: str) -> None:
    batch = batch_of(payload, count, last_offset_delta=0 if count < 2 else 1)
    with pytest.raises(ProtocolError, match=reason):
        records_in(batch)


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    delta = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01])  # 2**63 - 1
    batch = batch_of(bytes([30, 0]) + delta + bytes([0, 1, 1, 0]))
    with pytest.raises(ProtocolError, match="64 bits"):
        records_in(batch)


def test_a_batch_cut_short_is_not_iterated() -> None:
    batch = batch_of(RECORD)
    with pytest.raises(ProtocolError, match="cut short"):
        iterate_records(batch[:-1], 0, read_header(batch))


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ProtocolError, match="codec 5"):
        records_in(batch_of(RECORD, attributes=5))


def test_control_records_name_their_type() -> None:
    assert control_key(ControlType.COMMIT) == b"\0\0\0\1"
    for control_type in ControlType:
        assert control_type_of(control_key(control_type)) is control_type
    assert control_type_of(b"\0\0\0\x63") is None
    batch = build_batch([Record(key=control_key(ControlType.ABORT), value=b"\0\0\0\0\0\0")], control=True)
    assert read_header(batch).is_control


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_what_is_no_control_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        control_type_of(key)


def test_a_header_beyond_the_buffer_is_refused() -> None:
    batch = build_batch([Record()])
    pack_into(">i", batch, 8, 2**31 - 1)
    assert list(iterate_headers(batch)) == []
    with pytest.raises(ProtocolError):
        records_in(batch)
