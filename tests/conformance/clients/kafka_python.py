"""kafka-python 3: the pure Python client, idempotent by default."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import BrokerResponseError

from tests.conformance.clients.message import CREATE_TIME, LOG_APPEND_TIME, Message, Received, Sent

TIMESTAMP_TYPES = {0: CREATE_TIME, 1: LOG_APPEND_TIME}


class KafkaPythonClient:
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        settings: Mapping[str, object] | None = None,
    ) -> list[Sent]:
        options: dict[str, Any] = {
            "compression_type": None if codec == "none" else codec,
            "acks": acks if acks == "all" else int(acks),
            "enable_idempotence": acks == "all",
            "max_request_size": 20_000_000,
            **(settings or {}),
        }
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, **options)
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    partition=partition,
                    timestamp_ms=message.timestamp,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            return [_sent(future) for future in futures]
        finally:
            producer.close()

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        target = TopicPartition(topic, partition)
        received: list[Received] = []
        consumer = self.consumer()
        try:
            consumer.assign([target])
            consumer.seek(target, offset)
            deadline = time.monotonic() + 20
            while len(received) < count and time.monotonic() < deadline:
                received += [_received(record) for record in consumer.poll(timeout_ms=500).get(target, [])]
        finally:
            consumer.close()
        return received

    def offset_for_time(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        target = TopicPartition(topic, partition)
        consumer = self.consumer()
        try:
            found = consumer.offsets_for_times({target: timestamp})[target]
        finally:
            consumer.close()
        return None if found is None else found.offset

    def consumer(self) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=100,
        )


def _sent(future: Any) -> Sent:
    try:
        return Sent(future.get(timeout=30).offset)
    except BrokerResponseError as error:
        return Sent(-1, error.errno)


def _received(record: Any) -> Received:
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
        TIMESTAMP_TYPES[record.timestamp_type],
    )
