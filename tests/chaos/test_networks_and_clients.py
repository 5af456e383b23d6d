"""Networks that fail in one direction, and clients that ask too much of brokers (T20).

Three processes, one cluster for all stories, each on a topic of its own, with stock clients that go on through
everything and are judged at the end.
"""

import os
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewTopic

from hightide.errors import ErrorCode
from hightide.limits import LARGE_REQUESTS_BYTES_MAX, MIB
from hightide.testing import Cluster
from hightide.testing.nodes import ClusterNode
from tests.chaos.cluster_story import SOME, Story
from tests.chaos.raw_client import RawClient, request_frame
from tests.history_clients import CONSUMER_SETTINGS
from tests.requests import fetch, produce

pytestmark = pytest.mark.xdist_group("processes")

SLEEPERS = 20
SLOW_READS = 25
SLEEPERS_TAKE_BYTES = 50 * MIB
MEMORY_GROWTH_MAX = 100 * MIB
LARGE_REQUESTS = 12
LARGE_REQUEST_BYTES = 90 * MIB
CHURNERS = 4
CHURNED = 150  # connections of each
TOPICS = 40
DEADLINE_SECONDS = 60.0


def others(node_id: int) -> set[int]:
    return {1, 2, 3} - {node_id}


def address(node: ClusterNode) -> tuple[str, int]:
    host, _, port = node.address.rpartition(":")
    return host, int(port)


