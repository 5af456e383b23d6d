"""Requests as tests want them, short."""

from collections.abc import Iterable, Sequence
from typing import Any

from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hightide.wire.messages.delete_topics import DeleteTopicsRequest
from hightide.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from hightide.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hightide.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hightide.wire.records import Record, iterate_headers, iterate_records

TIMEOUT_MS = 30_000


def create_topic(name: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=TIMEOUT_MS,
    )


def delete_topic(name: str) -> DeleteTopicsRequest:
    """By name, for versions up to 5."""
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)


TOPIC, BROKER = 2, 4  # kinds of resources with settings
SET = 0


def set_topic_config(topic: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
    return set_config(TOPIC, topic, name, value)


def set_config(kind: int, resource: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=name, config_operation=SET, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[change])]
    )


def batch(values: Sequence[bytes], **options: Any) -> bytes:
    records = [Record(index, 1_700_000_000_000 + index, None, value, []) for index, value in enumerate(values)]
    return bytes(build_batch(records, **options))


def produce(
    topic: str | bytes, values: Sequence[bytes], partition: int = 0, acks: int = -1, codec: Codec = Codec.NONE,
    timeout_ms: int = TIMEOUT_MS, **options: Any,
) -> ProduceRequest:  # fmt: skip
    return produce_batch(topic, batch(values, codec=codec, **options), partition, acks, timeout_ms)


def produce_batch(
    topic: str | bytes, records: bytes, partition: int = 0, acks: int = -1, timeout_ms: int = TIMEOUT_MS
) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=memoryview(records))]
    named = (
        TopicProduceData(name=topic, partition_data=data)
        if isinstance(topic, str)
        else TopicProduceData(topic_id=topic, partition_data=data)
    )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[named])


def fetch(topic: str, offset: int = 0, partition: int = 0, **options: Any) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    settings: dict[str, Any] = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 24,
        "session_id": 0,
        "session_epoch": -1,
    }
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=[asked])], **(settings | options))


def values_of(response: Any) -> list[bytes | None]:
    """The values of all records in a fetch response's first partition."""
    records = response.responses[0].partitions[0].records if response.responses else None
    return [record.value for record in records_in(records or b"")]


def records_in(data: bytes | memoryview) -> Iterable[Record]:
    for position, header in iterate_headers(data):
        yield from iterate_records(data, position, header)
