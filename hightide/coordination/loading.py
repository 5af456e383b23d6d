"""Reading a coordinator's log: of each key the newest record is all that counts, so the others are never decoded.

A group that commits every second leaves thousands of records before compaction comes by; whoever takes over must not
need seconds for each of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hightide.coordination.decisions import GroupRecord
from hightide.coordination.records import decode
from hightide.errors import ProtocolError


class Stored(NamedTuple):
    """A record to apply, and the log's end with it."""

    record: GroupRecord
    end: int


class Loading:
    """Give it every record in the order of the log, then apply what `newest` yields, in that order."""

    def __init__(self) -> None:
        self._newest: dict[bytes, tuple[bytes, int]] = {}
        self.unreadable: list[str] = []
        """Records that are none, which should never be."""

    def add(self, key: bytes | None, value: bytes | None, end: int) -> None:
        """One record. A tombstone ends its key."""
        if key is None:
            self.unreadable.append(f"the record before {end} has no key")
            return
        self._newest.pop(key, None)  # the newest comes last
        if value is not None:
            self._newest[key] = (value, end)

    def newest(self) -> Iterator[Stored]:
        """The newest record of each key that this coordinator knows, the oldest of them first."""
        for key, (value, end) in self._newest.items():
            try:
                record = decode(key, value)
            except ProtocolError as error:
                self.unreadable.append(f"the record before {end}: {error}")
                continue
            if record is not None:
                yield Stored(record, end)
