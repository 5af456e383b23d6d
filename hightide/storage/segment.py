"""One segment: a `.log` file of batches, and the sparse indexes that find them.

Positions are bytes in the file, offsets are the records' numbers. The active segment is appended to and keeps its
indexes in memory; when it is sealed they are written out and from then on loaded on demand. Lookups that a reader
repeats (the tail, and going on where the last read stopped) are answered from memory without touching the disk.

Laws: `size` and `end` change only after the bytes are written (R11). Bytes that this process did not write or scan are
verified before they are handed out (I31). A removed segment stays readable until its last slice is released.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from hightide.errors import CorruptionError
from hightide.limits import (
    BOUNDARIES_REMEMBERED,
    RECENT_BATCHES_REMEMBERED,
    ROOM_BYTES_MAX,
    ROOM_FROM_BYTES,
    ROOM_SHARE_OF_SEGMENT,
    VERIFIED_RANGES_REMEMBERED,
)
from hightide.storage.checkpoints import read_file
from hightide.storage.files import File, Files
from hightide.storage.index import RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from hightide.storage.scanning import BadBatchError, header_at, headers_from, verified_from
from hightide.storage.seal import Seal
from hightide.storage.transaction_index import TransactionIndex
from hightide.types import NO_OFFSET, NO_TIMESTAMP
from hightide.wire.checksum import crc32c
from hightide.wire.records import BatchHeader

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SEAL_SUFFIX: Final = ".seal"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
REBUILT_INTERVAL_BYTES: Final = 4096
DERIVED_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SEAL_SUFFIX)


def segment_name(base: int, suffix: str = LOG_SUFFIX) -> str:
    """Kafka's name: the base offset in 20 digits."""
    return f"{base:020d}{suffix}"


