"""The aborted transactions of a segment, in Kafka's `.txnindex` format: what read_committed consumers must skip.

An entry belongs to the segment that holds its abort marker. 34 bytes: version (int16), producer id, first offset, last
offset (the marker's) and the last stable offset after the marker (int64 each).
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

TRANSACTION_ENTRY_BYTES = 34
_VERSION = 0
_ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """One aborted transaction. `last_stable_offset` lets a search stop: everything below was decided then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment, in the order of their markers."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: AbortedTransaction) -> None:
        """Its marker was appended."""
        self.entries.append(entry)

    def overlapping(self, start: int, end: int) -> Iterator[AbortedTransaction]:
        """The transactions with offsets in [start, end)."""
        for entry in self.entries:
            if entry.last_offset >= start and entry.first_offset < end:
                yield entry

    def covers(self, end: int) -> bool:
        """Whether no later segment can hold a marker of a transaction that began below `end`."""
        return bool(self.entries) and self.entries[-1].last_stable_offset >= end

    def truncate(self, offset: int) -> None:
        """Forget transactions whose marker is at `offset` or later."""
        while self.entries and self.entries[-1].last_offset >= offset:
            self.entries.pop()

    def encode(self) -> bytes:
        """The bytes of the file."""
        return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in self.entries])

    @classmethod
    def decode(cls, data: bytes) -> "TransactionIndex":
        """The inverse of `encode`; ValueError when the bytes are not one."""
        if len(data) % TRANSACTION_ENTRY_BYTES:
            raise ValueError(f"a transaction index of {len(data)} bytes")
        index = cls()
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                raise ValueError(f"a transaction index entry of version {version}")
            index.entries.append(AbortedTransaction(*fields))
        return index
