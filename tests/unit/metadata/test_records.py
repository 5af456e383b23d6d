"""Metadata records as Kafka frames them."""

import pytest

from hightide.errors import ProtocolError
from hightide.metadata.entities import Broker
from hightide.metadata.image import Image
from hightide.metadata.records import decode_record, encode_record, record_classes
from hightide.wire.messages.metadata_log import RegisterBrokerRecord, TopicRecord

TOPIC_ID = bytes(range(16))


def test_the_frame_is_kafkas() -> None:
    data = encode_record(TopicRecord(name="t", topic_id=TOPIC_ID))
    assert data == bytes([1, 2, 0, 2]) + b"t" + TOPIC_ID + b"\0"
    assert decode_record(data) == TopicRecord(name="t", topic_id=TOPIC_ID)


@pytest.mark.parametrize("record_type", sorted(record_classes()))
def test_every_type_travels(record_type: int) -> None:
    record = record_classes()[record_type]()
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00", "unknown metadata record type 99"),
        (b"\x01\x02\x07", "no version 7"),
        (b"\x01\x02", "bytes"),
        (b"", "bytes"),
    ],
)
def test_anything_else_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode_record(data)


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_record(encode_record(TopicRecord(name="t", topic_id=TOPIC_ID)) + b"\0")


@pytest.mark.covers("C6")
def test_what_the_controller_alone_knows_does_not_travel_and_new_fields_do_no_harm() -> None:
    """The registration on the wire and in the image has no observation in it; a field of a later version is kept."""
    observations = {"last_heartbeat", "heartbeat", "partition_count", "status", "session"}
    assert not observations & {*RegisterBrokerRecord.__slots__, *Broker._fields}
    later = RegisterBrokerRecord(broker_id=1, unknown_tagged_fields={9999: b"new"})
    decoded = decode_record(encode_record(later))
    assert decoded == later
    image, _ = Image().apply([decoded], 0, 1)
    assert image.brokers[1].broker_id == 1
