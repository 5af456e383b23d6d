"""Records of `__consumer_offsets` are Kafka's, byte for byte where it matters."""

import pytest

from hightide.coordination.decisions import GroupRecord
from hightide.coordination.records import decode, encode
from hightide.errors import ProtocolError
from hightide.wire.messages.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def test_a_commit_as_kafka_writes_it() -> None:
    key, value = encode(GroupRecord(KEY, OffsetCommitValue(offset=5, leader_epoch=2, commit_timestamp=7)))
    assert key == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert value == b"\x00\x03" + (5).to_bytes(8) + (2).to_bytes(4) + b"\x00\x00" + (7).to_bytes(8)


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (OffsetCommitValue(offset=5, leader_epoch=2, metadata="é", commit_timestamp=7), 3),
        (OffsetCommitValue(offset=5, commit_timestamp=7, expire_timestamp=9), 1),
        (OffsetCommitValue(offset=5, commit_timestamp=7, topic_id=bytes(range(16))), 4),
    ],
)
def test_the_oldest_version_that_says_everything(value: OffsetCommitValue, version: int) -> None:
    record = GroupRecord(KEY, value)
    key, data = encode(record)
    assert data is not None
    assert int.from_bytes(data[:2]) == version
    assert decode(key, data) == record


def test_a_group_and_its_tombstone() -> None:
    member = MemberMetadata(
        member_id="m", group_instance_id="s", client_id="c", client_host="/h", rebalance_timeout=1, session_timeout=2,
        subscription=b"x", assignment=b"y",
    )  # fmt: skip
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=[member],
    )
    for kept in (value, None):
        record = GroupRecord(GroupMetadataKey(group="g"), kept)
        assert decode(*encode(record)) == record


def test_other_kinds_of_groups_are_passed_over() -> None:
    assert decode(b"\x00\x03\x00\x01g", b"\x00\x00") is None


def test_kafkas_oldest_commits_are_read() -> None:
    key, value = encode(GroupRecord(KEY, OffsetCommitValue(offset=5)))
    assert decode(b"\x00\x00" + key[2:], value) == decode(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00", None),
        (b"\x00\x01\x00\x01g", None),
        (b"\x00\x02\x00\x01g\x00", None),
        (b"\x00\x02\x00\x01g", b"\x00"),
        (b"\x00\x02\x00\x01g", b"\x00\x63"),
    ],
)
def test_what_is_no_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode(key, value)
