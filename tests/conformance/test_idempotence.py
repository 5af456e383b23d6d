"""Idempotent producers: what was sent twice is in the log once, what is out of order is refused (N11)."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.clients.message import Client, Message
from tests.conformance.clients.parametrize import client_parameters
from tests.conformance.cluster import Cluster, produce_fields
from tests.conformance.proxy import ProduceDroppingProxy
from tests.conformance.record_batches import build_batch

# Idempotence on, and small batches, so that a run has several requests in flight.
SETTINGS: dict[str, dict[str, object]] = {
    "confluent-kafka": {"enable.idempotence": True, "batch.num.messages": 2, "retry.backoff.ms": 20},
    "aiokafka": {"enable_idempotence": True, "max_batch_size": 300, "retry_backoff_ms": 20},
    "kafka-python": {"batch_size": 300, "retry_backoff_ms": 20, "reconnect_backoff_ms": 10},
    "java": {"batch.size": 300, "retry.backoff.ms": 20, "reconnect.backoff.ms": 10},
}


@pytest.mark.covers("N11")
@client_parameters(
    "kcat"
)  # it gives up when its only broker closes the connection; its librdkafka is tested as confluent
def test_a_lost_answer_makes_no_duplicate(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    values = [b"%04d" % number + b"." * 100 for number in range(40)]
    with ProduceDroppingProxy(cluster.bootstrap, drop={0, 3, 5}) as proxy:
        client.bootstrap = proxy.bootstrap
        sent = client.produce(topic, [Message(value) for value in values], settings=SETTINGS[client.name])
        assert [one.error for one in sent] == [0] * len(values)
        # Requests in flight on the same connection are lost together with the one that was named.
        assert 1 <= proxy.dropped <= 3
        batches = cluster.batches(topic)
        assert all(batch.producer_id >= 0 for batch in batches), "the client must be idempotent"
        assert proxy.produce_requests > len(batches), "the client must have sent a batch again"
    received = [record.value for record in readers[0].consume(topic, len(values))]
    assert received == values
    assert cluster.end_offset(topic) == len(values)


class RawProducer:
    """Sends batches with a chosen producer id, epoch and sequence."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.topic = cluster.create_topic()
        answer = cluster.ask(
            "init_producer_id",
            4,
            transactional_id=None,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        assert answer.error_code == ErrorCode.none
        self.producer_id: int = answer.producer_id
        self.epoch: int = answer.producer_epoch

    def send(self, sequence: int, *values: bytes, epoch: int | None = None, version: int = 9) -> Any:
        batch = build_batch(
            list(values),
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
        )
        answer = self._cluster.ask("produce", version, **produce_fields(self.topic, batch))
        return answer.responses[0].partition_responses[0]


def test_producer_ids_are_never_handed_out_twice(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        seen = [
            connection.ask("init_producer_id", 1, transactional_id=None, transaction_timeout=60_000).producer_id
            for _ in range(20)
        ]
    assert len(set(seen)) == 20
    assert min(seen) >= 0


@pytest.mark.covers("N11")
def test_a_duplicate_is_answered_with_the_original_offset(cluster: Cluster) -> None:
    producer = RawProducer(cluster)
    first = producer.send(0, b"a", b"b", b"c")
    second = producer.send(3, b"d")
    assert (first.base_offset, second.base_offset) == (0, 3)
    for sequence, values, offset in ((0, (b"a", b"b", b"c"), 0), (3, (b"d",), 3)):
        again = producer.send(sequence, *values)
        assert (again.error_code, again.base_offset) == (ErrorCode.none, offset)
    assert cluster.end_offset(producer.topic) == 4


@pytest.mark.covers("N11")
def test_the_last_five_batches_are_remembered(cluster: Cluster) -> None:
    producer = RawProducer(cluster)
    for sequence in range(6):
        assert producer.send(sequence, b"x").error_code == ErrorCode.none
    for sequence in range(1, 6):
        again = producer.send(sequence, b"x")
        assert (again.error_code, again.base_offset) == (ErrorCode.none, sequence)
    assert producer.send(0, b"x").error_code == ErrorCode.out_of_order_sequence_number, "older than the five"
    assert cluster.end_offset(producer.topic) == 6


@pytest.mark.covers("N11")
def test_a_gap_is_refused(cluster: Cluster) -> None:
    producer = RawProducer(cluster)
    assert producer.send(0, b"x").error_code == ErrorCode.none
    for sequence in (2, 100):
        assert producer.send(sequence, b"x").error_code == ErrorCode.out_of_order_sequence_number
    assert producer.send(1, b"x").base_offset == 1


@pytest.mark.covers("N11")
def test_a_stale_epoch_is_refused_and_a_new_one_starts_at_zero(cluster: Cluster) -> None:
    producer = RawProducer(cluster)
    assert producer.send(0, b"x").error_code == ErrorCode.none
    new = producer.epoch + 1
    assert producer.send(1, b"x", epoch=new).error_code == ErrorCode.out_of_order_sequence_number
    assert producer.send(0, b"x", epoch=new).base_offset == 1
    assert producer.send(1, b"x").error_code == ErrorCode.invalid_producer_epoch


@pytest.mark.covers("N11")
def test_sequences_wrap_around(cluster: Cluster) -> None:
    producer = RawProducer(cluster)
    # A producer the partition does not know may begin anywhere: its records may have been deleted by retention.
    assert producer.send(2**31 - 2, b"x", b"y").base_offset == 0
    assert producer.send(0, b"z").base_offset == 2
    assert producer.send(2**31 - 2, b"x", b"y").base_offset == 0


def test_producers_are_told_apart_by_partition(cluster: Cluster) -> None:
    producer = RawProducer(cluster)
    assert producer.send(0, b"x").error_code == ErrorCode.none
    producer.topic = cluster.create_topic()
    assert producer.send(0, b"x").base_offset == 0
