"""What no client sends: broken frames, unknown APIs, malformed bodies and batches. Others never notice."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from tests.conformance.cluster import Cluster, new_name, produce_fields
from tests.conformance.raw_connection import Connection, request_bytes
from tests.conformance.record_batches import CONTROL, build_batch

GOOD = build_batch([b"a", b"b"])
METADATA = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(api: int, version: int) -> bytes:
    """A request header of version 1, with a null client id."""
    return struct.pack(">hhih", api, version, 7, -1)


@pytest.fixture
def bystander(cluster: Cluster) -> Iterator[Connection]:
    """A well-behaved connection opened before the trouble; it must still be served after it."""
    with cluster.connect() as connection:
        connection.ask("api_versions", 0)
        yield connection
        assert connection.ask("metadata", 9, **METADATA).brokers


CLOSED: dict[str, bytes] = {
    "negative length": struct.pack(">i", -1) + b"xx",
    "two gibibytes announced": struct.pack(">i", 2**31 - 1) + b"xx",
    "one byte above socket.request.max.bytes": struct.pack(">i", 104_857_601),
    "empty frame": struct.pack(">i", 0),
    "no whole header": frame(b"\x00\x12"),
    "unknown API": frame(header(999, 0)),
    "negative API": frame(header(-5, 0)),
    "API removed from Kafka": frame(header(4, 0)),
    "unknown version of Metadata": frame(header(3, 99)),
    "negative version of Metadata": frame(header(3, -1)),
    "refused version of Produce": frame(header(0, 2)),
    "client id longer than the frame": frame(struct.pack(">hhih", 3, 1, 7, 500) + b"ab"),
    "body cut short": frame(request_bytes("metadata", 9, 1, METADATA)[:-1]),
    "array longer than the frame": frame(header(3, 1) + struct.pack(">i", 2**30)),
    "string longer than the frame": frame(header(3, 1) + struct.pack(">ih", 1, 5) + b"ab"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
}


@pytest.mark.parametrize("data", CLOSED.values(), ids=CLOSED.keys())
def test_the_connection_is_closed(cluster: Cluster, bystander: Connection, data: bytes) -> None:
    with cluster.connect() as connection:
        connection.send_bytes(data)
        assert connection.is_closed_by_broker()


def test_requests_before_the_bad_one_are_still_answered(cluster: Cluster, bystander: Connection) -> None:
    with cluster.connect() as connection:
        good = request_bytes("metadata", 9, 1, METADATA)
        connection.send_bytes(frame(good) + frame(header(999, 0)))
        answer = connection.receive_frame()
        assert answer is None or answer[:4] == struct.pack(">i", 1)
        assert answer is None or connection.is_closed_by_broker()


def test_bytes_behind_a_body_are_ignored(cluster: Cluster, bystander: Connection) -> None:
    """librdkafka 2.16 leaves three of them behind when it asks for the metadata of all topics."""
    for version in (1, 9, 13):
        with cluster.connect() as connection:
            connection.send_frame(request_bytes("metadata", version, 1, METADATA) + b"\x01\x00\x00")
            assert connection.receive("metadata", version, 1).brokers


def test_apiversions_of_an_unknown_version_is_answered_in_version_0(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.send_frame(header(18, 99) + b"\x00\x02x\x021\x00")
        answer = connection.receive_frame()
        assert answer is not None
        assert answer[:4] == struct.pack(">i", 7)
        response, size = entity_reader(ApiVersionsResponse)(answer, 4)
        assert size == len(answer) - 4
        assert response.error_code == ErrorCode.unsupported_version
        offered = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        assert offered[18] == cluster.versions[18]
        again = connection.ask("api_versions", 3, client_software_name="test", client_software_version="1")
        assert again.error_code == ErrorCode.none, "the client asks again on the same connection"


def test_apiversions_with_a_bad_software_name(cluster: Cluster) -> None:
    answer = cluster.ask("api_versions", 3, client_software_name="no good!", client_software_version="1")
    assert answer.error_code == ErrorCode.invalid_request


def produced(cluster: Cluster, topic: str, records: bytes, **changes: Any) -> Any:
    answer = cluster.ask("produce", 9, **produce_fields(topic, records, **changes))
    return answer.responses[0].partition_responses[0].error_code


BAD_BATCHES: dict[str, tuple[bytes, ErrorCode]] = {
    "bad CRC": (build_batch([b"a"], crc_error=1), ErrorCode.corrupt_message),
    "flipped bit in the payload": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), ErrorCode.corrupt_message),
    "length below the header": (GOOD[:8] + struct.pack(">i", 5) + GOOD[12:], ErrorCode.corrupt_message),
    "negative length": (GOOD[:8] + struct.pack(">i", -5) + GOOD[12:], ErrorCode.corrupt_message),
    "magic of the future": (build_batch([b"a"], magic=3), ErrorCode.corrupt_message),
    "magic 1": (build_batch([b"a"], magic=1), ErrorCode.invalid_record),
    "length beyond the bytes": (GOOD[:8] + struct.pack(">i", 2**30) + GOOD[12:], ErrorCode.invalid_record),
    "cut in the middle": (GOOD[:-3], ErrorCode.invalid_record),
    "cut in the header": (GOOD[:30], ErrorCode.invalid_record),
    "no bytes": (b"", ErrorCode.invalid_record),
    "more records than offsets": (build_batch([b"a"], record_count=2), ErrorCode.invalid_record),
    "more offsets than records": (build_batch([b"a", b"b"], last_offset_delta=5), ErrorCode.invalid_record),
    "no records": (build_batch([], last_offset_delta=0), ErrorCode.invalid_record),
    "negative count": (build_batch([b"a"], record_count=-1), ErrorCode.invalid_record),
    "control batch": (build_batch([b"a"], attributes=CONTROL), ErrorCode.invalid_record),
    "two batches": (GOOD + GOOD, ErrorCode.invalid_record),
    "base offset not zero": (struct.pack(">q", 77) + GOOD[8:], ErrorCode.invalid_record),
    "producer without sequence": (build_batch([b"a"], producer_id=5, producer_epoch=0), ErrorCode.invalid_record),
}


@pytest.mark.parametrize(("batch", "error"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_a_bad_batch_is_refused_and_leaves_no_trace(
    cluster: Cluster, bystander: Connection, batch: bytes, error: ErrorCode
) -> None:
    topic = cluster.create_topic()
    assert produced(cluster, topic, batch) == error
    assert cluster.end_offset(topic) == 0
    assert produced(cluster, topic, GOOD) == ErrorCode.none


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(cluster: Cluster, codec: int) -> None:
    topic = cluster.create_topic()
    assert produced(cluster, topic, build_batch([b"a"], attributes=codec)) != ErrorCode.none
    assert cluster.end_offset(topic) == 0


def test_a_bad_batch_does_not_spoil_the_others_of_a_request(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=3)
    bad = build_batch([b"a"], crc_error=1)
    parts = [{"index": index, "records": bad if index == 1 else GOOD} for index in range(3)]
    fields = produce_fields(topic, None)
    fields["topic_data"] = [{"name": topic, "partition_data": parts}]
    answer = cluster.ask("produce", 9, **fields)
    errors = {part.index: part.error_code for part in answer.responses[0].partition_responses}
    assert errors == {0: ErrorCode.none, 1: ErrorCode.corrupt_message, 2: ErrorCode.none}
    assert [cluster.end_offset(topic, partition) for partition in range(3)] == [2, 0, 2]


def test_produce_to_what_does_not_exist(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    assert produced(cluster, new_name(), GOOD) == ErrorCode.unknown_topic_or_partition
    assert produced(cluster, topic, GOOD, partition=9) == ErrorCode.unknown_topic_or_partition
    assert produced(cluster, topic, GOOD, partition=-1) == ErrorCode.unknown_topic_or_partition


@pytest.mark.covers("T6")
def test_only_three_kinds_of_acks(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    for acks in (2, -2, 5):
        assert produced(cluster, topic, GOOD, acks=acks) == ErrorCode.invalid_required_acks
    assert cluster.end_offset(topic) == 0
