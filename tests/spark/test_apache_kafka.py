"""The same source and sink on Apache Kafka: a jar-free connector for everybody, and the oracle for transactions."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from hightide.client.cluster import Cluster
from hightide.errors import ApiError
from hightide.spark import read, write
from hightide.spark.blocking import BlockingCluster, ClientSettings
from tools.java_tools import format_kafka, java_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(900)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka of its own."""
    directory = tmp_path_factory.mktemp("kafka")
    port = _two_free_ports()
    properties = format_kafka(directory / "node", port, [])
    log = directory / "kafka.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            java_command("kafka.Kafka", str(properties), heap="512m"), stdout=output, stderr=output
        )
    try:
        _await_broker(process, f"127.0.0.1:{port}", log)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _two_free_ports() -> int:
    """A free port whose successor, the controller's, is free too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def _await_broker(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        await cluster.all_topics()

    failures = 0
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with BlockingCluster(ClientSettings(address)) as client:
                client.run(ask)
                return
        except ApiError:
            failures += 1
            assert failures < 600, log.read_text()[-3000:]
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)


def _create(address: str, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(60)


@pytest.mark.covers("S1", "S2")
def test_records_of_every_codec_and_what_we_write_back(spark: SparkSession, kafka: str) -> None:
    _create(kafka, "codecs", len(CODECS))
    _create(kafka, "copy", len(CODECS))
    for partition, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 50})
        for index in range(500):
            key = b"k%d" % index
            producer.produce("codecs", b"value %d" % index, key, partition, headers=[("codec", codec)])
        assert producer.flush(60) == 0
    frame = read(spark, kafka, "codecs", options={"includeHeaders": "true", "minPartitions": "9"})
    rows = frame.collect()
    assert len(rows) == 500 * len(CODECS)
    assert all([header.value for header in row.headers] == [CODECS[row.partition].encode()] for row in rows)
    for codec in CODECS:
        write(
            frame.select("key", "value", "headers", "partition"),
            kafka,
            "copy",
            options={"kafka.compression.type": codec},
        )
    copies = read(spark, kafka, "copy", options={"includeHeaders": "true"}).collect()
    assert len(copies) == 5 * len(rows)

    def content(row: object) -> tuple[object, ...]:
        return (row.partition, bytes(row.key), bytes(row.value), row.headers[0].value)  # type: ignore[attr-defined]

    assert sorted(map(content, copies)) == sorted([content(row) for row in rows for _ in CODECS])


@pytest.mark.covers("S1")
def test_transactions_that_were_given_up_are_not_read(spark: SparkSession, kafka: str) -> None:
    _create(kafka, "transactions")
    kept, given_up = [], []
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "tests"})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        values = [b"%d.%d" % (number, index) for index in range(50)]
        for value in values:
            producer.produce("transactions", value)
        if number % 2:
            producer.abort_transaction(60)
            given_up += values
        else:
            producer.commit_transaction(60)
            kept += values
    everything = read(spark, kafka, "transactions").collect()
    committed = read(spark, kafka, "transactions", options={"kafka.isolation.level": "read_committed"}).collect()
    assert [bytes(row.value) for row in sorted(committed, key=lambda row: row.offset)] == kept
    # Aborted records may not have left the producer before it gave up: those that did are seen without isolation.
    seen = {bytes(row.value) for row in everything}
    assert seen >= set(kept)
    assert seen <= set(kept) | set(given_up)
