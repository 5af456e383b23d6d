"""aiokafka: the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import BrokerResponseError

from tests.conformance.clients.message import CREATE_TIME, LOG_APPEND_TIME, Message, Received, Sent

TIMESTAMP_TYPES = {0: CREATE_TIME, 1: LOG_APPEND_TIME}


class AiokafkaClient:
    name = "aiokafka"

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
            "bootstrap_servers": self.bootstrap,
            "compression_type": None if codec == "none" else codec,
            "acks": acks if acks == "all" else int(acks),
            "max_request_size": 20_000_000,
            **(settings or {}),
        }
        return asyncio.run(_produce(options, topic, partition, messages))

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        return asyncio.run(_consume(self.bootstrap, TopicPartition(topic, partition), count, offset))

    def offset_for_time(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        return asyncio.run(_offset_for_time(self.bootstrap, TopicPartition(topic, partition), timestamp))


async def _produce(options: dict[str, Any], topic: str, partition: int, messages: Sequence[Message]) -> list[Sent]:
    async with AIOKafkaProducer(**options) as producer:
        futures = [
            await producer.send(
                topic,
                value=message.value,
                key=message.key,
                partition=partition,
                timestamp_ms=message.timestamp,
                headers=list(message.headers),
            )
            for message in messages
        ]
        await producer.flush()
        return [await _sent(future) for future in futures]


async def _sent(future: asyncio.Future[Any]) -> Sent:
    try:
        metadata = await future
    except BrokerResponseError as error:
        return Sent(-1, error.errno)
    return Sent(-1 if metadata is None else metadata.offset)


def _consumer(bootstrap: str) -> Any:
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=100,
    )


async def _consume(bootstrap: str, partition: TopicPartition, count: int, offset: int) -> list[Received]:
    received: list[Received] = []
    async with _consumer(bootstrap) as consumer, asyncio.timeout(20):
        consumer.assign([partition])
        consumer.seek(partition, offset)
        while len(received) < count:
            record = await consumer.getone()
            received.append(
                Received(
                    record.offset,
                    record.value,
                    record.key,
                    tuple(record.headers),
                    record.timestamp,
                    TIMESTAMP_TYPES[record.timestamp_type],
                )
            )
    return received


async def _offset_for_time(bootstrap: str, partition: TopicPartition, timestamp: int) -> int | None:
    async with _consumer(bootstrap) as consumer:
        consumer.assign([partition])
        found = (await consumer.offsets_for_times({partition: timestamp}))[partition]
    return None if found is None else found.offset
