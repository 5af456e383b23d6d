"""The few Kafka requests the bench sends itself, over a plain blocking socket, in versions every broker has."""

import socket
import time

from hightide.errors import ErrorCode
from hightide.types import NO_OFFSET
from hightide.wire.batches import build_batch
from hightide.wire.headers import RequestHeader, read_response_header
from hightide.wire.message import ApiMessage
from hightide.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from hightide.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from hightide.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from hightide.wire.primitives import INT32, Reader
from hightide.wire.records import Record

CREATE_TOPICS_VERSION = 4
LIST_OFFSETS_VERSION = 2
PRODUCE_VERSION = 7
LATEST = -1
TIMEOUT_SECONDS = 10.0
CLIENT_ID = "bench"


def connect(port: int) -> socket.socket:
    """A connection to the broker on this machine; OSError while it is not there yet."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def request_frame(message: ApiMessage, version: int) -> bytes:
    """A whole request with its length."""
    out = bytearray(4)
    RequestHeader(message.api_key, version, 1, CLIENT_ID).write(out)
    message.write(out, version)
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def batch(value_bytes: int, records: int = 1) -> bytes:
    """A batch of records that are alike."""
    now_ms = time.time_ns() // 1_000_000
    return bytes(build_batch([Record(NO_OFFSET, now_ms, None, b"v" * value_bytes, []) for _ in range(records)]))


def produce_frame(topic: str, acks: int, value_bytes: int, records: int = 1) -> bytes:
    """A Produce request with one batch for partition 0."""
    partition = PartitionProduceData(index=0, records=memoryview(batch(value_bytes, records)))
    topics = [TopicProduceData(name=topic, partition_data=[partition])]
    request = ProduceRequest(acks=acks, timeout_ms=int(TIMEOUT_SECONDS * 1000), topic_data=topics)
    return request_frame(request, PRODUCE_VERSION)


def produce_answer(topic: str) -> bytes:
    """What a broker answers to `produce_frame`, with its length."""
    partitions = [PartitionProduceResponse(index=0, base_offset=0, log_start_offset=0)]
    response = ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=partitions)])
    body = INT32.pack(1) + response.encode(PRODUCE_VERSION)
    return INT32.pack(len(body)) + body


def error_position(topic: str) -> int:
    """Where the error code lies in `produce_answer`, counted after the length."""
    correlation_id, topics, name_length, partitions, index = 4, 4, 2, 4, 4
    return correlation_id + topics + name_length + len(topic) + partitions + index


def exchange(connection: socket.socket, frame: bytes) -> bytes:
    """Send one request and return its answer without the length; OSError when the connection ends."""
    connection.sendall(frame)
    (length,) = INT32.unpack(_receive(connection, 4))
    return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        data += piece
    return bytes(data)


def create_topic(connection: socket.socket, topic: str) -> ErrorCode:
    """Create a topic with one partition; returns the broker's error code."""
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(TIMEOUT_SECONDS * 1000))
    reader = Reader(exchange(connection, request_frame(request, CREATE_TOPICS_VERSION)))
    read_response_header(reader, request.api_key, CREATE_TOPICS_VERSION)
    response = CreateTopicsResponse.read(reader, CREATE_TOPICS_VERSION)
    return ErrorCode(response.topics[0].error_code)


def produce(connection: socket.socket, frame: bytes) -> ErrorCode:
    """Send a `produce_frame`; returns the error code of its partition."""
    reader = Reader(exchange(connection, frame))
    read_response_header(reader, ProduceRequest.api_key, PRODUCE_VERSION)
    response = ProduceResponse.read(reader, PRODUCE_VERSION)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def end_offset(connection: socket.socket, topic: str) -> int:
    """The end of partition 0 as consumers see it."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    reader = Reader(exchange(connection, request_frame(request, LIST_OFFSETS_VERSION)))
    read_response_header(reader, request.api_key, LIST_OFFSETS_VERSION)
    response = ListOffsetsResponse.read(reader, LIST_OFFSETS_VERSION)
    return response.topics[0].partitions[0].offset
