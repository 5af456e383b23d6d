"""Messages up to the limit and one byte over it, and answers larger than the consumer asked for (KIP-74)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.clients.message import Client, Message
from tests.conformance.clients.parametrize import client_parameters, every_client
from tests.conformance.cluster import Cluster, fetch_fields, fetch_partition, produce_fields
from tests.conformance.record_batches import build_batch, read_batches

DEFAULT_LIMIT = 1_048_588
VALUE_BYTES = 100_000


@every_client
def test_a_batch_at_the_limit_passes_and_one_byte_more_does_not(cluster: Cluster, client: Client) -> None:
    # How many bytes a client adds is its own business: the log says, and then the limit is put exactly there.
    probe = cluster.create_topic()
    client.produce(probe, [Message(b"v" * VALUE_BYTES)])
    limit = cluster.batches(probe)[0].size
    topic = cluster.create_topic(max_message_bytes=limit)
    assert client.produce(topic, [Message(b"v" * VALUE_BYTES)])[0].error == 0
    assert client.produce(topic, [Message(b"v" * (VALUE_BYTES + 1))])[0].error == ErrorCode.message_too_large.value
    assert [batch.size for batch in cluster.batches(topic)] == [limit]


def test_the_default_limit(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    overhead = len(build_batch([b"v" * 1_000_000])) - 1_000_000
    for size, error in ((DEFAULT_LIMIT, ErrorCode.none), (DEFAULT_LIMIT + 1, ErrorCode.message_too_large)):
        batch = build_batch([b"v" * (size - overhead)])
        assert len(batch) == size
        answer = cluster.ask("produce", 9, **produce_fields(topic, batch))
        assert answer.responses[0].partition_responses[0].error_code == error
    assert cluster.end_offset(topic) == 1


@client_parameters("kcat")
def test_a_raised_limit_lets_large_messages_through(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    """Ten times the default, above every consumer's limit for one partition: the first batch comes whole (KIP-74)."""
    topic = cluster.create_topic(max_message_bytes=12_000_000)
    large = bytes(range(256)) * 40_000
    assert client.produce(topic, [Message(large)])[0].error == 0
    for reader in readers:
        assert reader.consume(topic, 1)[0].value == large, reader.name


@pytest.mark.covers("T18")
def test_fetch_returns_the_first_batch_whole_and_honours_the_limits_after_it(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    batch = build_batch([b"v" * 1000])
    for partition in (0, 0, 0, 1):
        answer = cluster.ask("produce", 9, **produce_fields(topic, batch, partition))
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none
    size = len(batch)

    def fetched(request_max: int, partition_max: int) -> list[int]:
        topics = [{"topic": topic, "partitions": [fetch_partition(p, 0, partition_max) for p in (0, 1)]}]
        answer = cluster.ask("fetch", 12, **fetch_fields(topic, 0, 0, topics=topics, max_bytes=request_max))
        parts = sorted(answer.responses[0].partitions, key=lambda part: part.partition_index)
        return [len(read_batches(part.records)) for part in parts]

    assert fetched(50_000_000, 50_000_000) == [3, 1]
    assert fetched(50_000_000, 1) == [1, 0], "only the first partition with data may exceed its own limit"
    assert fetched(1, 50_000_000) == [1, 0]
    assert fetched(50_000_000, 2 * size) == [2, 1]
