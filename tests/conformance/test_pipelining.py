"""Several requests on one connection: answered in order, whatever each of them waits for."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.cluster import Cluster, fetch_fields, new_name, produce_fields
from tests.conformance.raw_connection import request_bytes
from tests.conformance.record_batches import build_batch, read_batches

METADATA = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


@pytest.mark.covers("N10")
def test_pipelined_produces_are_appended_and_answered_in_order(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with cluster.connect() as connection:
        acks = [-1, 1, -1, -1, 1] * 10
        sent = [
            connection.send("produce", 9, **produce_fields(topic, build_batch([b"%d" % number]), acks=kind))
            for number, kind in enumerate(acks)
        ]
        answers = [connection.receive("produce", 9, correlation_id) for correlation_id in sent]
    parts = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [(part.error_code, part.base_offset) for part in parts] == [(ErrorCode.none, n) for n in range(50)]


@pytest.mark.covers("T6")
def test_acks_0_has_no_answer(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with cluster.connect() as connection:
        for number in range(5):
            connection.send("produce", 9, **produce_fields(topic, build_batch([b"%d" % number]), acks=0))
        asked = connection.send("metadata", 9, **METADATA)
        connection.receive("metadata", 9, asked)  # the next answer is the next request's
        last = connection.ask("produce", 9, **produce_fields(topic, build_batch([b"last"])))
    assert last.responses[0].partition_responses[0].base_offset == 5


def test_an_error_with_acks_0_closes_the_connection(cluster: Cluster) -> None:
    """There is no answer to carry the error: closing is how the producer learns to refresh its metadata."""
    with cluster.connect() as connection:
        connection.send("produce", 9, **produce_fields(new_name(), build_batch([b"x"]), acks=0))
        assert connection.is_closed_by_broker()


def test_mixed_requests_are_answered_in_order(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with cluster.connect() as connection:
        first = connection.send("produce", 9, **produce_fields(topic, build_batch([b"x"])))
        waiting = connection.send("fetch", 12, **fetch_fields(topic, 0, 1, max_wait=300))
        after = connection.send("metadata", 9, **METADATA)
        assert connection.receive("produce", 9, first).responses[0].partition_responses[0].base_offset == 0
        empty = connection.receive("fetch", 12, waiting)
        assert read_batches(empty.responses[0].partitions[0].records) == []
        assert connection.receive("metadata", 9, after).brokers


def test_a_request_in_many_small_pieces(cluster: Cluster) -> None:
    payload = request_bytes("metadata", 9, 1, METADATA)
    with cluster.connect() as connection:
        for byte in len(payload).to_bytes(4, "big") + payload:
            connection.send_bytes(bytes([byte]))
        assert connection.receive("metadata", 9, 1).brokers
