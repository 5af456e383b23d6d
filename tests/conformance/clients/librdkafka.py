"""confluent-kafka: librdkafka in Python."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.conformance.clients.message import CREATE_TIME, LOG_APPEND_TIME, Message, Received, Sent

BYTES_MAX = 20_000_000
TIMESTAMP_TYPES = {1: CREATE_TIME, 2: LOG_APPEND_TIME}


class ConfluentClient:
    name = "confluent-kafka"

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
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": codec,
            "acks": acks,
            "message.max.bytes": BYTES_MAX,
            **(settings or {}),
        }
        producer = Producer(config)
        sent: dict[int, Sent] = {}

        def delivered(index: int, error: Any, message: Any) -> None:
            sent[index] = Sent(
                -1 if message.offset() is None else message.offset(), 0 if error is None else error.code()
            )

        for index, message in enumerate(messages):
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                partition=partition,
                headers=list(message.headers),
                timestamp=message.timestamp or 0,
                on_delivery=lambda error, message, index=index: delivered(index, error, message),
            )
        assert producer.flush(30) == 0, "librdkafka could not deliver everything in time"
        return [sent[index] for index in range(len(messages))]

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        consumer = self.consumer()
        received: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            deadline = time.monotonic() + 20
            while len(received) < count and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is not None:
                    if message.error():
                        raise KafkaException(message.error())
                    received.append(_received(message))
        finally:
            consumer.close()
        return received

    def offset_for_time(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        consumer = self.consumer()
        try:
            found = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=15)[0]
        finally:
            consumer.close()
        if found.error:
            raise KafkaException(found.error)
        return None if found.offset < 0 else found.offset

    def consumer(self, **settings: object) -> Any:
        """A consumer without a coordinator: librdkafka wants a group name, assign() never uses it."""
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            **settings,
        }
        return Consumer(config)


def _received(message: Any) -> Received:
    timestamp_type, timestamp = message.timestamp()
    return Received(
        message.offset(),
        message.value(),
        message.key(),
        tuple(message.headers() or ()),
        timestamp,
        TIMESTAMP_TYPES[timestamp_type],
    )
