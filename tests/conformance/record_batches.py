"""Record batches v2 built and taken apart by hand, independent of hightide.wire.

The tests need batches that no client would send (wrong counts, a broken CRC), and want to see in the answer to a Fetch
what a client's batch looked like on the wire: its codec, its size, its time stamp type.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
LOG_APPEND_TIME = 0x08
CONTROL = 0x20


class Batch(NamedTuple):
    """The header fields of one batch as it was fetched."""

    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size: int

    @property
    def codec(self) -> str:
        return CODEC_NAMES[self.attributes & 0x07]

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def encode_record(
    value: bytes | None, key: bytes | None = None, *, offset_delta: int = 0, timestamp_delta: int = 0
) -> bytes:
    body = b"\x00" + varint(timestamp_delta) + varint(offset_delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def build_batch(
    values: list[bytes | None],
    *,
    timestamp: int | None = None,
    attributes: int = 0,
    magic: int = 2,
    record_count: int | None = None,
    last_offset_delta: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    crc_error: int = 0,
    payload: bytes | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """A batch of keyless records of this moment; the keyword arguments are there to make it wrong."""
    timestamp = int(time.time() * 1000) if timestamp is None else timestamp
    if payload is None:
        payload = b"".join(encode_record(value, offset_delta=delta) for delta, value in enumerate(values))
    rest = struct.pack(
        ">hiqqqhii",
        attributes,
        len(values) - 1 if last_offset_delta is None else last_offset_delta,
        timestamp,
        timestamp if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(values) if record_count is None else record_count,
    )
    rest += payload
    crc = crc32c.crc32c(rest) ^ crc_error
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, magic, crc) + rest


def read_batches(data: bytes | None) -> list[Batch]:
    """The headers of all whole batches in a fetched byte string, each CRC checked."""
    found: list[Batch] = []
    position = 0
    data = data or b""
    while position + HEADER.size <= len(data):
        base_offset, length, leader_epoch, magic, crc, *fields = HEADER.unpack_from(data, position)
        size = length + 12
        if position + size > len(data):
            break
        assert magic == 2, "only record batches of magic 2 are kept"
        assert crc32c.crc32c(data[position + 21 : position + size]) == crc, f"batch at offset {base_offset}: bad CRC"
        found.append(Batch._make([base_offset, leader_epoch, *fields, size]))
        position += size
    return found
