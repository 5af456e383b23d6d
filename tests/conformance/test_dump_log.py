"""Kafka's own kafka-dump-log and broker classes read what hightide wrote to disk (DESIGN: on disk = on the wire)."""

from __future__ import annotations

import base64
import os
import random
import re
from pathlib import Path

import pytest

from tests.conformance.clients.java import JavaDriver
from tests.conformance.clients.librdkafka import ConfluentClient
from tests.conformance.clients.message import Client, Message
from tests.conformance.cluster import Cluster, HightideProcess

pytestmark = pytest.mark.java

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS_PER_CODEC = 60


class Written:
    """A partition with several sealed segments, sparse index entries, every codec and an idempotent producer."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        assert cluster.data_dir is not None
        self.data_dir = cluster.data_dir
        self.topic = cluster.create_topic(segment_bytes=1_048_576, index_interval_bytes=4096)
        settings = {"enable.idempotence": True, "batch.num.messages": 5}
        for round_ in range(2):
            for codec in CODECS:
                messages = [Message(self.value(round_, n), b"key-%d" % n) for n in range(RECORDS_PER_CODEC)]
                client.produce(self.topic, messages, codec=codec, settings=settings)
        self.codecs = {cluster.codec_sent(client, codec) for codec in CODECS}
        self.count = 2 * len(CODECS) * RECORDS_PER_CODEC
        self.directory = self.data_dir / f"{self.topic}-0"
        self.described = cluster.describe_topic(self.topic)
        self.producer_ids = {batch.producer_id for batch in cluster.batches(self.topic)}

    @staticmethod
    def value(round_: int, number: int) -> bytes:
        noise = random.Random(number).randbytes(5000).hex()  # compresses to half, so that segments fill up
        return f"{round_}-{number} {noise}".encode()

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.directory.glob(f"*{suffix}"))

    def sealed(self, suffix: str) -> list[Path]:
        """The files of every segment but the last, which a running broker is still writing."""
        active = self.files(".log")[-1].stem
        return [file for file in self.files(suffix) if file.stem < active]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Written:
    """Written by a hightide of its own, and cleanly stopped: then everything is on disk."""
    if "HIGHTIDE_CONFORMANCE_BOOTSTRAP" in os.environ:
        cluster: Cluster = request.getfixturevalue("cluster")
        if cluster.data_dir is None:
            pytest.skip("the data folder of the cluster is not known: HIGHTIDE_CONFORMANCE_DATA_DIR names it")
        return Written(cluster, ConfluentClient(cluster.bootstrap))
    process = HightideProcess(tmp_path_factory.mktemp("dumped"))
    done = Written(Cluster(process.bootstrap, process.data_dir), ConfluentClient(process.bootstrap))
    process.stop()
    return done


def dump(java: JavaDriver, files: list[Path], *flags: str) -> str:
    result = java.tool("DumpLogSegments", "--files", ",".join(map(str, files)), *flags)
    assert result.code == 0, result.errors
    for complaint in ("Mismatches in", "Found timestamp mismatch", "Found out of order", "Index sanity check failed"):
        assert complaint not in result.text, result.text[-2000:]
    return result.text


def test_segments(java: JavaDriver, written: Written) -> None:
    assert len(written.files(".log")) >= 3, "the test needs rolled segments"
    text = dump(java, written.files(".log"), "--print-data-log")
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert offsets == list(range(written.count))
    assert "isvalid: false" not in text
    assert set(re.findall(r"compresscodec: (\w+)", text)) == written.codecs
    assert re.findall(r"payload: (0-\d+) ", text)[:3] == ["0-0", "0-1", "0-2"]
    for file in written.files(".log"):
        assert f"Log starting offset: {int(file.stem)}" in text


def test_offset_indexes(java: JavaDriver, written: Written) -> None:
    indexes = written.sealed(".index")
    text = dump(java, indexes)
    positions = re.findall(r"offset: (\d+) position: (\d+)", text)
    assert len(positions) >= len(indexes) * 5
    assert dump(java, indexes, "--verify-index-only")
    assert dump(java, indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)


def test_time_indexes(java: JavaDriver, written: Written) -> None:
    indexes = written.sealed(".timeindex")
    assert len(re.findall(r"timestamp: \d+ offset: \d+", dump(java, indexes))) >= len(indexes)
    assert dump(java, indexes, "--verify-index-only")
    assert dump(java, indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)


def test_producer_snapshots(java: JavaDriver, written: Written) -> None:
    snapshots = written.files(".snapshot")
    assert snapshots, "a snapshot is written when a segment rolls"
    text = dump(java, snapshots)
    producers = re.findall(r"producerId: (\d+) producerEpoch: 0 .*lastTimestamp: (\d+)", text)
    assert producers
    assert {int(producer) for producer, _ in producers} <= written.producer_ids


def test_epochs_and_topic_id(java: JavaDriver, written: Written) -> None:
    answer = java.ask(do="partition_files", directory=str(written.directory))
    assert answer["epochs"] == [[written.described.partitions[0].leader_epoch, 0]]
    assert answer["topic_id"] == base64.urlsafe_b64encode(written.described.topic_id.bytes).decode().rstrip("=")


def test_the_metadata_log(java: JavaDriver, written: Written) -> None:
    """Topics and settings are Kafka's metadata records, in a log that Kafka decodes."""
    logs = sorted((written.data_dir / "__cluster_metadata-0").glob("*.log"))
    text = dump(java, logs, "--cluster-metadata-decoder")
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{written.topic}"' in text
    assert '"type":"PARTITION_RECORD"' in text
    assert re.search(r'"type":"CONFIG_RECORD".*"name":"segment.bytes","value":"1048576"', text)
