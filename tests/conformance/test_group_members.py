"""Consumer groups on three brokers with the clients that live in other processes: Java, its tools, and KafkaJS."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import IO, Any, Self

import pytest
from confluent_kafka import Producer

from hightide.testing import Cluster
from tests.conformance.clients.java import JavaDriver, ToolResult
from tests.conformance.clients.kafkajs import KafkaJsMember, NodeMissingError, installed, run
from tools import java_tools

PARTITIONS = 4
RECORDS = 200
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

pytestmark = [pytest.mark.xdist_group("group members"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafkajs() -> None:
    try:
        installed()
    except NodeMissingError as error:
        pytest.skip(str(error))


def filled(cluster: Cluster, topic: str) -> set[str]:
    cluster.create_topic(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return {str(number) for number in range(RECORDS)}


@pytest.mark.covers("N5", "N9", "T18")
@pytest.mark.usefixtures("kafkajs")
def test_kafkajs_members_share_a_topic_and_one_takes_over_from_a_killed_one(three_brokers: Cluster) -> None:
    bootstrap, topic, group = three_brokers.bootstrap, "from-kafkajs", "kafkajs"
    three_brokers.create_topic(topic, PARTITIONS)
    run("produce", bootstrap, topic, str(RECORDS))
    values = {str(number) for number in range(RECORDS)}
    with ExitStack() as members:
        one = members.enter_context(KafkaJsMember(bootstrap, topic, group))
        one.until(lambda: set(one.values) == values)
        two = members.enter_context(KafkaJsMember(bootstrap, topic, group))
        two.until(lambda: len(two.assigned) == PARTITIONS // 2)
        one.until(lambda: len(one.assigned) == PARTITIONS // 2)
        assert one.assigned | two.assigned == set(range(PARTITIONS))
        two.kill()
        one.until(lambda: len(one.assigned) == PARTITIONS)
        one.leave()
    assert sorted(one.values) == sorted(values), "once each"
    facts, after = run("groups", bootstrap, group)
    assert group in facts["listed"]
    assert (facts["state"], facts["protocolType"]) == ("Empty", "consumer")
    (of_topic,) = facts["offsets"]
    assert sum(int(partition["offset"]) for partition in of_topic["partitions"]) == RECORDS
    assert group not in after["left"]


class Tools:
    """Kafka's tools against the three brokers."""

    def __init__(self, cluster: Cluster, java: JavaDriver) -> None:
        self._bootstrap = cluster.bootstrap
        self._java = java

    def attempt(self, name: str, *arguments: str) -> ToolResult:
        return self._java.tool(name, "--bootstrap-server", self._bootstrap, *arguments)

    def run(self, name: str, *arguments: str) -> str:
        result = self.attempt(name, *arguments)
        assert result.code == 0, result.text + result.errors
        return result.text

    def lag(self, group: str) -> dict[int, tuple[str, str, str]]:
        """Committed, end and lag by partition, as the groups tool shows them."""
        text = self.run(GROUPS, "--describe", "--group", group)
        rows = re.findall(rf"^{group}\s+\S+\s+(\d+)\s+(\S+)\s+(\S+)\s+(\S+)", text, re.MULTILINE)
        return {int(partition): (committed, end, lag) for partition, committed, end, lag in rows}


@pytest.fixture
def tools(three_brokers: Cluster, java: JavaDriver) -> Tools:
    return Tools(three_brokers, java)


@pytest.mark.java
@pytest.mark.covers("T18", "N9")
def test_the_console_consumer_and_the_groups_tool(three_brokers: Cluster, tools: Tools) -> None:
    values = filled(three_brokers, "from-java")
    # What the first has no position in yet when it ends has no committed offset: the second begins there anew.
    from_the_beginning = ("--command-property", "auto.offset.reset=earliest")
    consume = (
        CONSOLE_CONSUMER,
        "--topic",
        "from-java",
        "--group",
        "java",
        "--timeout-ms",
        "15000",
        *from_the_beginning,
    )
    first = tools.run(*consume, "--max-messages", "50").split()
    rest = tools.run(*consume, "--max-messages", str(RECORDS - 50)).split()
    assert sorted(first + rest) == sorted(values), "it goes on where it was"
    assert "java" in tools.run(GROUPS, "--list").split()
    each = str(RECORDS // PARTITIONS)
    assert tools.lag("java") == dict.fromkeys(range(PARTITIONS), (each, each, "0"))
    assert re.search(r"\bEmpty\b", tools.run(GROUPS, "--describe", "--group", "java", "--state"))
    tools.run(
        GROUPS, "--group", "java", "--reset-offsets", "--to-offset", "10", "--topic", "from-java:1", "--execute"
    )  # fmt: skip
    assert tools.lag("java")[1] == ("10", each, str(int(each) - 10))
    tools.run(GROUPS, "--group", "java", "--delete-offsets", "--topic", "from-java:0")
    assert 0 not in tools.lag("java")
    tools.run(GROUPS, "--delete", "--group", "java")
    assert "java" not in tools.run(GROUPS, "--list").split()
    assert "Group java not found" in tools.attempt(GROUPS, "--describe", "--group", "java").text


class VerifiableConsumer:
    """Kafka's own group member for system tests: it says what it was assigned, read and committed."""

    def __init__(self, cluster: Cluster, topic: str, group: str) -> None:
        command = java_tools.java_command(
            "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", cluster.bootstrap, "--topic", topic,
            "--group-id", group, "--reset-policy", "earliest", "--session-timeout", "6000",
        )  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.assigned: set[int] = set()
        self.committed: dict[int, int] = {}
        self.changed = threading.Condition()
        assert self.process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self.process.stdout,))
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._listener.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _listen(self, output: IO[str]) -> None:
        for line in output:
            said: dict[str, Any] = json.loads(line)
            with self.changed:
                if said["name"] == "partitions_assigned":
                    self.assigned |= {each["partition"] for each in said["partitions"]}
                elif said["name"] == "partitions_revoked":
                    self.assigned -= {each["partition"] for each in said["partitions"]}
                elif said["name"] == "offsets_committed" and said["success"]:
                    self.committed |= {each["partition"]: each["offset"] for each in said["offsets"]}
                self.changed.notify_all()

    def until(self, condition: Callable[[], bool], seconds: float = 90.0) -> None:
        """Wait until what it says makes something true."""
        with self.changed:
            assert self.changed.wait_for(condition, seconds), (self.assigned, self.committed)


@pytest.mark.java
@pytest.mark.covers("N5")
def test_verifiable_consumers_take_over_from_a_killed_one(three_brokers: Cluster) -> None:
    filled(three_brokers, "verified")
    with (
        VerifiableConsumer(three_brokers, "verified", "verifiable") as one,
        VerifiableConsumer(three_brokers, "verified", "verifiable") as two,
    ):
        two.until(lambda: len(two.assigned) == PARTITIONS // 2)
        one.until(lambda: len(one.assigned) == PARTITIONS // 2)
        two.process.kill()
        one.until(lambda: len(one.assigned) == PARTITIONS)
        producer = Producer({"bootstrap.servers": three_brokers.bootstrap, "log_level": 0})
        for partition in range(PARTITIONS):
            producer.produce("verified", "late", partition=partition)
        assert producer.flush(30) == 0
        one.until(lambda: one.committed == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS + 1))