class Segment:
    """Offsets [base, end) in bytes [0, size). Only its log changes it."""

    __slots__ = (
        "_boundaries", "_files", "_index", "_path", "_seal", "_times", "_transactions", "_verified", "base", "end",
        "file", "first_timestamp", "gaps", "index_entries_max", "last_offset_max", "max_timestamp",
        "max_timestamp_offset", "pins", "recent_offsets", "recent_positions", "removed", "roll_after_ms", "room_end",
        "size", "tail", "unindexed_bytes", "verified_start", "was_cut_back",
    )  # fmt: skip

    base: int
    verified_start: int
    """From this position on, this process wrote or scanned the bytes itself."""
    roll_after_ms: int
    """A batch with a later timestamp goes into the next segment (segment.ms)."""
    was_cut_back: bool
    """A write failed and was undone: until the next sync of the file, power loss may bring its bytes back."""
    last_offset_max: int
    """A batch that ends later goes into the next segment: its offset would not fit the indexes, or they are full."""
    room_end: int
    """Where the file system's blocks end that were made ready; below ROOM_FROM_BYTES none are."""
    gaps: bool
    """Whether offsets may be missing between batches, because the topic is or was compacted."""
    tail: str
    """What the names of its files end with while compaction puts it into its place; usually nothing."""
    recent_offsets: list[int]
    """Base offsets of the newest batches, without gaps between them up to the end; their positions run beside."""

    def __init__(self, files: Files, directory: str, base: int, file: File, tail: str = "") -> None:
        self._files = files
        self._path = f"{directory}/{base:020d}"
        self.tail = tail
        self.base = base
        self.file = file
        self.size = 0
        self.end = base
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = NO_OFFSET
        self.roll_after_ms = 0
        self.last_offset_max = base + RELATIVE_OFFSET_MAX
        self.index_entries_max = RELATIVE_OFFSET_MAX
        self.unindexed_bytes = 0
        self.room_end = ROOM_FROM_BYTES
        self.gaps = False
        self.pins = 0
        self.removed = False
        self.was_cut_back = False
        self.recent_offsets = []
        self.recent_positions: list[int] = []
        self.verified_start = 0
        self._verified: list[tuple[int, int, int]] = []
        self._boundaries: dict[int, int] = {}
        self._index: OffsetIndex | None = OffsetIndex()
        self._times: TimeIndex | None = TimeIndex()
        self._transactions: TransactionIndex | None = TransactionIndex()
        self._seal: Seal | None = None

    @classmethod
    def open(cls, files: Files, directory: str, base: int, *, create: bool = False, tail: str = "") -> "Segment":
        """An empty segment, or a stored one about which nothing is known yet but its size on disk."""
        return cls(files, directory, base, files.open(f"{directory}/{segment_name(base)}{tail}", create=create), tail)

    # ------------------------------------------------------------------ writing

    def note(self, base: int, last: int, length: int, timestamp: int, interval: int) -> None:
        """A batch of `length` bytes was written to the file at `size`: let the end and the indexes know."""
        position = self.size
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last
        if self.unindexed_bytes > interval:
            index = self.index
            index.append(last - self.base, position)
            if len(index) >= self.index_entries_max:
                self.last_offset_max = NO_OFFSET
            if self.max_timestamp_offset >= 0:
                self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base)
            self.unindexed_bytes = length
        else:
            self.unindexed_bytes += length
        recent = self.recent_offsets
        if base != self.end:
            # A gap (a compacted leader): the lists promise none, so they begin anew.
            recent.clear()
            self.recent_positions.clear()
        elif len(recent) >= 2 * RECENT_BATCHES_REMEMBERED:
            del recent[:RECENT_BATCHES_REMEMBERED], self.recent_positions[:RECENT_BATCHES_REMEMBERED]
        recent.append(base)
        self.recent_positions.append(position)
        self.size = position + length
        self.end = last + 1

    def make_room(self, length: int, size_max: int) -> None:
        """Have blocks ready for the next `length` bytes and some more, as far as the segment may grow."""
        ahead = min(max(self.size // ROOM_SHARE_OF_SEGMENT, ROOM_FROM_BYTES), ROOM_BYTES_MAX)
        end = max(self.size + length, min(self.size + length + ahead, size_max))
        self.file.make_room(self.size, end - self.size)
        self.room_end = end

    def give_room_back(self) -> None:
        """Nothing more will be appended: others may have the blocks that were made ready."""
        if self.room_end > max(self.size, ROOM_FROM_BYTES):
            self.file.truncate(self.size)
        self.room_end = ROOM_FROM_BYTES

    def truncate(self, position: int, end: int) -> None:
        """Cut the file at a batch boundary, where offset `end` follows. The caller syncs it and the directory."""
        index, times, transactions = self.index, self.times, self.transactions
        self.remove_derived()
        self.file.truncate(position)
        index.truncate(position)
        times.truncate(end - self.base)
        transactions.truncate(end)
        self._boundaries.clear()
        kept = bisect_left(self.recent_positions, position)
        del self.recent_offsets[kept:], self.recent_positions[kept:]
        self._verified = [known for known in self._verified if known[1] <= position]
        self.verified_start = min(self.verified_start, position)
        self.size = position
        self.room_end = ROOM_FROM_BYTES
        self.end = end
        self.last_offset_max = self.base + RELATIVE_OFFSET_MAX
        self.unindexed_bytes = position - (index.positions[-1] if len(index) else 0)
        if self.max_timestamp_offset >= end:
            self._find_max_timestamp()
        if position == 0:
            self.first_timestamp = NO_TIMESTAMP

    def _find_max_timestamp(self) -> None:
        """The largest timestamp again: the time index knows it up to its last entry, headers tell the rest."""
        self.max_timestamp, self.max_timestamp_offset, position = NO_TIMESTAMP, NO_OFFSET, 0
        if len(self.times):
            self.max_timestamp = self.times.timestamps[-1]
            self.max_timestamp_offset = self.base + self.times.relatives[-1]
            position = self.position_of(self.max_timestamp_offset)
        for _, header in headers_from(self.file, position, self.size):
            if header.largest_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.largest_timestamp, header.last_offset

    # ------------------------------------------------------------------ indexes and the seal

    @property
    def index(self) -> OffsetIndex:
        """Offset to position."""
        self.load()
        assert self._index is not None
        return self._index

    @property
    def times(self) -> TimeIndex:
        """Timestamp to offset."""
        self.load()
        assert self._times is not None
        return self._times

    @property
    def transactions(self) -> TransactionIndex:
        """Aborted transactions whose marker is here; loaded by itself, because most segments have none."""
        if self._transactions is None:
            assert self._seal is not None
            data = self._read_derived(TRANSACTION_INDEX_SUFFIX, self._seal.transaction_index_crc)
            self._transactions = TransactionIndex.decode(data)
        return self._transactions

    def seal(self) -> list[File]:
        """Write the indexes out, with a seal over them. Returns the files to sync and close; OSError changes nothing.

        Written in place: the seal shows a torn one, and until its sync returned nobody relies on it.
        """
        if self.size and self.max_timestamp_offset >= 0:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base)
        parts = [(INDEX_SUFFIX, self.index.encode()), (TIME_INDEX_SUFFIX, self.times.encode())]
        transactions = self.transactions.encode()
        if transactions:
            parts.append((TRANSACTION_INDEX_SUFFIX, transactions))
        seal = Seal(
            self.size, self.end, self.first_timestamp, self.max_timestamp, self.max_timestamp_offset,
            crc32c(parts[0][1]), crc32c(parts[1][1]), crc32c(transactions),
        )  # fmt: skip
        parts.append((SEAL_SUFFIX, seal.encode()))
        written: list[File] = []
        try:
            for suffix, data in parts:
                file = self._files.open(self._path + suffix + self.tail, create=True)
                written.append(file)
                file.truncate(0)
                file.write_at(data, 0)
        except OSError:
            for file in written:
                file.close()
            raise
        self._seal = seal
        return written

    def unload(self) -> None:
        """Forget the indexes of a sealed segment; the next lookup loads them again."""
        if self._seal is not None:
            self._index = self._times = self._transactions = None
            self.recent_offsets.clear()
            self.recent_positions.clear()

    def trust(self, seal: Seal) -> None:
        """Take from a seal that fits what a scan would find."""
        self._seal = seal
        self.size = seal.log_bytes
        self.end = seal.end
        self.first_timestamp = seal.first_timestamp
        self.max_timestamp = seal.max_timestamp
        self.max_timestamp_offset = seal.max_timestamp_offset
        self.verified_start = seal.log_bytes
        self.unload()

    def read_seal(self) -> Seal | None:
        """The stored seal, if it fits the size of the log file."""
        try:
            seal = Seal.decode(read_file(self._files, self._path + SEAL_SUFFIX + self.tail))
        except FileNotFoundError:
            return None
        return seal if seal is not None and seal.log_bytes == self.file.size() else None

    def load(self) -> None:
        """Have both indexes in memory. One that does not fit its seal is derived again from the batches."""
        if self._index is not None:
            return
        seal = self._seal
        assert seal is not None
        try:
            self._index = OffsetIndex.decode(self._read_derived(INDEX_SUFFIX, seal.index_crc))
            self._times = TimeIndex.decode(self._read_derived(TIME_INDEX_SUFFIX, seal.time_index_crc))
        except CorruptionError:
            self._rebuild()
        self.unindexed_bytes = self.size - (self._index.positions[-1] if self._index else 0)

    def _rebuild(self) -> None:
        """Derive both indexes again from the batches, because a file of theirs was damaged."""
        copy = Segment(self._files, "", self.base, self.file)
        for batch in verified_from(self.file, 0, self.size):
            header = batch.header
            timestamp = header.largest_timestamp
            copy.note(header.base_offset, header.last_offset, header.size, timestamp, REBUILT_INTERVAL_BYTES)
        self._index, self._times = copy.index, copy.times
        if copy.max_timestamp_offset >= 0:
            self._times.append(copy.max_timestamp, copy.max_timestamp_offset - self.base)

    def _read_derived(self, suffix: str, crc: int) -> bytes:
        path = self._path + suffix + self.tail
        if suffix == TRANSACTION_INDEX_SUFFIX and crc == 0:
            return b""
        try:
            data = read_file(self._files, path)
        except FileNotFoundError:
            raise CorruptionError(f"{path} is missing") from None
        if crc32c(data) != crc:
            raise CorruptionError(f"{path} does not fit its seal")
        return data

    def has_intact_transactions(self, seal: Seal) -> bool:
        """Whether the transaction index fits: it is small, matters, and only a replay could derive it again."""
        try:
            TransactionIndex.decode(self._read_derived(TRANSACTION_INDEX_SUFFIX, seal.transaction_index_crc))
        except (CorruptionError, ValueError):
            return False
        return True

    # ------------------------------------------------------------------ finding

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that ends at `offset` or later; `size` when there is none."""
        if offset >= self.end:
            return self.size
        recent = self.recent_offsets
        if recent and offset >= recent[0]:
            if offset >= recent[-1]:  # whoever follows the log asks for its last batch
                return self.recent_positions[-1]
            return self.recent_positions[bisect_right(recent, offset) - 1]
        position = self._boundaries.get(offset)
        return self._search(offset) if position is None else position

    def _search(self, offset: int) -> int:
        entry = self.index.at_or_before(offset - self.base)
        start = 0 if entry is None else self._indexed(*entry)[0]
        for position, header in headers_from(self.file, start, self.size):
            if header.last_offset >= offset:
                if header.base_offset > offset and not self.gaps:
                    raise BadBatchError(self.file, position, f"begins at {header.base_offset}, no batch holds {offset}")
                return position
        return self.size

    def _indexed(self, relative: int, position: int) -> tuple[int, BatchHeader]:
        """The batch that an index entry points to; CorruptionError when it is not the one."""
        header = header_at(self.file, position, self.size)
        if header.last_offset != self.base + relative:
            raise BadBatchError(self.file, position, f"ends at {header.last_offset}, not at {self.base + relative}")
        return position, header

    def remember(self, offset: int, position: int) -> None:
        """A read stopped here, so the next one may begin here."""
        boundaries = self._boundaries
        if len(boundaries) >= BOUNDARIES_REMEMBERED:
            boundaries.clear()
        boundaries[offset] = position

    def boundary_before(self, start: int, limit: int) -> tuple[int, int]:
        """The last batch boundary in (start, limit] that is cheap to find: (position, offset that follows).

        `start` is a boundary, `limit` lies before the end of the segment. (start, -1) when not one batch fits.
        """
        recent = self.recent_positions
        if recent and limit >= recent[0]:
            found = bisect_right(recent, limit) - 1
            return (recent[found], self.recent_offsets[found]) if recent[found] > start else (start, NO_OFFSET)
        entry = self.index.at_or_before_position(limit)
        if entry is not None and entry[1] > start:
            position, header = self._indexed(*entry)
            return position, header.base_offset
        boundary, following = start, NO_OFFSET
        for position, header in headers_from(self.file, start, self.size):
            if position + header.size > limit:
                break
            boundary, following = position + header.size, header.next_offset
        return boundary, following

    def end_before(self, position: int) -> int:
        """Where the batch before this boundary ends: below what follows it, if compaction left a gap between."""
        if position < self.size and not self.gaps:
            return self.batch_at(position).base_offset
        end = self.base
        start = self._indexed(*entry)[0] if (entry := self.index.at_or_before_position(position - 1)) else 0
        for at, header in headers_from(self.file, start, self.size):
            if at >= position:
                break
            end = header.next_offset
        return end

    def batch_at(self, position: int) -> BatchHeader:
        """The header at a boundary."""
        return header_at(self.file, position, self.size)

    def youngest_ms(self) -> int:
        """The largest timestamp, or when the file was last written if no record has one."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._files.modified_ms(self.file.path)

    # ------------------------------------------------------------------ verifying (I31)

    def verified_range(self, position: int) -> tuple[int, int] | None:
        """Up to where bytes from `position` on were verified, and the offset there; None when they were not."""
        for start, end, following in self._verified:
            if start <= position < end:
                return end, following
        return None

    def mark_verified(self, start: int, end: int, following: int) -> None:
        """The bytes between these boundaries were found good, and `following` comes behind them."""
        ranges = sorted([*self._verified[-VERIFIED_RANGES_REMEMBERED:], (start, end, following)])
        self._verified = ranges[:1]
        for later in ranges[1:]:
            before = self._verified[-1]
            if later[0] > before[1]:
                self._verified.append(later)
            elif later[1] > before[1]:
                self._verified[-1] = (before[0], later[1], later[2])

    # ------------------------------------------------------------------ the end of it

    def remove(self) -> None:
        """Unlink all its files, the log last: without its log nobody looks for the others. The caller syncs."""
        self.remove_derived()
        self._files.remove(self._path + LOG_SUFFIX + self.tail)
        self.retire()

    def remove_derived(self) -> None:
        """Unlink indexes and seal, which tell of a log that no longer is. The caller syncs the directory."""
        self._seal = None
        for suffix in DERIVED_SUFFIXES:
            try:
                self._files.remove(self._path + suffix + self.tail)
            except FileNotFoundError:
                pass

    def rename(self, tail: str) -> None:
        """Give all its files another tail, the log last: whoever finds that finds the others. The caller syncs."""
        for suffix in (*DERIVED_SUFFIXES, LOG_SUFFIX):
            try:
                self._files.rename(self._path + suffix + self.tail, self._path + suffix + tail)
            except FileNotFoundError:
                continue
        self.tail = tail

    def condemn(self) -> list[str]:
        """Rename all its files for a later removal (file.delete.delay.ms); returns the new names."""
        condemned = []
        for suffix in (*DERIVED_SUFFIXES, LOG_SUFFIX):
            path = self._path + suffix + self.tail
            try:
                self._files.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            condemned.append(path + DELETED_SUFFIX)
        self.retire()
        return condemned

    def retire(self) -> None:
        """Close the file, once nobody reads from it any more."""
        self.removed = True
        if not self.pins:
            self.file.close()

    def on_unpinned(self) -> None:
        """The last slice was released."""
        if self.removed:
            self.file.close()
