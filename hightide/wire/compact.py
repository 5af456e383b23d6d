"""Lengths, strings and tags of a frame, read at a position: for the hand-written codecs of Produce and Fetch.

`wire.primitives.Reader` is the general way; these return the position behind what they read, which is cheaper where
most numbers are a single byte. IndexError, struct.error and UnicodeDecodeError mean that the frame is malformed: the
codec turns them into ProtocolError once, at its door.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from hightide.errors import ProtocolError
from hightide.wire.primitives import STRING_BYTES_MAX, Reader

MALFORMED: Final = (IndexError, StructError, UnicodeDecodeError)

_unpack_int16: Final = Struct(">h").unpack_from
_unpack_int32: Final = Struct(">i").unpack_from


def compact_length(frame: memoryview, position: int) -> tuple[int, int]:
    """A compact length or count, which travels plus one, so that null is -1; and the position behind it."""
    value = frame[position]
    position += 1
    if value < 0x80:
        return value - 1, position
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        octet = frame[position]
        position += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value - 1, position
    raise ProtocolError("a varint of more than 32 bits")


def compact_count(frame: memoryview, position: int) -> tuple[int, int]:
    """The count of an array; every element takes a byte at least, so a count above what is left is a lie."""
    count, position = compact_length(frame, position)
    if not 0 <= count <= len(frame) - position:
        raise ProtocolError(f"{count} elements announced in {len(frame) - position} bytes")
    return count, position


def classic_count(frame: memoryview, position: int) -> tuple[int, int]:
    """The same in versions that are not flexible."""
    (count,) = _unpack_int32(frame, position)
    position += 4
    if not 0 <= count <= len(frame) - position:
        raise ProtocolError(f"{count} elements announced in {len(frame) - position} bytes")
    return count, position


def spend(left: int, count: int) -> int:
    """What is left of the elements that a request may hold: a few bytes each in a frame, hundreds in memory."""
    if count > left:
        raise ProtocolError("more topics and partitions than one request may name")
    return left - count


def compact_string(frame: memoryview, position: int) -> tuple[str, int]:
    """A string that may not be null."""
    length = frame[position] - 1
    position += 1
    if length >= 0x7F:
        length, position = compact_length(frame, position - 1)
    end = position + length
    if not 0 <= length <= STRING_BYTES_MAX or end > len(frame):
        raise _bad_string(frame, position, length)
    return str(frame[position:end], "utf-8"), end


def compact_nullable_string(frame: memoryview, position: int) -> tuple[str | None, int]:
    """A string or null."""
    if frame[position] == 0:
        return None, position + 1
    return compact_string(frame, position)


def classic_string(frame: memoryview, position: int) -> tuple[str, int]:
    """A string that may not be null, in versions that are not flexible."""
    (length,) = _unpack_int16(frame, position)
    position += 2
    end = position + length
    if length < 0 or end > len(frame):
        raise _bad_string(frame, position, length)
    return str(frame[position:end], "utf-8"), end


def classic_nullable_string(frame: memoryview, position: int) -> tuple[str | None, int]:
    """A string or null, in versions that are not flexible."""
    (length,) = _unpack_int16(frame, position)
    if length == -1:
        return None, position + 2
    return classic_string(frame, position)


def uuid(frame: memoryview, position: int) -> tuple[bytes, int]:
    """A topic id."""
    end = position + 16
    if end > len(frame):
        raise ProtocolError("an id is cut short")
    return bytes(frame[position:end]), end


def skip_tags(frame: memoryview, position: int) -> int:
    """The position behind tagged fields that nobody here knows; nearly always there are none."""
    if frame[position] == 0:
        return position + 1
    reader = Reader(frame, position)
    reader.read_unknown_tagged_fields()
    return reader.position


def _bad_string(frame: memoryview, position: int, length: int) -> ProtocolError:
    return ProtocolError(f"a string of {length} bytes where {len(frame) - position} are left")
