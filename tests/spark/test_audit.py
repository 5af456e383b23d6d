"""The replica audit on a cluster whose followers are damaged behind its back."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hightide.cli.application import main
from hightide.cli.failures import ExitCode
from hightide.client.replicas import replica_ranges
from hightide.node.partitions import Partition
from hightide.spark import audit
from hightide.spark.audit_comparison import Kind
from hightide.spark.audit_plan import Role, Split
from hightide.spark.audit_reading import read_splits
from hightide.spark.auditing import AuditReport, Finding, run_audit
from hightide.spark.blocking import BlockingCluster, ClientSettings
from hightide.testing import Cluster
from hightide.types import TopicPartition
from hightide.wire.records import HEADER_BYTES, iterate_headers, patch_crc
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.covers("S4")
BATCHES, RECORDS = 10, 20


@pytest.fixture
def name(topic: Callable[..., str], topics: Topics) -> str:
    """A topic of one partition on all three brokers, with some batches in it."""
    created = topic(1, replication_factor=3)
    for number in range(BATCHES):
        topics.fill(created, RECORDS, first=number * RECORDS)
    return created


def followers(cluster: Cluster, name: str) -> list[int]:
    return [broker for broker in (1, 2, 3) if broker != cluster.leader_of(name, 0)]


def log_file(cluster: Cluster, name: str, broker: int) -> Path:
    return cluster.node(broker).data_directory / f"{name}-0" / "00000000000000000000.log"


def findings(report: AuditReport) -> dict[int, list[Finding]]:
    return {replica.broker: list(replica.findings) for replica in report.replicas if replica.findings}


def test_equal_replicas_are_equal(spark: SparkSession, cluster: Cluster, topics: Topics, name: str) -> None:
    report = run_audit(spark, topics.bootstrap, [name], full_hash=True)
    assert report.is_clean
    leader = cluster.leader_of(name, 0)
    size = log_file(cluster, name, 1).stat().st_size
    end = BATCHES * RECORDS
    assert [(each.broker, each.role, each.start, each.bound, each.batches, each.bytes) for each in report.replicas] == [
        (broker, Role.LEADER if broker == leader else Role.IN_SYNC, 0, end, BATCHES, size) for broker in (1, 2, 3)
    ]


def test_a_flipped_bit_and_another_batch_of_equal_length_are_found(
    spark: SparkSession, cluster: Cluster, topics: Topics, name: str
) -> None:
    flipped, rewritten = followers(cluster, name)
    with log_file(cluster, name, flipped).open("r+b") as file:
        data = bytearray(file.read())
        position = next(at for at, header in iterate_headers(data) if header.base_offset == 3 * RECORDS)
        data[position + HEADER_BYTES + 5] ^= 1
        file.seek(0)
        file.write(data)
    with log_file(cluster, name, rewritten).open("r+b") as file:
        data = bytearray(file.read())
        position, header = next(each for each in iterate_headers(data) if each[1].base_offset == 5 * RECORDS)
        data[position + header.size - 2] ^= 1  # in the last record's value
        patch_crc(data, position, header.batch_length)
        file.seek(0)
        file.write(data)
    assert findings(run_audit(spark, topics.bootstrap, [name])) == {
        flipped: [Finding(Kind.CORRUPT, 1, 3 * RECORDS, 4 * RECORDS)],
        rewritten: [Finding(Kind.DIFFERENT, 1, 5 * RECORDS, 6 * RECORDS)],
    }


def test_a_truncated_tail_is_found(spark: SparkSession, cluster: Cluster, topics: Topics, name: str) -> None:
    """The controller takes this replica for in sync, so the mark is the leader's high watermark, not its own."""
    short = followers(cluster, name)[0]
    cluster.pause(short)
    try:
        (partition,) = [
            each
            for each in gc.get_objects()
            if isinstance(each, Partition) and each.topic == name and each.replica.node_id == short
        ]
        partition.log.truncate(7 * RECORDS, 0)
    finally:
        cluster.resume(short)
    rows = audit(spark, topics.bootstrap, [name]).where("finding IS NOT NULL").collect()
    assert [(row.broker, row.role, row.finding, row.units, row.first_offset, row.end_offset) for row in rows] == [
        (short, "in sync", "missing", 3, 7 * RECORDS, BATCHES * RECORDS)
    ]


def test_bytes_that_a_broker_can_not_read_are_found(
    spark: SparkSession, cluster: Cluster, topics: Topics, name: str
) -> None:
    broken = followers(cluster, name)[0]
    with log_file(cluster, name, broken).open("r+b") as file:
        file.truncate(1000)
    report = run_audit(spark, topics.bootstrap, [name])
    # The broker fetches such a replica again (R17): by the second look it may be whole.
    found = {each.broker: [seen.kind for seen in each.findings or each.passed] for each in report.replicas}
    assert found == {1: [], 2: [], 3: [], broken: [Kind.UNREADABLE]}


