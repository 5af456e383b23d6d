"""The compiled decoder against `iterate_records`: the same records from every batch, and damage refused by both."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hightide.client.fetch import Aborted, FetchedPartition
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.spark import decoding
from hightide.spark.decoding import Decoder
from hightide.spark.schema import COLUMNS, HEADERS
from hightide.types import TopicPartition
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.records import (
    HEADER_BYTES,
    ControlType,
    Record,
    control_key,
    iterate_headers,
    iterate_records,
    patch_append_time,
    patch_crc,
    read_header,
)
from tests.properties.test_records import header_lists, record_lists

WHERE = TopicPartition("orders", 3)
EVERY_COLUMN = (*COLUMNS, HEADERS)
END = 2**62
YOUNG = 2**50  # milliseconds that microseconds have room for

batch_lists = st.lists(
    st.tuples(record_lists(oldest=-1, newest=YOUNG), st.sampled_from(Codec), st.booleans()), min_size=1, max_size=4
)


def fetched(data: bytes | bytearray, aborted: tuple[Aborted, ...] = ()) -> FetchedPartition:
    return FetchedPartition(WHERE, ErrorCode.NONE, END, END, 0, bytes(data), aborted)


def build(batches: list[tuple[list[Record], Codec, bool]], base_offset: int) -> bytearray:
    data = bytearray()
    for records, codec, append_time in batches:
        shifted = [record._replace(offset=base_offset + record.offset) for record in records]
        batch = build_batch(shifted, base_offset=base_offset, codec=codec)
        if append_time:
            patch_append_time(batch, 0, read_header(batch), 1_700_000_000_123)
        data += batch
        base_offset += len(records) + 2  # compaction leaves gaps
    return data


def expected(data: bytes | bytearray, first: int = 0, until: int = END) -> list[tuple[Any, ...]]:
    return [
        (
            record.key,
            record.value,
            *WHERE,
            record.offset,
            record.timestamp * 1000,
            int(header.has_append_time),
            [(name, content) for name, content in record.headers] or None,
        )
        for position, header in iterate_headers(data)
        for record in iterate_records(data, position, header)
        if first <= record.offset < until
    ]


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    rows = []
    for batch in batches:
        batch.validate(full=True)
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["timestamp"] = columns["timestamp"].cast(pa.int64())
        for values in zip(*(columns[name].to_pylist() for name in EVERY_COLUMN), strict=True):
            headers = values[-1] and [(header["key"], header["value"]) for header in values[-1]]
            rows.append((*values[:-1], headers))
    return rows


def decode(data: bytes | bytearray, first: int = 0, until: int = END) -> list[tuple[Any, ...]]:
    return rows_of(list(Decoder(EVERY_COLUMN, WHERE).decode(fetched(data), first, until)))


@pytest.mark.covers("S1")
@settings(max_examples=150, deadline=None)
@given(batches=batch_lists, base_offset=st.integers(0, 2**60))
def test_the_same_records_from_every_batch(batches: list[tuple[list[Record], Codec, bool]], base_offset: int) -> None:
    data = build(batches, base_offset)
    assert decode(data) == expected(data)


@settings(max_examples=50, deadline=None)
@given(batches=batch_lists, cut=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_only_the_range_that_was_asked_for(
    batches: list[tuple[list[Record], Codec, bool]], cut: tuple[int, int]
) -> None:
    data = build(batches, 0)
    assert decode(data, *cut) == expected(data, *cut)


@settings(max_examples=50, deadline=None)
@given(batches=batch_lists)
def test_large_answers_come_in_portions(batches: list[tuple[list[Record], Codec, bool]]) -> None:
    data = build(batches, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "PORTION_BYTES", 1)
        made = list(Decoder(EVERY_COLUMN, WHERE).decode(fetched(data), 0, END))
    assert len(made) == len(batches)
    assert rows_of(made) == expected(data)


@pytest.mark.covers("S1")
@settings(max_examples=400, deadline=None)
@given(data=st.data(), records=record_lists(oldest=-1, newest=YOUNG), codec=st.sampled_from([Codec.NONE, Codec.LZ4]))
def test_damage_behind_a_good_checksum_is_refused_by_both_or_read_alike(
    data: st.DataObject, records: list[Record], codec: Codec
) -> None:
    batch = build_batch(records, codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(HEADER_BYTES - 4, len(batch) - 1) | st.integers(21, HEADER_BYTES - 1))
        batch[position] = data.draw(st.integers(0, 255))
    patch_crc(batch, 0, read_header(batch).batch_length)
    assume(not read_header(batch).is_control)
    assume(abs(read_header(batch).base_timestamp) < YOUNG and abs(read_header(batch).max_timestamp) < YOUNG)
    try:
        known = expected(batch)
        assume(all(abs(row[5]) < 2**62 for row in known))
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode(batch)
    else:
        with_names = [
            row for row in known if all("\ufffd" not in name and name.isprintable() for name, _ in row[7] or ())
        ]
        assume(len(with_names) == len(known))
        assert decode(batch) == known


@settings(max_examples=200, deadline=None)
@given(payload=st.binary(max_size=200), count=st.integers(0, 30))
def test_nonsense_behind_a_good_header_is_refused_by_both(payload: bytes, count: int) -> None:
    batch = build_batch([Record(value=b"")])[:HEADER_BYTES] + payload
    batch[8:12] = (HEADER_BYTES - 12 + len(payload)).to_bytes(4, "big")
    batch[23:27] = (1000).to_bytes(4, "big")  # the last offset delta
    batch[57:61] = count.to_bytes(4, "big")
    patch_crc(batch, 0, read_header(batch).batch_length)
    try:
        known = expected(batch)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode(batch)
    else:
        assume(all(abs(row[5]) < 2**62 for row in known))
        assert [row[:5] for row in decode(batch)] == [row[:5] for row in known]


@settings(max_examples=50, deadline=None)
@given(batches=batch_lists, flip=st.integers(0))
def test_a_flipped_bit_is_noticed(batches: list[tuple[list[Record], Codec, bool]], flip: int) -> None:
    data = build(batches, 0)
    position = 21 + flip % (read_header(data).size - 21)  # what the checksum covers of the first batch
    data[position] ^= 1
    with pytest.raises(ApiError) as raised:
        decode(data)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@settings(max_examples=50, deadline=None)
@given(batches=batch_lists, cut=st.integers(1, 60))
def test_a_batch_cut_short_at_the_end_is_left_for_the_next_fetch(
    batches: list[tuple[list[Record], Codec, bool]], cut: int
) -> None:
    data = build(batches, 0)
    whole = [position for position, _ in iterate_headers(data)]
    assert decode(data[:-cut]) == expected(data[: whole[-1]])


@settings(max_examples=50, deadline=None)
@given(headers=st.lists(header_lists, min_size=1, max_size=20))
def test_headers_of_many_records(headers: list[list[tuple[str, bytes | None]]]) -> None:
    data = build_batch([Record(timestamp=0, value=b"v", headers=each) for each in headers])
    assert [row[7] for row in decode(data)] == [each or None for each in headers]


def test_names_of_headers_that_are_no_text() -> None:
    data = build_batch([Record(timestamp=0, headers=[("\udcff", b"x")])])
    (row,) = decode(data)
    assert row[7] == [("\ufffd", b"x")]


def test_a_timestamp_that_microseconds_have_no_room_for_is_refused_in_words() -> None:
    data = build_batch([Record(timestamp=2**62, value=b"v")])
    with pytest.raises(ProtocolError, match="leave the column out"):
        decode(data)
    (batch,) = Decoder(("value",), WHERE).decode(fetched(data), 0, END)
    assert batch.to_pylist() == [{"value": b"v"}]


def test_aborted_transactions_and_markers_are_not_seen() -> None:
    def batch(offset: int, value: bytes, **attributes: Any) -> bytearray:
        return build_batch([Record(timestamp=0, value=value)], base_offset=offset, **attributes)

    def marker(offset: int, producer: int, kind: ControlType) -> bytearray:
        record = Record(timestamp=0, key=control_key(kind), value=bytes(6))
        return build_batch(
            [record], base_offset=offset, producer_id=producer, producer_epoch=0, transactional=True, control=True
        )

    transaction = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = (
        batch(0, b"plain")
        + batch(1, b"given up", producer_id=7, **transaction)
        + batch(2, b"kept", producer_id=8, **transaction)
        + marker(3, 7, ControlType.ABORT)
        + batch(4, b"kept too", producer_id=7, **transaction)
        + marker(5, 8, ControlType.COMMIT)
        + marker(6, 7, ControlType.COMMIT)
    )
    decoder = Decoder(("value",), WHERE)

    def values(aborted: tuple[Aborted, ...]) -> list[bytes]:
        return [row["value"] for made in decoder.decode(fetched(data, aborted), 0, END) for row in made.to_pylist()]

    assert values((Aborted(1, 7),)) == [b"plain", b"kept", b"kept too"]
    assert values(()) == [b"plain", b"given up", b"kept", b"kept too"]
