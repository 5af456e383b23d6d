"""The reader takes exactly what the protocol says and refuses the rest; the writers never bend a value."""

import pytest

from hightide.errors import ProtocolError
from hightide.limits import ARRAY_ELEMENTS_MAX
from hightide.wire import primitives
from hightide.wire.primitives import INT16, INT32, STRING_BYTES_MAX, VARINT_MAX, Reader


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**31 - 1, b"\xff\xff\xff\xff\x07"),
        (VARINT_MAX, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_unsigned_varints(value: int, encoded: bytes) -> None:
    out = bytearray()
    primitives.write_unsigned_varint(out, value)
    assert out == encoded
    assert Reader(encoded).read_unsigned_varint() == value


def test_a_varint_may_be_longer_than_it_must() -> None:
    assert Reader(b"\x81\x80\x00").read_unsigned_varint() == 1


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x01"])
def test_varints_that_end_early_or_never_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Reader(data).read_unsigned_varint()


@pytest.mark.parametrize("value", [-1, VARINT_MAX + 1])
def test_what_no_varint_can_say_is_not_written(value: int) -> None:
    with pytest.raises(ProtocolError):
        primitives.write_unsigned_varint(bytearray(), value)


def test_strings_are_bounded_in_bytes_not_characters() -> None:
    out = bytearray()
    primitives.write_string(out, "é" * (STRING_BYTES_MAX // 2))
    assert Reader(out).read_string() == "é" * (STRING_BYTES_MAX // 2)
    with pytest.raises(ProtocolError):
        primitives.write_compact_string(bytearray(), "é" * (STRING_BYTES_MAX // 2 + 1))
    with pytest.raises(ProtocolError):
        Reader(b"\x81\x80\x02" + b"x" * (STRING_BYTES_MAX + 1)).read_compact_string()


def test_text_that_is_not_utf8_is_refused_both_ways() -> None:
    with pytest.raises(ProtocolError):
        Reader(b"\x00\x01\xff").read_string()
    with pytest.raises(ProtocolError):
        primitives.write_string(bytearray(), "\ud800")


@pytest.mark.parametrize("length", [-1, -2, -32768])
def test_a_string_that_is_not_nullable_has_no_negative_length(length: int) -> None:
    with pytest.raises(ProtocolError):
        Reader(INT16.pack(length)).read_string()


def test_only_minus_one_is_null() -> None:
    assert Reader(INT16.pack(-1)).read_nullable_string() is None
    assert Reader(INT32.pack(-1)).read_nullable_bytes() is None
    assert Reader(INT32.pack(-1)).read_nullable_records() is None
    assert Reader(INT32.pack(-1)).read_nullable_array_count() == -1
    for data, method in (
        (INT16.pack(-2), Reader.read_nullable_string),
        (INT32.pack(-2), Reader.read_nullable_bytes),
        (INT32.pack(-2), Reader.read_nullable_records),
        (INT32.pack(-2), Reader.read_nullable_array_count),
    ):
        with pytest.raises(ProtocolError):
            method(Reader(data))


def test_an_array_announces_no_more_elements_than_bytes_are_left() -> None:
    assert Reader(INT32.pack(3) + b"abc").read_array_count() == 3
    with pytest.raises(ProtocolError):
        Reader(INT32.pack(4) + b"abc").read_array_count()


def test_all_arrays_of_a_message_share_one_bound() -> None:
    reader = Reader(bytes(10) + INT32.pack(2) + b"ab", position=10)
    reader.elements_left = 1
    with pytest.raises(ProtocolError, match=str(ARRAY_ELEMENTS_MAX)):
        reader.read_array_count()


def test_records_are_a_view_of_the_input_and_bytes_a_copy() -> None:
    data = bytearray(INT32.pack(2) + b"ab" + INT32.pack(2) + b"cd")
    reader = Reader(data)
    records, copied = reader.read_records(), reader.read_bytes()
    data[4:6] = b"xy"
    data[10:12] = b"xy"
    assert bytes(records) == b"xy"
    assert copied == b"cd"


def test_a_reader_keeps_within_its_part_of_the_buffer() -> None:
    reader = Reader(b"0123456789", position=2, end=6)
    assert reader.remaining == 4
    assert reader.read_int32() == int.from_bytes(b"2345", "big")
    with pytest.raises(ProtocolError):
        reader.read_int8()
    reader.expect_end()


@pytest.mark.parametrize(("position", "end"), [(-1, None), (0, 5), (4, 3), (5, None)])
def test_a_reader_outside_its_buffer_is_refused(position: int, end: int | None) -> None:
    with pytest.raises(ProtocolError):
        Reader(b"0123", position, end)


def test_a_known_tagged_field_must_be_as_long_as_it_says() -> None:
    reader = Reader(b"\x01\x00\x04\x00\x00\x00\x01")
    assert [(tag, size, reader.read_int32()) for tag, size in reader.read_tags()] == [(0, 4, 1)]
    reader = Reader(b"\x01\x00\x05\x00\x00\x00\x01\x00")
    tags = reader.read_tags()
    next(tags)
    reader.read_int32()
    with pytest.raises(ProtocolError):
        next(tags)


def test_tagged_fields_are_written_in_the_order_of_their_tags() -> None:
    out = bytearray()
    primitives.write_tagged_fields(out, {5: bytearray(b"five")}, {300: b"later", 1: b"one"})
    assert Reader(out).read_unknown_tagged_fields() == {1: b"one", 5: b"five", 300: b"later"}
    assert out.index(b"one") < out.index(b"five") < out.index(b"later")


def test_a_tag_cannot_be_known_and_unknown() -> None:
    with pytest.raises(ProtocolError):
        primitives.write_tagged_fields(bytearray(), {5: bytearray()}, {5: b""})


def test_a_uuid_is_never_cut_or_padded() -> None:
    for value in (b"short", bytes(17)):
        with pytest.raises(ProtocolError):
            primitives.write_uuid(bytearray(), value)
