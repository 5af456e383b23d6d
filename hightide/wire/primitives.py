"""The protocol's primitive types: a checked `Reader` over received bytes, and functions that append to a bytearray.

The law of the reader: a length is compared with the bytes that are left before anything is allocated for it, and
whatever the bytes are, the only exception is ProtocolError. The law of the writers: they never shorten or pad.
A `-1` count or length is the protocol's null; only the methods named `nullable` accept it.
"""

from collections.abc import Collection, Iterator
from struct import Struct, pack, unpack_from
from typing import Any, Final

from librt.strings import BytesWriter

from hightide.errors import ProtocolError
from hightide.limits import ARRAY_ELEMENTS_MAX

Octets = bytes | bytearray | memoryview

# The default of a parameter that gets a new list or structure of its own in every object.
FRESH: Any = object()

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
UINT16: Final = Struct(">H")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
FLOAT64: Final = Struct(">d")
BOOLEAN: Final = Struct(">?")

STRING_BYTES_MAX: Final = 0x7FFF  # an int16 length; Kafka keeps the same bound where the length is a varint
VARINT_MAX: Final = 0xFFFF_FFFF

_int16_from: Final = INT16.unpack_from
_int32_from: Final = INT32.unpack_from


class Reader:
    """A position in received bytes.

    Invariant: 0 <= position <= end <= len(view). `elements_left` bounds how many array elements and tagged fields
    one message may hold in all, since a two-byte element becomes a Python object of a hundred bytes.
    """

    __slots__ = ("elements_left", "end", "position", "view")

    def __init__(self, data: Octets, position: int = 0, end: int | None = None) -> None:
        self.view = data if type(data) is memoryview else memoryview(data)
        self.end = len(self.view) if end is None else end
        self.position = position
        self.elements_left = ARRAY_ELEMENTS_MAX
        if not 0 <= position <= self.end <= len(self.view):
            raise ProtocolError(f"cannot read from {position} to {self.end} in {len(self.view)} bytes")

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self.end - self.position

    def expect_end(self) -> None:
        """Refuses bytes after the message."""
        if self.position != self.end:
            raise ProtocolError(f"{self.end - self.position} bytes after the end of the message")

    def _take(self, size: int) -> int:
        """Moves past `size` bytes and returns where they begin."""
        start = self.position
        if size > self.end - start:
            raise self._truncated(size)
        self.position = start + size
        return start

    def _truncated(self, size: int) -> ProtocolError:
        return ProtocolError(f"{size} bytes wanted where {self.end - self.position} are left")

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Consecutive fixed-width fields at once."""
        start = self.position
        end = start + layout.size
        if end > self.end:
            raise self._truncated(layout.size)
        self.position = end
        return layout.unpack_from(self.view, start)

    def read_int8(self) -> int:
        return self.unpack(INT8)[0]  # type: ignore[no-any-return]

    def read_int16(self) -> int:
        start = self.position
        if start + 2 > self.end:
            raise self._truncated(2)
        self.position = start + 2
        return _int16_from(self.view, start)[0]  # type: ignore[no-any-return]

    def read_uint16(self) -> int:
        return self.unpack(UINT16)[0]  # type: ignore[no-any-return]

    def read_int32(self) -> int:
        start = self.position
        if start + 4 > self.end:
            raise self._truncated(4)
        self.position = start + 4
        return _int32_from(self.view, start)[0]  # type: ignore[no-any-return]

    def read_int64(self) -> int:
        return self.unpack(INT64)[0]  # type: ignore[no-any-return]

    def read_float64(self) -> float:
        return self.unpack(FLOAT64)[0]  # type: ignore[no-any-return]

    def read_boolean(self) -> bool:
        return self.unpack(BOOLEAN)[0]  # type: ignore[no-any-return]

    def read_uuid(self) -> bytes:
        start = self._take(16)
        return bytes(self.view[start : start + 16])

    def read_unsigned_varint(self) -> int:
        """At most five bytes of seven bits, the value at most 32 bits; nearly always one byte."""
        position = self.position
        if position >= self.end:
            raise self._truncated(1)
        octet = self.view[position]
        self.position = position + 1
        return octet if octet < 0x80 else self._read_long_varint(octet & 0x7F)

    def _read_long_varint(self, value: int) -> int:
        for shift in (7, 14, 21, 28):
            octet = self.view[self._take(1)]
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                break
        else:
            raise ProtocolError("a varint of more than five bytes")
        if value > VARINT_MAX:
            raise ProtocolError("a varint of more than 32 bits")
        return value

    # Strings.

    def _text(self, length: int) -> str:
        if not 0 <= length <= STRING_BYTES_MAX:
            raise ProtocolError(f"a string of {length} bytes")
        start = self.position
        end = start + length
        if end > self.end:
            raise self._truncated(length)
        self.position = end
        try:
            return str(self.view[start:end], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a string is not UTF-8: {error.reason}") from None

    def read_string(self) -> str:
        return self._text(self.read_int16())

    def read_nullable_string(self) -> str | None:
        length = self.read_int16()
        return None if length == -1 else self._text(length)

    def read_compact_string(self) -> str:
        return self._text(self.read_unsigned_varint() - 1)

    def read_compact_nullable_string(self) -> str | None:
        length = self.read_unsigned_varint() - 1
        return None if length == -1 else self._text(length)

    # Bytes and records: the former are copied, the latter stay a view of the input.

    def read_view(self, length: int) -> memoryview:
        """The next `length` bytes, not copied."""
        if length < 0:
            raise ProtocolError("bytes are null or of negative length where they may not be")
        start = self._take(length)
        return self.view[start : start + length]

    def read_bytes(self) -> bytes:
        return bytes(self.read_view(self.read_int32()))

    def read_nullable_bytes(self) -> bytes | None:
        length = self.read_int32()
        return None if length == -1 else bytes(self.read_view(length))

    def read_compact_bytes(self) -> bytes:
        return bytes(self.read_view(self.read_unsigned_varint() - 1))

    def read_compact_nullable_bytes(self) -> bytes | None:
        length = self.read_unsigned_varint() - 1
        return None if length == -1 else bytes(self.read_view(length))

    def read_records(self) -> memoryview:
        return self.read_view(self.read_int32())

    def read_nullable_records(self) -> memoryview | None:
        length = self.read_int32()
        return None if length == -1 else self.read_view(length)

    def read_compact_records(self) -> memoryview:
        return self.read_view(self.read_unsigned_varint() - 1)

    def read_compact_nullable_records(self) -> memoryview | None:
        length = self.read_unsigned_varint() - 1
        return None if length == -1 else self.read_view(length)

    # Arrays. No element of the protocol takes less than one byte, so the bytes left bound the count.

    def _count(self, count: int) -> int:
        if count < 0:
            raise ProtocolError("an array is null or of negative length where it may not be")
        if count > self.end - self.position:
            raise ProtocolError(f"{count} elements announced in {self.end - self.position} bytes")
        if count > self.elements_left:
            raise ProtocolError(f"more than {ARRAY_ELEMENTS_MAX} elements in one message")
        self.elements_left -= count
        return count

    def read_array_count(self) -> int:
        return self._count(self.read_int32())

    def read_nullable_array_count(self) -> int:
        count = self.read_int32()
        return -1 if count == -1 else self._count(count)

    def read_compact_array_count(self) -> int:
        return self._count(self.read_unsigned_varint() - 1)

    def read_compact_nullable_array_count(self) -> int:
        count = self.read_unsigned_varint() - 1
        return -1 if count == -1 else self._count(count)

    def _many(self, count: int, letter: str, width: int) -> list[Any]:
        start = self._take(count * width)
        return list(unpack_from(f">{count}{letter}", self.view, start))

    def read_int8s(self, count: int) -> list[int]:
        return self._many(count, "b", 1)

    def read_int16s(self, count: int) -> list[int]:
        return self._many(count, "h", 2)

    def read_int32s(self, count: int) -> list[int]:
        return self._many(count, "i", 4)

    def read_int64s(self, count: int) -> list[int]:
        return self._many(count, "q", 8)

    # Tagged fields.

    def read_tags(self) -> Iterator[tuple[int, int]]:
        """The (tag, size) of each tagged field; whoever takes one must read exactly `size` bytes before the next."""
        for _ in range(self._count(self.read_unsigned_varint())):
            tag = self.read_unsigned_varint()
            size = self.read_unsigned_varint()
            if size > self.end - self.position:
                raise ProtocolError(f"tagged field {tag} of {size} bytes where {self.end - self.position} are left")
            end = self.position + size
            yield tag, size
            if self.position != end:
                raise ProtocolError(f"tagged field {tag} is not {size} bytes long")

    def read_unknown_tagged_fields(self) -> dict[int, bytes] | None:
        """Tagged fields none of which this version knows; None when there are none, as almost always."""
        if self.position < self.end and self.view[self.position] == 0:
            self.position += 1
            return None
        return {tag: bytes(self.read_view(size)) for tag, size in self.read_tags()}


def append_unsigned_varint(out: BytesWriter, value: int) -> None:
    """A count or length of ours to a writer of bytes."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_unsigned_varint(out: bytearray, value: int) -> None:
    if 0 <= value <= 0x7F:
        out.append(value)
        return
    if not 0 <= value <= VARINT_MAX:
        raise ProtocolError(f"{value} does not fit an unsigned varint")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_uuid(out: bytearray, value: bytes) -> None:
    if len(value) != 16:
        raise ProtocolError(f"a uuid of {len(value)} bytes")
    out += value


