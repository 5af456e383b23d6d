"""The seal of a segment: what it and its indexes were when they were last written out, in a `.seal` file beside it.

Kafka's index formats have no room for a checksum, so a shortened time index would silently give wrong answers and a
shortened transaction index would show aborted records. The seal holds the checksums, and the facts that opening a log
would otherwise have to scan for. Kafka's tools ignore the file. A seal that does not fit its segment is worth nothing:
the segment is scanned and sealed again.
"""

from struct import Struct
from typing import NamedTuple

from hightide.wire.checksum import crc32c

_VERSION = 1
_PREFIX = Struct(">hI")  # version, CRC of what follows
_BODY = Struct(">qqqqqIII")


class Seal(NamedTuple):
    """Facts about one segment. `end` is the offset after its last record; timestamps are -1 when there are none."""

    log_bytes: int
    end: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    index_crc: int
    time_index_crc: int
    transaction_index_crc: int  # 0 is the CRC of no bytes: there is no such file then

    def encode(self) -> bytes:
        """The bytes of the file."""
        body = _BODY.pack(*self)
        return _PREFIX.pack(_VERSION, crc32c(body)) + body

    @classmethod
    def decode(cls, data: bytes) -> "Seal | None":
        """The seal, or None when the bytes are not one."""
        if len(data) != _PREFIX.size + _BODY.size:
            return None
        version, crc = _PREFIX.unpack_from(data)
        body = data[_PREFIX.size :]
        if version != _VERSION or crc32c(body) != crc:
            return None
        return cls(*_BODY.unpack(body))