def test_a_lagging_replica_is_listed_and_is_no_alarm(
    spark: SparkSession, cluster: Cluster, topics: Topics, topic: Callable[..., str]
) -> None:
    """It hears the controller and not its leader: alive, behind, and taken out of the in-sync set."""
    controller = cluster.controller()
    assert controller is not None
    leader, behind = sorted({1, 2, 3} - {controller})
    name = topic(assignments={0: [leader, behind, controller]})
    topics.fill(name, RECORDS)
    cluster.wait_for(lambda: high_watermark(topics, name, behind) == RECORDS, "the follower knows what is committed")
    cluster.partition({behind}, {leader})
    try:
        with ThreadPoolExecutor(1) as pool:
            filling = pool.submit(topics.fill, name, RECORDS)  # acknowledged by all in sync: in the end without it

            def is_acknowledged() -> bool:
                cluster.clock.advance(0.1)
                return filling.done()

            cluster.wait_for(is_acknowledged, "the follower leaves the in-sync set")
        report = run_audit(spark, topics.bootstrap, [name])
    finally:
        cluster.heal()
        cluster.wait_healthy()
    assert report.is_clean
    assert {each.broker: (each.role, each.bound, each.batches) for each in report.replicas} == {
        leader: (Role.LEADER, 2 * RECORDS, 2),
        controller: (Role.IN_SYNC, 2 * RECORDS, 2),
        behind: (Role.LAGGING, RECORDS, 1),
    }


def high_watermark(topics: Topics, name: str, broker: int) -> int:
    key = (broker, TopicPartition(name, 0))
    with BlockingCluster(ClientSettings(topics.bootstrap)) as client:
        return client.run(lambda connected: replica_ranges(connected, [broker], [key]))[key].high_watermark


def test_the_command_prints_findings_and_fails(
    spark: SparkSession, cluster: Cluster, topics: Topics, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flipped = followers(cluster, name)[0]
    command = ["pipeline", "audit", name, "-b", topics.bootstrap, "--full-hash"]
    assert main([*command, "-o", "json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["clean"] is True
    with log_file(cluster, name, flipped).open("r+b") as file:
        file.seek(12)  # the leader epoch, which no CRC covers
        file.write(b"\x00\x00\x00\x07")
    assert main(command) == ExitCode.FAILED
    shown = capsys.readouterr()
    row = next(line for line in shown.out.splitlines() if "different" in line)
    assert row.split()[:3] == [name, "0", str(flipped)]
    assert row.endswith(f"1 different in 0:{RECORDS}")
    assert "1 finding" in shown.err


def test_the_command_names_a_topic_that_is_not_there(
    spark: SparkSession, topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "audit", "nowhere", "-b", topics.bootstrap]) == ExitCode.NOT_FOUND
    assert "there is no topic 'nowhere'" in capsys.readouterr().err


def test_where_replicas_may_be_compacted_records_are_read(topics: Topics, name: str) -> None:
    """The same records give the same rows at every replica, whatever batches they are in."""
    rows: dict[int, list[dict[str, object]]] = {}
    for broker in (1, 2, 3):
        splits = [
            Split(name, 0, broker, start, end, BATCHES * RECORDS, True, start == 0, 0)
            for start, end in ((0, 70), (70, BATCHES * RECORDS))  # within a batch
        ]
        read = read_splits(ClientSettings(topics.bootstrap), splits, full_hash=False)
        rows[broker] = [{**row, "broker": 0} for batch in read for row in batch.to_pylist()]
    assert rows[1] == rows[2] == rows[3]
    assert [row["offset"] for row in rows[1]] == list(range(BATCHES * RECORDS))
    assert all(row["owed"] for row in rows[1])
    assert len({row["digest"] for row in rows[1]}) == BATCHES * RECORDS


@pytest.mark.long
def test_replicas_of_a_compacted_topic_may_differ_in_what_compaction_removed(
    spark: SparkSession, cluster: Cluster, topics: Topics, topic: Callable[..., str]
) -> None:
    configs = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
    name = topic(1, replication_factor=3, configs=configs)
    topics.fill(name, RECORDS)
    once = stored_bytes(cluster, name, 1)
    for _ in range(BATCHES - 1):
        topics.fill(name, RECORDS)  # always the same keys

    def is_compacted() -> bool:
        cluster.clock.advance(0.1)
        return any(stored_bytes(cluster, name, broker) < once * (BATCHES - 2) for broker in (1, 2, 3))

    cluster.wait_for(is_compacted, "a replica is compacted")
    report = run_audit(spark, topics.bootstrap, [name])
    assert report.is_clean
    records = [replica.batches for replica in report.replicas]
    assert RECORDS <= min(records) < BATCHES * RECORDS


def stored_bytes(cluster: Cluster, name: str, broker: int) -> int:
    sizes = []
    for path in (cluster.node(broker).data_directory / f"{name}-0").glob("*.log"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # compacted away meanwhile
            continue
    return sum(sizes)