def _utf8(value: str) -> bytes:
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(f"a string that UTF-8 cannot say: {error.reason}") from None
    if len(encoded) > STRING_BYTES_MAX:
        raise ProtocolError(f"a string of {len(encoded)} bytes, more than {STRING_BYTES_MAX}")
    return encoded


def write_string(out: bytearray, value: str) -> None:
    encoded = _utf8(value)
    out += INT16.pack(len(encoded))
    out += encoded


def write_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: str) -> None:
    encoded = _utf8(value)
    if len(encoded) < 0x7F:
        out.append(len(encoded) + 1)
    else:
        write_unsigned_varint(out, len(encoded) + 1)
    out += encoded


def write_compact_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def write_bytes(out: bytearray, value: Octets) -> None:
    out += INT32.pack(len(value))
    out += value


def write_nullable_bytes(out: bytearray, value: Octets | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: Octets) -> None:
    write_unsigned_varint(out, len(value) + 1)
    out += value


def write_compact_nullable_bytes(out: bytearray, value: Octets | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def write_count(out: bytearray, items: Collection[object]) -> None:
    """The count that begins an array."""
    out += INT32.pack(len(items))


def write_compact_count(out: bytearray, items: Collection[object]) -> None:
    """The count that begins an array of a flexible version."""
    write_unsigned_varint(out, len(items) + 1)


def write_int8s(out: bytearray, values: Collection[int]) -> None:
    out += pack(f">{len(values)}b", *values)


def write_int16s(out: bytearray, values: Collection[int]) -> None:
    out += pack(f">{len(values)}h", *values)


def write_int32s(out: bytearray, values: Collection[int]) -> None:
    out += pack(f">{len(values)}i", *values)


def write_int64s(out: bytearray, values: Collection[int]) -> None:
    out += pack(f">{len(values)}q", *values)


def write_tagged_fields(out: bytearray, known: dict[int, bytearray] | None, unknown: dict[int, bytes] | None) -> None:
    """Tagged fields in rising order of their tags; both kinds in one list, as Kafka writes them."""
    if not known and not unknown:
        out.append(0)
        return
    fields: dict[int, bytes | bytearray] = {**(known or {}), **(unknown or {})}
    if len(fields) != len(known or ()) + len(unknown or ()):
        raise ProtocolError("an unknown tagged field has the tag of a known one")
    write_unsigned_varint(out, len(fields))
    for tag in sorted(fields):
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(fields[tag]))
        out += fields[tag]
