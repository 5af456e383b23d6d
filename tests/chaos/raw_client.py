"""A blocking connection that speaks any API in any version, and never retries by itself."""

import socket
from typing import Any

from hightide.wire.headers import RequestHeader, read_response_header
from hightide.wire.message import ApiMessage
from hightide.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hightide.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from hightide.wire.primitives import Reader
from hightide.wire.records import iterate_headers, iterate_records
from hightide.wire.versions import response_class
from tests.requests import fetch

TIMEOUT_SECONDS = 20.0
EARLIEST, LATEST = -2, -1


class RawClient:
    """One connection. OSError when it breaks, ConnectionError when the broker closes it."""

    def __init__(self, port: int, timeout: float = TIMEOUT_SECONDS, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, message: ApiMessage, version: int) -> None:
        self._correlation_id += 1
        self.socket.sendall(request_frame(message, version, self._correlation_id))

    def receive(self, api_key: int, version: int) -> Any:
        reader = Reader(self._exactly(int.from_bytes(self._exactly(4))))
        read_response_header(reader, api_key, version)
        return response_class(api_key).read(reader, version)

    def call(self, message: ApiMessage, version: int) -> Any:
        self.send(message, version)
        return self.receive(message.api_key, version)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)

    # ------------------------------------------------------------------ questions

    def offset(self, topic: str, partition: int, timestamp: int) -> int:
        """The earliest or the latest offset of a partition."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        answer = self.call(request, 7).topics[0].partitions[0]
        assert answer.error_code == 0, answer
        return int(answer.offset)

    def read_all(self, topic: str, partition: int) -> list[tuple[int, bytes | None, int]]:
        """(offset, value, leader epoch) of every record from the start to the end."""
        found: list[tuple[int, bytes | None, int]] = []
        offset, end = self.offset(topic, partition, EARLIEST), self.offset(topic, partition, LATEST)
        while offset < end:
            answer = self.call(fetch(topic, offset, partition), 12).responses[0].partitions[0]
            assert answer.error_code == 0, answer
            assert answer.records, f"nothing at {offset}, but the end is {end}"
            for position, header in iterate_headers(answer.records):
                records = iterate_records(answer.records, position, header)
                found += [(record.offset, record.value, header.partition_leader_epoch) for record in records]
                offset = header.next_offset
        return found

    def leader_epochs(self, topic: str) -> list[int]:
        """The leader epoch of each partition."""
        answer = self.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9).topics[0]
        assert answer.error_code == 0, answer
        return [part.leader_epoch for part in sorted(answer.partitions, key=lambda part: part.partition_index)]

    def topic_names(self) -> set[str]:
        return {topic.name for topic in self.call(MetadataRequest(topics=None), 9).topics}


def request_frame(message: ApiMessage, version: int, correlation_id: int = 1) -> bytes:
    """A whole request with its length."""
    out = bytearray()
    RequestHeader(message.api_key, version, correlation_id, "chaos").write(out)
    out += message.encode(version)
    return len(out).to_bytes(4) + bytes(out)
