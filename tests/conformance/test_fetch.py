"""Fetch on the wire: long polling, sessions (KIP-227), topic ids, epochs, and positions outside the log."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.cluster import Cluster, fetch_fields, fetch_partition, new_name, produce_fields
from tests.conformance.record_batches import build_batch, read_batches


def append(cluster: Cluster, topic: str, value: bytes = b"x", partition: int = 0) -> None:
    answer = cluster.ask("produce", 9, **produce_fields(topic, build_batch([value]), partition))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none


def parts(answer: Any) -> dict[tuple[str, int], Any]:
    return {(topic.topic, part.partition_index): part for topic in answer.responses for part in topic.partitions}


def test_an_empty_fetch_waits_for_max_wait(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    started = time.monotonic()
    answer = cluster.ask("fetch", 12, **fetch_fields(topic, 0, 0, max_wait=400))
    assert time.monotonic() - started >= 0.39
    part = parts(answer)[topic, 0]
    assert (part.error_code, part.high_watermark, part.last_stable_offset) == (ErrorCode.none, 0, 0)
    assert read_batches(part.records) == []


def test_a_waiting_fetch_is_answered_by_the_next_produce(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with cluster.connect() as connection:
        asked = connection.send("fetch", 12, **fetch_fields(topic, 0, 0, max_wait=14_000))
        append(cluster, topic)
        answer = connection.receive("fetch", 12, asked)  # the connection's deadline is what proves it came early
    part = parts(answer)[topic, 0]
    assert [batch.base_offset for batch in read_batches(part.records)] == [0]
    assert part.high_watermark == 1


def test_min_bytes_collects(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    size = len(build_batch([b"x"]))
    with cluster.connect() as connection:
        asked = connection.send("fetch", 12, **fetch_fields(topic, 0, 0, max_wait=14_000, min_bytes=3 * size))
        for _ in range(3):
            append(cluster, topic)
        answer = connection.receive("fetch", 12, asked)
    assert len(read_batches(parts(answer)[topic, 0].records)) == 3


def test_many_waiters_all_wake(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    connections = [cluster.connect() for _ in range(20)]
    asked = [c.send("fetch", 12, **fetch_fields(topic, 0, 0, max_wait=14_000)) for c in connections]
    append(cluster, topic)
    for connection, correlation_id in zip(connections, asked, strict=True):
        answer = connection.receive("fetch", 12, correlation_id)
        assert len(read_batches(parts(answer)[topic, 0].records)) == 1
        connection.socket.close()


def test_a_waiter_that_goes_away_disturbs_nobody(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    for _ in range(5):
        with cluster.connect() as connection:
            connection.send("fetch", 12, **fetch_fields(topic, 0, 0, max_wait=14_000))
    append(cluster, topic)
    answer = cluster.ask("fetch", 12, **fetch_fields(topic, 0, 0))
    assert len(read_batches(parts(answer)[topic, 0].records)) == 1


def test_an_error_ends_the_wait(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    topics = [{"topic": topic, "partitions": [fetch_partition(0, 0), fetch_partition(1, 99)]}]
    with cluster.connect(timeout_seconds=5) as connection:
        answer = connection.ask("fetch", 12, **fetch_fields(topic, 0, 0, topics=topics, max_wait=14_000))
    assert parts(answer)[topic, 0].error_code == ErrorCode.none
    assert parts(answer)[topic, 1].error_code == ErrorCode.offset_out_of_range


def test_unknown_partitions_do_not_spoil_the_others(cluster: Cluster) -> None:
    good = cluster.create_topic()
    topics = [
        {"topic": good, "partitions": [fetch_partition(0, 0), fetch_partition(9, 0)]},
        {"topic": new_name(), "partitions": [fetch_partition(0, 0)]},
    ]
    answer = cluster.ask("fetch", 12, **fetch_fields(good, 0, 0, topics=topics, max_wait=0))
    errors = {key: part.error_code for key, part in parts(answer).items()}
    assert errors.pop((good, 0)) == ErrorCode.none
    assert set(errors.values()) == {ErrorCode.unknown_topic_or_partition}


@pytest.mark.covers("C34")
def test_positions_outside_the_log(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    append(cluster, topic)
    for offset, error in ((-1, True), (0, False), (1, False), (2, True)):
        part = parts(cluster.ask("fetch", 12, **fetch_fields(topic, 0, offset, max_wait=0)))[topic, 0]
        assert part.error_code == (ErrorCode.offset_out_of_range if error else ErrorCode.none), offset


@pytest.mark.covers("C24")
def test_leader_epochs_are_checked(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    append(cluster, topic)
    epoch = cluster.describe_topic(topic).partitions[0].leader_epoch
    expected = {
        epoch: ErrorCode.none,
        -1: ErrorCode.none,
        epoch + 1: ErrorCode.unknown_leader_epoch,
    }
    if epoch > 0:
        expected[epoch - 1] = ErrorCode.fenced_leader_epoch
    for asked, error in expected.items():
        partitions = [{**fetch_partition(0, 0), "current_leader_epoch": asked}]
        fields = fetch_fields(topic, 0, 0, topics=[{"topic": topic, "partitions": partitions}], max_wait=0)
        assert parts(cluster.ask("fetch", 12, **fields))[topic, 0].error_code == error
        listed = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": asked}]
        answer = cluster.ask(
            "list_offsets", 7, replica_id=-1, isolation_level=0, topics=[{"name": topic, "partitions": listed}]
        )
        assert answer.topics[0].partitions[0].error_code == error


def test_offset_for_leader_epoch(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    append(cluster, topic)
    append(cluster, topic)
    epoch = cluster.describe_topic(topic).partitions[0].leader_epoch

    def end_of(asked: int, current: int = -1) -> tuple[Any, int, int]:
        partitions = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": asked}]
        topics = [{"topic": topic, "partitions": partitions}]
        part = cluster.ask("offset_for_leader_epoch", 4, replica_id=-1, topics=topics).topics[0].partitions[0]
        return part.error_code, part.leader_epoch, part.end_offset

    assert end_of(epoch) == (ErrorCode.none, epoch, 2)
    assert end_of(epoch + 7) == (ErrorCode.none, -1, -1)
    assert end_of(epoch, current=epoch + 1)[0] == ErrorCode.unknown_leader_epoch


def test_a_diverging_epoch_is_told(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    append(cluster, topic)
    epoch = cluster.describe_topic(topic).partitions[0].leader_epoch
    partitions = [{**fetch_partition(0, 5), "last_fetched_epoch": epoch, "current_leader_epoch": epoch}]
    fields = fetch_fields(topic, 0, 0, topics=[{"topic": topic, "partitions": partitions}], max_wait=0)
    part = parts(cluster.ask("fetch", 12, **fields))[topic, 0]
    assert part.error_code == ErrorCode.none
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (epoch, 1)
    assert read_batches(part.records) == []


def test_fetch_by_topic_id(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    append(cluster, topic)
    topic_id = cluster.describe_topic(topic).topic_id
    topics = [{"topic_id": topic_id, "partitions": [fetch_partition(0, 0)]}]
    for version in range(13, cluster.versions[1][1] + 1):
        answer = cluster.ask("fetch", version, **fetch_fields(topic, 0, 0, topics=topics))
        assert answer.error_code == ErrorCode.none
        assert answer.responses[0].topic_id == topic_id
        assert len(read_batches(answer.responses[0].partitions[0].records)) == 1


def test_a_session_answers_only_what_changed(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=3)
    wanted = [fetch_partition(partition, 0) for partition in range(3)]
    with cluster.connect() as connection:
        full = connection.ask(
            "fetch",
            12,
            **fetch_fields(topic, 0, 0, topics=[{"topic": topic, "partitions": wanted}], session_epoch=0, max_wait=0),
        )
        assert full.error_code == ErrorCode.none
        assert full.session_id > 0
        assert len(parts(full)) == 3

        def incremental(epoch: int, topics: list[Any], **changes: Any) -> dict[tuple[str, int], Any]:
            fields = fetch_fields(topic, 0, 0, topics=topics, session_id=full.session_id, session_epoch=epoch)
            answer = connection.ask("fetch", 12, **{**fields, "max_wait": 0, **changes})
            assert (answer.error_code, answer.session_id) == (ErrorCode.none, full.session_id)
            return parts(answer)

        assert incremental(1, []) == {}
        append(cluster, topic, partition=1)
        changed = incremental(2, [])
        assert list(changed) == [(topic, 1)]
        assert len(read_batches(changed[topic, 1].records)) == 1
        # The client moves on by naming the partition with its new position; then there is nothing new again.
        assert incremental(3, [{"topic": topic, "partitions": [fetch_partition(1, 1)]}]) == {}
        forgotten = [{"topic": topic, "partitions": [2]}]
        assert incremental(4, [], forgotten_topics_data=forgotten) == {}
        append(cluster, topic, partition=2)
        assert incremental(5, []) == {}, "a forgotten partition is not answered"
        append(cluster, topic, partition=0)
        assert list(incremental(6, [])) == [(topic, 0)]


def test_session_errors(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with cluster.connect() as connection:

        def ask(session_id: int, epoch: int) -> Any:
            fields = fetch_fields(topic, 0, 0, session_id=session_id, session_epoch=epoch, max_wait=0)
            return connection.ask("fetch", 12, **fields)

        assert ask(123456, 5).error_code == ErrorCode.fetch_session_id_not_found
        session = ask(0, 0).session_id
        assert session > 0
        assert ask(session, 9).error_code == ErrorCode.invalid_fetch_session_epoch
        assert ask(session, 1).error_code == ErrorCode.none
        closed = ask(session, -1)
        assert (closed.error_code, closed.session_id) == (ErrorCode.none, 0)
        assert ask(session, 2).error_code == ErrorCode.fetch_session_id_not_found
        assert ask(0, -1).session_id == 0, "epoch -1 asks for no session"


def test_read_committed_sees_what_is_not_in_a_transaction(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    append(cluster, topic)
    part = parts(cluster.ask("fetch", 12, **fetch_fields(topic, 0, 0, isolation_level=1)))[topic, 0]
    assert len(read_batches(part.records)) == 1
    assert part.last_stable_offset == 1
    assert not part.aborted_transactions


def test_readers_and_writers_at_once(cluster: Cluster) -> None:
    """A reader that keeps up by long polling sees every record once, in order, while writers are at work."""
    topic = cluster.create_topic()
    count = 200

    def write() -> None:
        with cluster.connect() as connection:
            for number in range(count):
                batch = build_batch([b"%d" % number])
                connection.ask("produce", 9, **produce_fields(topic, batch))

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    with cluster.connect() as connection:
        while len(seen) < count:
            answer = connection.ask("fetch", 12, **fetch_fields(topic, 0, len(seen)))
            seen += [batch.base_offset for batch in read_batches(parts(answer)[topic, 0].records)]
    writer.join()
    assert seen == list(range(count))
