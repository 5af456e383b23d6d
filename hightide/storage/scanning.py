"""Walking over the batches of a log file: by headers only, or with every CRC verified.

Reads are in chunks, so a walk costs a few system calls per megabyte however small the batches are.
"""

from collections.abc import Iterator
from re import DOTALL, escape
from re import compile as compile_pattern
from struct import Struct
from typing import NamedTuple

from hightide.errors import CorruptionError
from hightide.limits import KIB, RECOVERY_SCAN_BYTES
from hightide.storage.files import File
from hightide.wire.records import BATCH_LENGTH_MIN, HEADER_BYTES, MAGIC, BatchHeader, Buffer, crc_ok, read_header

HEADER_CHUNK_BYTES = 16 * KIB
_OFFSET = Struct(">q")


class BadBatchError(CorruptionError):
    """The bytes at `position` are not a whole, valid batch that may follow the one before."""

    def __init__(self, file: File, position: int, reason: str) -> None:
        super().__init__(f"{file.path}: the batch at byte {position} {reason}")
        self.position = position
        self.reason = reason


class StoredBatch(NamedTuple):
    """A batch with a valid CRC: where it is in the file, its header, and its bytes at `at` of a buffer."""

    position: int
    header: BatchHeader
    buffer: Buffer
    at: int


class Chain:
    """What may follow in a log: offsets without gaps (unless compaction left some), epochs that never fall."""

    __slots__ = ("_gaps", "epoch", "following")

    def __init__(self, following: int, epoch: int, *, gaps: bool) -> None:
        self.following = following
        self.epoch = epoch
        self._gaps = gaps

    def admit(self, header: BatchHeader) -> str | None:
        """Why this batch may not come next; None when it may, and then it did."""
        base, epoch = header.base_offset, header.partition_leader_epoch
        if base != self.following and not (self._gaps and base > self.following):
            return f"begins at offset {base} where {self.following} should follow"
        if epoch < self.epoch:
            return f"has leader epoch {epoch} after {self.epoch}"
        self.following = header.next_offset
        self.epoch = epoch
        return None


def header_at(file: File, position: int, end: int) -> BatchHeader:
    """The header at a batch boundary; BadBatchError when there is none."""
    return _checked(file, file.read_at(position, HEADER_BYTES), 0, position, end)


def headers_from(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from a boundary up to `end`. CRCs are not looked at."""
    buffer, start = b"", position
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(buffer):
            buffer, start, at = file.read_at(position, min(HEADER_CHUNK_BYTES, end - position)), position, 0
        header = _checked(file, buffer, at, position, end)
        yield position, header
        position += header.size


def verified_from(file: File, position: int, end: int, chunk_bytes: int = RECOVERY_SCAN_BYTES) -> Iterator[StoredBatch]:
    """Each batch from a boundary up to `end`, its CRC verified; BadBatchError at the first that fails."""
    buffer, start = b"", position
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(buffer):
            buffer, start, at = _chunk(file, position, end, chunk_bytes), position, 0
        header = _checked(file, buffer, at, position, end)
        if at + header.size > len(buffer):
            buffer, start, at = _chunk(file, position, end, max(chunk_bytes, header.size)), position, 0
        if not crc_ok(buffer, at, header):
            raise BadBatchError(file, position, "has a wrong CRC")
        yield StoredBatch(position, header, buffer, at)
        position += header.size


def _chunk(file: File, position: int, end: int, length: int) -> bytes:
    return file.read_at(position, min(length, end - position))


def _checked(file: File, buffer: bytes, at: int, position: int, end: int) -> BatchHeader:
    if at + HEADER_BYTES > len(buffer) or position + HEADER_BYTES > end:
        raise BadBatchError(file, position, "is cut off within its header")
    header = read_header(buffer, at)
    if header.magic != MAGIC:
        raise BadBatchError(file, position, f"has magic {header.magic}")
    if header.batch_length < BATCH_LENGTH_MIN or header.last_offset_delta < 0 or header.base_offset < 0:
        raise BadBatchError(file, position, "has an impossible header")
    if position + header.size > end:
        raise BadBatchError(file, position, f"is cut off: {header.size} bytes long, {end - position} are there")
    return header


def has_valid_batch(file: File, position: int, end: int, expected_offset: int) -> bool:
    """Whether anywhere in [position, end) a whole, CRC-valid batch with an offset from `expected_offset` on begins.

    A torn tail has none: what lies behind the tear is then garbage. If there is one, something damaged the middle of
    what was written, and the log is doubtful (R17). Batches begin at any byte, so candidates come from a pattern: the
    upper half of the offset, and magic 2 at its place.
    """
    pattern = compile_pattern(b"(?=" + escape(_OFFSET.pack(expected_offset)[:4]) + b".{12}\x02)", DOTALL)
    overlap = HEADER_BYTES - 1
    while position + HEADER_BYTES <= end:
        chunk = file.read_at(position, min(RECOVERY_SCAN_BYTES + overlap, end - position))
        for match in pattern.finditer(chunk):
            at = match.start()
            if at + HEADER_BYTES <= len(chunk) and _is_valid_batch(file, position + at, end, expected_offset):
                return True
        position += RECOVERY_SCAN_BYTES
    return False


def _is_valid_batch(file: File, position: int, end: int, expected_offset: int) -> bool:
    try:
        header = header_at(file, position, end)
    except BadBatchError:
        return False
    return header.base_offset >= expected_offset and crc_ok(file.read_at(position, header.size), 0, header)