def resident_bytes(node: ClusterNode) -> int:
    pages = Path(f"/proc/{node.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def descriptors(node: ClusterNode) -> int:
    return len(os.listdir(f"/proc/{node.pid}/fd"))


@pytest.mark.covers("T20", "C13", "C39")
@pytest.mark.parametrize("direction", ["speaks to nobody", "hears nobody"])
def test_a_one_way_partition_of_the_leader(cluster: Cluster, direction: str) -> None:
    with Story(cluster, topic=f"one-way-{direction.split()[0]}") as story:
        story.go_on()
        cut_off = story.leader()
        groups = ({cut_off}, others(cut_off)) if direction == "speaks to nobody" else (others(cut_off), {cut_off})
        cluster.partition(*groups, one_way=True)
        story.await_new_leader(cut_off)
        story.go_on()
        assert story.write_to(cut_off) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.heal()
        cluster.wait_healthy()
        story.go_on()
    story.judge()


@pytest.mark.covers("T20", "C30")
def test_a_slow_consumer_costs_others_nothing(cluster: Cluster) -> None:
    """Some ask for everything and read no byte of it; a stock one takes a record now and then, and misses none."""
    with Story(cluster, topic="slow-consumer", assignments={0: [1, 2, 3]}) as story, ExitStack() as sleepers:
        story.go_on(5 * SOME)
        before = resident_bytes(cluster.node(1))
        for _ in range(SLEEPERS):
            client = sleepers.enter_context(RawClient(address(cluster.node(1))[1], host=address(cluster.node(1))[0]))
            for _ in range(3):
                client.send(fetch(story.topic, max_bytes=SLEEPERS_TAKE_BYTES), 12)
        consumer = Consumer({**CONSUMER_SETTINGS, "bootstrap.servers": cluster.bootstrap, "queued.min.messages": 1})
        consumer.assign([ConfluentPartition(story.topic, 0, 0)])
        offsets: list[int] = []
        while len(offsets) < SLOW_READS:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                offsets.append(message.offset())
            story.go_on(1)
        consumer.close()
        assert offsets == list(range(SLOW_READS))
        assert resident_bytes(cluster.node(1)) - before < MEMORY_GROWTH_MAX
    story.judge()


@pytest.mark.covers("T20", "C38")
def test_memory_pressure_of_many_large_requests(cluster: Cluster) -> None:
    """Together they announce and send far more than a broker has for them, and end with none of it answered."""
    node = cluster.node(1)
    head = request_frame(produce("large", [b"v"]), 9)[4:]
    with Story(cluster, topic="large") as story:
        story.go_on()
        before = resident_bytes(node)
        with ExitStack() as flood:
            for _ in range(LARGE_REQUESTS):
                sock = flood.enter_context(socket.create_connection(address(node), timeout=DEADLINE_SECONDS))
                sock.sendall(LARGE_REQUEST_BYTES.to_bytes(4) + head)
                sock.setblocking(False)
                flood.enter_context(sending(sock, LARGE_REQUEST_BYTES * 3 // 4))
            story.go_on()
            assert resident_bytes(node) - before < LARGE_REQUESTS_BYTES_MAX + MEMORY_GROWTH_MAX
        with RawClient(address(node)[1], host=address(node)[0]) as client:
            told = client.call(produce("large", [b"v" * (LARGE_REQUEST_BYTES // 2)]), 9)
        assert told.responses[0].partition_responses[0].error_code != ErrorCode.NONE, "it is larger than a topic allows"
    story.judge()


@contextmanager
def sending(sock: socket.socket, count: int) -> Iterator[None]:
    """Send that much beside everything else, or as much as is taken until the end of the block."""
    stopping = threading.Event()

    def work() -> None:
        left = count
        while left and not stopping.is_set():
            _, writable, _ = select.select([], [sock], [], 0.1)
            if writable:
                try:
                    left -= sock.send(bytes(min(left, MIB)))
                except OSError:  # the broker has enough of it
                    return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join()


@contextmanager
def churn(cluster: Cluster, seed: str) -> Iterator[threading.Thread]:
    """Connections that come and go, most of them before they said anything sensible."""
    random = Random(seed)
    request = request_frame(fetch("nobody-made-this", max_wait_ms=1000), 12)

    def work() -> None:
        for _ in range(CHURNED):
            with socket.create_connection(address(random.choice(cluster.nodes)), timeout=DEADLINE_SECONDS) as sock:
                how = random.randrange(4)
                if how:
                    sock.sendall([b"", request[: random.randrange(len(request))], request, request * 20][how])

    thread = threading.Thread(target=work, name=seed, daemon=True)
    thread.start()
    yield thread
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive(), f"{seed} does not end"


@pytest.mark.covers("T20")
def test_connection_churn_leaves_nothing_behind(cluster: Cluster) -> None:
    with Story(cluster, topic="churn") as story:
        story.go_on()
        before = [descriptors(node) for node in cluster.nodes]
        with ExitStack() as churners:
            for number in range(CHURNERS):
                churners.enter_context(churn(cluster, f"churner-{number}"))
            story.go_on()
        cluster.wait_for(
            lambda: all(descriptors(node) <= count + 5 for node, count in zip(cluster.nodes, before, strict=True)),
            "the descriptors of all those connections are free again",
        )
    story.judge()


@pytest.mark.covers("T20", "C38")
def test_mass_topic_creation_while_the_controller_dies(cluster: Cluster) -> None:
    with Story(cluster, topic="beside-the-mass") as story:
        story.go_on()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        names = [f"mass-{number}" for number in range(TOPICS)]
        victim = story.leader()
        cluster.wait_for(cluster.controller, "there is a controller")
        first = admin.create_topics([NewTopic(name, 3, 3) for name in names], request_timeout=DEADLINE_SECONDS)
        victim = cluster.controller() or victim
        cluster.kill(victim)
        told = {outcome(future) for future in first.values()}
        # Three replicas need three brokers, and a client may be told nothing of what the dead controller did.
        assert told <= {"created", "TOPIC_ALREADY_EXISTS", "INVALID_REPLICATION_FACTOR", "_TRANSPORT"}
        again = admin.create_topics([NewTopic(name, 3, 2) for name in names], request_timeout=DEADLINE_SECONDS)
        assert {outcome(future) for future in again.values()} <= {"created", "TOPIC_ALREADY_EXISTS"}
        story.go_on()
        cluster.start()
        cluster.wait_healthy()
        known = admin.list_topics(timeout=DEADLINE_SECONDS).topics
        assert {name: len(known[name].partitions) for name in names} == dict.fromkeys(names, 3)
    story.judge()


def outcome(future: "Future[None]") -> str:
    """What a client was told of its wish."""
    error = future.exception(DEADLINE_SECONDS)
    return "created" if error is None else error.args[0].name()
