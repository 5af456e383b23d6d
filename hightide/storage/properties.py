"""Java `.properties` files that carry their own checksum, in a comment that Kafka's readers skip (R18)."""

from collections.abc import Mapping

from hightide.errors import CorruptionError
from hightide.wire.checksum import crc32c

_CHECKSUM = "#crc32c="


def format_properties(values: Mapping[str, str]) -> bytes:
    """One `key=value` a line, sorted, after a comment with the checksum of those lines."""
    body = "".join(f"{key}={value}\n" for key, value in sorted(values.items()))
    return f"{_CHECKSUM}{crc32c(body.encode()):08x}\n{body}".encode()


def parse_properties(data: bytes, path: str) -> dict[str, str]:
    """The inverse; CorruptionError when a single bit differs from what was written."""
    first, _, body = data.partition(b"\n")
    if first != f"{_CHECKSUM}{crc32c(body):08x}".encode():
        raise CorruptionError(f"{path} can't be read: its checksum does not fit, or it was not written by hightide")
    return dict(line.split("=", 1) for line in body.decode().splitlines())
