"""Metadata records as bytes: Kafka's frame (version 1), record type and version as unsigned varints, then the body."""

from functools import cache

from hightide.errors import ProtocolError
from hightide.wire.message import LogRecord
from hightide.wire.primitives import Octets, Reader, write_unsigned_varint

FRAME_VERSION = 1


def encode_record(record: LogRecord) -> bytes:
    """A record as the value that the metadata log stores, in its newest version."""
    out = bytearray()
    version = record.valid_versions[1]
    for number in (FRAME_VERSION, record.record_type, version):
        write_unsigned_varint(out, number)
    out += record.encode(version)
    return bytes(out)


def decode_record(data: Octets) -> LogRecord:
    """The record that fills `data`; ProtocolError for anything else, an unknown type included: guessing loses state."""
    reader = Reader(data)
    frame = reader.read_unsigned_varint()
    if frame != FRAME_VERSION:
        raise ProtocolError(f"metadata frame version {frame}, only {FRAME_VERSION} is known")
    record_type, version = reader.read_unsigned_varint(), reader.read_unsigned_varint()
    known = record_classes().get(record_type)
    if known is None:
        raise ProtocolError(f"unknown metadata record type {record_type}")
    record = known.read(reader, version)
    reader.expect_end()
    return record


@cache
def record_classes() -> dict[int, type[LogRecord]]:
    """Every type of metadata record by its number."""
    from hightide.wire.messages import metadata_log

    classes = (value for value in vars(metadata_log).values() if isinstance(value, type))
    return {known.record_type: known for known in classes if issubclass(known, LogRecord) and known is not LogRecord}
