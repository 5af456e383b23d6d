"""The four codecs of record batches: gzip, snappy (in xerial's framing, or raw), lz4 frames and zstd.

Law: what comes out is bounded before it is written. A codec writes into a buffer that is never larger than the
caller's limit and fails when that is full, so a 1 MB batch that would inflate to 1 GiB costs the limit and no more.
A large buffer is a fresh mapping, of which only the pages that are written take memory.
"""

from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any

from hightide.errors import ProtocolError
from hightide.limits import KIB, MIB

Buffer = bytes | bytearray | memoryview

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable since version 1
XERIAL_BLOCK_BYTES = 32 * KIB  # what snappy-java writes
SNAPPY_RATIO_MAX = 64  # a copy of up to 64 bytes takes two bytes or more: a block that claims more lies
SMALL_OUTPUT_BYTES = 1 * MIB  # up to here clearing a buffer is cheaper than mapping one
USUAL_RATIO = 4
LZ4_LEVEL_MAX = 12  # Kafka's settings go to 17, the library to 12

_BLOCK_LENGTH = Struct(">i")


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, value: int) -> "Codec":
        """The codec of that number; ProtocolError for 5 to 7, which nobody defined."""
        if 0 <= value < len(_CODECS):
            return _CODECS[value]
        raise ProtocolError(f"unknown compression codec {value}")

    @classmethod
    def named(cls, name: str) -> "Codec | None":
        """The codec of a topic's `compression.type`; None for `producer`: whatever the producer chose."""
        if name == "producer":
            return None
        return cls.NONE if name == "uncompressed" else cls[name.upper()]


_CODECS = tuple(Codec)


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """The compressed bytes; None is the codec's usual level."""
    if codec is Codec.NONE:
        return bytes(data)
    import cramjam

    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=None if level is None or level < 0 else level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(cramjam, memoryview(data))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    # Java's reader knows independent blocks only.
    compressor = cramjam.lz4.Compressor(
        level=None if level is None else min(max(level, 0), LZ4_LEVEL_MAX), block_linked=False
    )
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def decompress(codec: Codec, data: Buffer, limit: int) -> Buffer:
    """The original bytes, at most `limit` of them; ProtocolError when there are more or the data is damaged."""
    if codec is Codec.NONE:
        if len(data) > limit:
            raise ProtocolError(f"{len(data)} bytes where {limit} are allowed")
        return data
    import cramjam

    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(cramjam, memoryview(data), limit)
        into = (
            cramjam.gzip if codec is Codec.GZIP else cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd
        ).decompress_into
        return _decompress_bounded(into, data, limit, cramjam.DecompressionError)
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"{codec.name.lower()}: {error} (at most {limit} bytes may come out)") from None


def _decompress_bounded(into: Any, data: Buffer, limit: int, failure: type[Exception]) -> Buffer:
    """Try a small buffer first: most batches fit, and clearing it is cheap."""
    small = min(limit, max(len(data) * USUAL_RATIO, 4 * KIB))
    if small <= SMALL_OUTPUT_BYTES:
        output = bytearray(small)
        try:
            length = into(data, output)
        except failure:
            if small == limit:
                raise
        else:
            del output[length:]
            return output
    from mmap import mmap

    view = memoryview(mmap(-1, max(limit, 1)))[:limit]
    return view[: into(data, view)]


def _decompress_snappy(cramjam: Any, data: memoryview, limit: int) -> Buffer:
    blocks = _xerial_blocks(data) if data[:8] == XERIAL_MAGIC else [data]
    lengths = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    total = sum(lengths)
    if total > limit or total > len(data) * SNAPPY_RATIO_MAX:
        raise ProtocolError(f"snappy: {total} bytes claimed by {len(data)}, at most {limit} may come out")
    output = bytearray(total)
    view = memoryview(output)
    position = 0
    for block, length in zip(blocks, lengths, strict=True):
        if cramjam.snappy.decompress_raw_into(block, view[position : position + length]) != length:
            raise ProtocolError("snappy: a block of another length than it says")
        position += length
    return output


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    position, end = len(XERIAL_HEADER), len(data)
    if position > end:
        raise ProtocolError("snappy: the header is cut short")
    blocks = []
    while position < end:
        try:
            (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        except StructError:
            raise ProtocolError("snappy: a block length is cut short") from None
        position += 4
        if not 0 < length <= end - position:
            raise ProtocolError(f"snappy: a block of {length} bytes with {end - position} left")
        blocks.append(data[position : position + length])
        position += length
    return blocks


def _compress_xerial(cramjam: Any, data: memoryview) -> bytes:
    output = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        output += _BLOCK_LENGTH.pack(len(block))
        output += block
    return bytes(output)
