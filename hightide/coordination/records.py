"""Records of `__consumer_offsets` as bytes: Kafka's, so that its tools read the topic.

A key begins with the record's type, a value with the value's version, both in two bytes. Types that this coordinator
does not know (other kinds of groups) are nobody's business here: they stay in the log and are passed over.
"""

from struct import Struct
from typing import Final

from hightide.coordination.decisions import GroupRecord
from hightide.errors import ProtocolError
from hightide.types import ZERO_UUID
from hightide.wire.message import LogRecord
from hightide.wire.messages.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from hightide.wire.primitives import Reader

_INT16 = Struct(">h")
_KEY_VERSION: Final = 0
_OLDEST_OFFSETS: Final = 0  # the type of offset commits in Kafka before 0.9; their key is the same
_TYPES: Final[dict[int, tuple[type[LogRecord], type[LogRecord]]]] = {
    _OLDEST_OFFSETS: (OffsetCommitKey, OffsetCommitValue),
    OffsetCommitKey.record_type: (OffsetCommitKey, OffsetCommitValue),
    GroupMetadataKey.record_type: (GroupMetadataKey, GroupMetadataValue),
}


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value as the log stores them."""
    key = _INT16.pack(record.key.record_type) + record.key.encode(_KEY_VERSION)
    if record.value is None:
        return key, None
    version = _version(record.value)
    return key, _INT16.pack(version) + record.value.encode(version)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """The record, or None for a type that is not ours; ProtocolError for bytes that are no record."""
    if key is None or len(key) < _INT16.size:
        raise ProtocolError("a group record without a key")
    known = _TYPES.get(_INT16.unpack_from(key)[0])
    if known is None:
        return None
    key_type, value_type = known
    return GroupRecord(_read(key_type, key, _KEY_VERSION), None if value is None else _read_value(value_type, value))


def _read_value(kind: type[LogRecord], data: bytes) -> LogRecord:
    if len(data) < _INT16.size:
        raise ProtocolError("a group record without a version")
    return _read(kind, data, _INT16.unpack_from(data)[0])


def _read(kind: type[LogRecord], data: bytes, version: int) -> LogRecord:
    reader = Reader(data, _INT16.size)
    message = kind.read(reader, version)
    reader.expect_end()
    return message


def _version(value: LogRecord) -> int:
    """The oldest layout that says everything, so that older tools read it too: Kafka does the same."""
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp >= 0:
            return 1
        return 3 if value.topic_id == ZERO_UUID else 4
    return 3
