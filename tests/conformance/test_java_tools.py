"""Kafka's own command-line tools, as an operator who comes from Kafka types them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conformance.clients.java import JavaDriver, ToolResult
from tests.conformance.clients.message import Client, Message
from tests.conformance.cluster import Cluster, new_name

pytestmark = pytest.mark.java

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIGS = "kafka.admin.ConfigCommand"


class Tools:
    """Runs a tool against the cluster and expects it to succeed."""

    def __init__(self, cluster: Cluster, java: JavaDriver) -> None:
        self._cluster = cluster
        self._java = java

    def attempt(self, name: str, *arguments: str, given: bytes = b"") -> ToolResult:
        return self._java.tool(name, "--bootstrap-server", self._cluster.bootstrap, *arguments, given=given)

    def run(self, name: str, *arguments: str, given: bytes = b"") -> str:
        result = self.attempt(name, *arguments, given=given)
        assert result.code == 0, result.text + result.errors
        return result.text


@pytest.fixture
def tools(cluster: Cluster, java: JavaDriver) -> Tools:
    return Tools(cluster, java)


def test_console_producer_and_consumer(tools: Tools, cluster: Cluster) -> None:
    topic = cluster.create_topic()
    lines = b"h1:v1,h2:v2\tkey-1\tfirst\nh1:x\tkey-2\tsecond\n"
    properties = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    tools.run("ConsoleProducer", "--topic", topic, *properties, given=lines)
    tools.run("ConsoleProducer", "--topic", topic, "--compression-codec", "lz4", given=b"third\n")
    shown = ["print.key=true", "print.headers=true", "print.offset=true", "print.partition=true"]
    arguments = [argument for name in shown for argument in ("--formatter-property", name)]
    output = tools.run(
        CONSOLE_CONSUMER,
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        "3",
        *arguments,
    )
    assert output.splitlines() == [
        "Partition:0\tOffset:0\th1:v1,h2:v2\tkey-1\tfirst",
        "Partition:0\tOffset:1\th1:x\tkey-2\tsecond",
        "Partition:0\tOffset:2\tNO_HEADERS\tnull\tthird",
    ]
    tail = tools.run(CONSOLE_CONSUMER, "--topic", topic, "--partition", "0", "--offset", "2", "--timeout-ms", "1500")
    assert tail.splitlines() == ["third"]


def test_kafka_topics(tools: Tools) -> None:
    name = new_name()
    tools.run("TopicCommand", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=86400000")
    described = tools.run("TopicCommand", "--describe", "--topic", name)
    assert re.search(rf"Topic: {name}\s+TopicId: \S+\s+PartitionCount: 2\s+ReplicationFactor: 1", described)
    assert "retention.ms=86400000" in described
    assert re.search(r"Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)
    assert name in tools.run("TopicCommand", "--list").split()
    tools.run("TopicCommand", "--alter", "--topic", name, "--partitions", "4")
    assert "PartitionCount: 4" in tools.run("TopicCommand", "--describe", "--topic", name)
    again = tools.attempt("TopicCommand", "--create", "--topic", name)
    assert again.code == 1
    assert "already exists" in again.text + again.errors
    tools.run("TopicCommand", "--delete", "--topic", name)
    assert name not in tools.run("TopicCommand", "--list").split()


def test_kafka_topics_with_a_replica_assignment(tools: Tools) -> None:
    name = new_name()
    tools.run("TopicCommand", "--create", "--topic", name, "--replica-assignment", "1,1,1")
    assert "PartitionCount: 3" in tools.run("TopicCommand", "--describe", "--topic", name)
    too_many = tools.attempt("TopicCommand", "--create", "--topic", new_name(), "--replication-factor", "3")
    assert too_many.code == 1
    assert "InvalidReplicationFactorException" in too_many.text + too_many.errors


def test_kafka_configs(tools: Tools, cluster: Cluster) -> None:
    topic = cluster.create_topic()
    entity = ["--entity-type", "topics", "--entity-name", topic]
    assert "Completed updating config" in tools.run(
        CONFIGS, "--alter", *entity, "--add-config", "retention.ms=5000,segment.bytes=2000000"
    )
    described = tools.run(CONFIGS, "--describe", *entity)
    assert "retention.ms=5000" in described
    assert "segment.bytes=2000000" in described
    tools.run(CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools.run(CONFIGS, "--describe", *entity)
    everything = tools.run(CONFIGS, "--describe", "--all", *entity)
    assert "max.message.bytes=1048588" in everything
    brokers = tools.run(CONFIGS, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert "node.id=1" in brokers
    refused = tools.attempt(CONFIGS, "--alter", *entity, "--add-config", "no.such.setting=1")
    assert refused.code != 0


def test_kafka_delete_records(tools: Tools, cluster: Cluster, readers: list[Client], tmp_path: Path) -> None:
    topic = cluster.create_topic()
    readers[0].produce(topic, [Message(b"x")] * 10)
    plan = tmp_path / "offsets.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 6}], "version": 1}))
    output = tools.run("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert "low_watermark: 6" in output
    assert cluster.list_offset(topic, -2) == 6


def test_kafka_producer_perf_test(java: JavaDriver, cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    result = java.tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", f"bootstrap.servers={cluster.bootstrap}", "compression.type=zstd", "acks=all"),
    )
    assert result.code == 0, result.errors
    assert "5000 records sent" in result.text
    assert sum(cluster.end_offset(topic, partition) for partition in (0, 1)) == 5000


def test_kafka_cluster_and_log_dirs(tools: Tools, cluster: Cluster, java: JavaDriver) -> None:
    topic = cluster.create_topic()
    identity = java.tool("ClusterTool", "cluster-id", "--bootstrap-server", cluster.bootstrap)
    assert cluster.metadata().cluster_id in identity.text
    described = tools.run("LogDirsCommand", "--describe", "--topic-list", topic)
    directories = json.loads(next(line for line in described.splitlines() if line.startswith("{")))
    partitions = directories["brokers"][0]["logDirs"][0]["partitions"]
    assert [partition["partition"] for partition in partitions] == [f"{topic}-0"]


def test_kafka_broker_api_versions(tools: Tools, cluster: Cluster) -> None:
    output = tools.run("BrokerApiVersionsCommand")
    assert cluster.bootstrap in output
    assert re.search(r"Produce\(0\): 0 to 13", output)
    assert re.search(r"Fetch\(1\): 4 to 18", output)
