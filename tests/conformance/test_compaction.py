"""Compacted topics, as stock clients see them: the last value of each key, and nothing that was there before it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients.aio import AiokafkaClient
from tests.conformance.clients.java import JavaDriver
from tests.conformance.clients.kafka_python import KafkaPythonClient
from tests.conformance.clients.librdkafka import ConfluentClient
from tests.conformance.clients.message import Client, Message
from tests.conformance.cluster import Cluster, HightideProcess
from tests.conformance.test_dump_log import dump

CLIENTS = (ConfluentClient, AiokafkaClient, KafkaPythonClient)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
KEYS, ROUNDS = 40, 10
SETTINGS: dict[str, Any] = {
    "cleanup_policy": "compact", "segment_ms": 20, "min_cleanable_dirty_ratio": 0, "delete_retention_ms": 0,
    "file_delete_delay_ms": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def compacting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A hightide that looks for something to compact all the time."""
    process = HightideProcess(tmp_path_factory.mktemp("compacting"), log_cleaner_backoff_ms=20)
    yield Cluster(process.bootstrap, process.data_dir)
    process.stop()


def churn(client: Client, topic: str, codec: str = "none") -> dict[bytes, bytes]:
    """Write keys again and again, delete some; what a reader must end up with."""
    view: dict[bytes, bytes] = {}
    start = int(time.time() * 1000) - 10_000
    for number in range(ROUNDS):
        messages = []
        for key in (b"key-%d" % n for n in range(KEYS) if n % (number + 1) == 0):
            value = None if number == ROUNDS - 2 and key.endswith(b"8") else b"%d of " % number + key * 20
            messages.append(Message(value, key, (("round", b"%d" % number),), start + 100 * number))
            view.pop(key, None)
            if value is not None:
                view[key] = value
        client.produce(topic, messages, codec=codec)
    return view | {b"last": b"active"}


def compacted(cluster: Cluster, client: Client, topic: str, view: dict[bytes, bytes]) -> int:
    """Write on, so that segments are sealed and tombstones go, until one record per key is left; how many there are."""
    deadline = time.monotonic() + 60
    for number in range(1_000_000):
        left = sum(batch.record_count for batch in cluster.batches(topic))
        if number and left <= len(view) + 1:  # the newest of the last key, and one more in a sealed segment
            return left
        assert time.monotonic() < deadline, f"{left} records of {topic} are left, {len(view)} were expected"
        if number % 10 == 0:
            timestamp = int(time.time() * 1000) + 100 * number
            client.produce(topic, [Message(b"active", b"last", (), timestamp)])
        time.sleep(0.05)
    raise AssertionError


def seen(client: Client, topic: str, count: int) -> dict[bytes | None, bytes]:
    """What a reader makes of the topic: a tombstone that is still there deletes."""
    last = {record.key: record.value for record in client.consume(topic, count)}
    return {key: value for key, value in last.items() if value is not None}


@pytest.mark.covers("C35")
@pytest.mark.parametrize("make", CLIENTS, ids=[each.name for each in CLIENTS])
def test_the_last_value_of_each_key(compacting: Cluster, make: type[Client]) -> None:
    writer = make(compacting.bootstrap)  # type: ignore[call-arg]
    topic = compacting.create_topic(**SETTINGS)
    view = churn(writer, topic)
    left = compacted(compacting, writer, topic, view)
    end = compacting.end_offset(topic)
    for reader in CLIENTS:
        assert seen(reader(compacting.bootstrap), topic, left) == view, reader.name
    assert compacting.end_offset(topic) == end
    assert compacting.list_offset(topic, -2) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(compacting: Cluster, codec: str) -> None:
    client = ConfluentClient(compacting.bootstrap)
    topic = compacting.create_topic(**SETTINGS)
    view = churn(client, topic, codec)
    left = compacted(compacting, client, topic, view)
    assert seen(client, topic, left) == view
    data = [batch for batch in compacting.batches(topic) if batch.record_count]
    assert {batch.codec for batch in data if batch.record_count > 1} == {compacting.codec_sent(client, codec)}


@pytest.mark.java
def test_kafka_reads_the_compacted_files(compacting: Cluster, java: JavaDriver) -> None:
    topic = compacting.create_topic(**SETTINGS)
    client = ConfluentClient(compacting.bootstrap)
    view = churn(client, topic)
    compacted(compacting, client, topic, view)
    assert compacting.data_dir is not None
    logs = sorted(Path(compacting.data_dir / f"{topic}-0").glob("*.log"))
    text = dump(java, logs, "--print-data-log", "--deep-iteration")
    assert "isvalid: false" not in text
    assert text.count("key-") >= len(view) - 1
    for suffix in (".index", ".timeindex"):
        dump(java, [log.with_suffix(suffix) for log in logs[:-1]], "--index-sanity-check")
