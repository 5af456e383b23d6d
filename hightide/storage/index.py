"""The sparse indexes of a segment: offset → position and timestamp → offset, in Kafka's file formats.

Entries live in memory while a segment is active and reach their file when it is sealed: an index is derived from the
log, so losing it costs a scan, never data. A lookup only says where to begin; whoever uses an entry compares it with
the batch it points to, so that a wrong index can make a read slow but never wrong (I32).

`.index`      8 bytes an entry: last offset of a batch less the segment's base (int32), position of that batch (int32)
`.timeindex` 12 bytes an entry: largest timestamp so far (int64), last offset of its batch less the base (int32)
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_SWAP: Final = sys.byteorder == "little"


class OffsetIndex:
    """Where batches begin, for one batch every `index.interval.bytes`. Offsets and positions strictly rise."""

    __slots__ = ("positions", "relatives")

    def __init__(self) -> None:
        self.relatives = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.positions)

    def __bool__(self) -> bool:
        return bool(self.positions)

    def append(self, relative: int, position: int) -> None:
        """The batch at `position` ends with offset base + `relative`."""
        self.relatives.append(relative)
        self.positions.append(position)

    def at_or_before(self, relative: int) -> tuple[int, int] | None:
        """The last entry whose batch ends at or before this offset: (relative, position)."""
        found = bisect_right(self.relatives, relative) - 1
        return (self.relatives[found], self.positions[found]) if found >= 0 else None

    def at_or_before_position(self, position: int) -> tuple[int, int] | None:
        """The last entry whose batch begins at or before this position: (relative, position)."""
        found = bisect_right(self.positions, position) - 1
        return (self.relatives[found], self.positions[found]) if found >= 0 else None

    def truncate(self, size: int) -> None:
        """Forget batches that begin at `size` or later."""
        kept = bisect_left(self.positions, size)
        del self.relatives[kept:]
        del self.positions[kept:]

    def encode(self) -> bytes:
        """The bytes of the file."""
        words = array("i", bytes(OFFSET_ENTRY_BYTES * len(self.positions)))
        words[0::2] = self.relatives
        words[1::2] = self.positions
        if _SWAP:
            words.byteswap()
        return words.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> "OffsetIndex":
        """The inverse of `encode`; ValueError when the length is wrong."""
        if len(data) % OFFSET_ENTRY_BYTES:
            raise ValueError(f"an offset index of {len(data)} bytes")
        words = array("i")
        words.frombytes(data)
        if _SWAP:
            words.byteswap()
        index = cls()
        index.relatives = words[0::2]
        index.positions = words[1::2]
        return index


class TimeIndex:
    """The running maximum of timestamps. Timestamps and offsets strictly rise."""

    __slots__ = ("relatives", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.relatives = array("i")

    def __len__(self) -> int:
        return len(self.relatives)

    def __bool__(self) -> bool:
        return bool(self.relatives)

    def append(self, timestamp: int, relative: int) -> None:
        """No record up to the batch that ends with base + `relative` is younger than `timestamp`.

        Ignored unless the maximum rose since the last entry.
        """
        if not self.timestamps or timestamp > self.timestamps[-1]:
            self.timestamps.append(timestamp)
            self.relatives.append(relative)

    def before(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry below `timestamp`: (timestamp, relative). What is looked for lies behind its batch."""
        found = bisect_left(self.timestamps, timestamp) - 1
        return (self.timestamps[found], self.relatives[found]) if found >= 0 else None

    def truncate(self, relative: int) -> None:
        """Forget batches that end at base + `relative` or later."""
        kept = bisect_left(self.relatives, relative)
        del self.timestamps[kept:]
        del self.relatives[kept:]

    def encode(self) -> bytes:
        """The bytes of the file."""
        times, relatives = self.timestamps[:], self.relatives[:]
        if _SWAP:
            times.byteswap()
            relatives.byteswap()
        halves = array("i", times.tobytes())
        words = array("i", bytes(TIME_ENTRY_BYTES * len(relatives)))
        words[0::3] = halves[0::2]
        words[1::3] = halves[1::2]
        words[2::3] = relatives
        return words.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> "TimeIndex":
        """The inverse of `encode`; ValueError when the length is wrong."""
        if len(data) % TIME_ENTRY_BYTES:
            raise ValueError(f"a time index of {len(data)} bytes")
        words = array("i")
        words.frombytes(data)
        halves = array("i", bytes(OFFSET_ENTRY_BYTES * (len(words) // 3)))
        halves[0::2] = words[0::3]
        halves[1::2] = words[1::3]
        index = cls()
        index.timestamps = array("q", halves.tobytes())
        index.relatives = words[2::3]
        if _SWAP:
            index.timestamps.byteswap()
            index.relatives.byteswap()
        return index
