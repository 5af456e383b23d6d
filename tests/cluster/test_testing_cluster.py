"""`hightide.testing`: everything that can be done to a test cluster does happen, as a stock client sees it."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from hightide.testing import Cluster, ClusterError
from hightide.testing.places import PORTS

MakeCluster = Callable[..., Cluster]
MODES = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
DELIVERY_SECONDS = 40.0
CLEAN_MARK = ".kafka_cleanshutdown"


class Writer:
    """An idempotent producer of numbered values that must all arrive."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.values: list[bytes] = []
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.interval.ms": 1000,
                "socket.timeout.ms": 5000,
                "log_level": 0,
            }
        )

    def write(self, count: int = 20) -> None:
        """Values, acknowledged when this returns."""
        for _ in range(count):
            value = b"%d" % len(self.values)
            self.values.append(value)
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
        assert self._producer.flush(DELIVERY_SECONDS) == 0
        assert self.errors == []

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.errors.append(error)


def consumer_settings(cluster: Cluster) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }


def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    """The first values of a partition."""
    consumer = Consumer(consumer_settings(cluster))
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while len(values) < count:
            messages = consumer.consume(count - len(values), DELIVERY_SECONDS)
            assert messages, f"{len(values)} of {count} after {DELIVERY_SECONDS} s"
            values += [message.value() for message in messages if message.error() is None]
        return values
    finally:
        consumer.close()


def others(*node_ids: int) -> set[int]:
    return {1, 2, 3} - set(node_ids)


def leader(cluster: Cluster, topic: str = "t") -> int:
    node_id = cluster.leader_of(topic)
    assert node_id is not None
    return node_id


def await_another_leader(cluster: Cluster, old: int) -> None:
    cluster.wait_for(lambda: cluster.leader_of("t") not in (None, old), f"somebody else than {old} leads t-0")


# ---------------------------------------------------------------------- a cluster


@MODES
def test_a_cluster_is_ready_and_leaves_nothing_behind(processes: bool) -> None:
    before = set(threading.enumerate())
    with Cluster(brokers=3, processes=processes) as cluster:
        assert [node.is_running for node in cluster.nodes] == [True] * 3
        assert cluster.controller() in {1, 2, 3}
        known = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).brokers
        assert {f"{broker.host}:{broker.port}" for broker in known.values()} == set(cluster.bootstrap.split(","))
        writer = Writer(cluster, "made-when-first-used")
        writer.write()
        assert read(cluster, "made-when-first-used", 20) == writer.values
        cluster.wait_healthy()
        assert cluster.in_sync("made-when-first-used") == {1, 2, 3}
        pids = [node.pid for node in cluster.nodes]
        places = [node.place for node in cluster.nodes]
        directory = cluster.directory
    cluster.close()
    assert not directory.exists()
    assert [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("hightide")] == []
    for pid in pids:
        assert (pid is not None) == processes
        assert pid is None or not Path(f"/proc/{pid}").exists()
    for place in places:
        for which in range(PORTS):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((place.host, place.port + which))


def test_one_broker_needs_no_quorum(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster(brokers=1, settings={"num.partitions": "2"})
    cluster.create_topic("t", configs={"retention.ms": "1000"})
    writer = Writer(cluster, "t")
    writer.write()
    cluster.kill(1)
    assert cluster.controller() is None
    cluster.start()
    assert cluster.controller() == 1
    assert read(cluster, "t", 20) == writer.values


def test_clusters_live_side_by_side(hightide_cluster: MakeCluster, tmp_path: Path) -> None:
    one, other = hightide_cluster(brokers=1), hightide_cluster(brokers=1, directory=tmp_path / "kept")
    for cluster in (one, other):
        cluster.create_topic("t")
    Writer(one, "t").write(1)
    Writer(other, "t").write(2)
    assert len(read(one, "t", 1)) == 1
    other.close()
    assert (tmp_path / "kept" / "node-1" / "data" / "t-0").is_dir()


def test_partitions_go_where_the_test_wants_them(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster(brokers=4, controllers=1)
    assert cluster.controller() == 1
    cluster.create_topic("t", assignments={0: [4, 2], 1: [3, 1]})
    assert [cluster.leader_of("t", number) for number in (0, 1)] == [4, 3]
    cluster.wait_healthy()
    assert [cluster.in_sync("t", number) for number in (0, 1)] == [{2, 4}, {1, 3}]


# ---------------------------------------------------------------------- life and death


@MODES
@pytest.mark.covers("T20")
def test_kill_and_start(hightide_cluster: MakeCluster, processes: bool) -> None:
    cluster = hightide_cluster(processes=processes)
    cluster.create_topic("t")
    writer = Writer(cluster, "t")
    writer.write()
    victim = leader(cluster)
    cluster.kill(victim)
    assert not cluster.node(victim).is_running
    assert not (cluster.node(victim).data_directory / CLEAN_MARK).exists()
    writer.write()
    assert leader(cluster) != victim
    cluster.start(victim)
    cluster.wait_healthy()
    assert read(cluster, "t", 40) == writer.values
    assert cluster.logs(victim).count("is ready on") + cluster.logs(victim).count("listens on") >= 2


@MODES
@pytest.mark.covers("T20")
def test_a_rolling_restart_loses_no_leader(hightide_cluster: MakeCluster, processes: bool) -> None:
    cluster = hightide_cluster(processes=processes)
    cluster.create_topic("t")
    writer = Writer(cluster, "t")
    writer.write()
    for node in cluster.nodes:
        cluster.stop(node.id)
        assert (node.data_directory / CLEAN_MARK).exists()
        writer.write()
        cluster.start(node.id)
        cluster.wait_healthy()
    cluster.restart(1, 2)
    assert read(cluster, "t", 80) == writer.values


@MODES
@pytest.mark.covers("T15")
def test_the_whole_cluster_dies_and_returns(hightide_cluster: MakeCluster, processes: bool) -> None:
    cluster = hightide_cluster(processes=processes)
    cluster.create_topic("t")
    writer = Writer(cluster, "t")
    writer.write()
    cluster.kill()
    assert [node.is_running for node in cluster.nodes] == [False] * 3
    cluster.start()
    cluster.wait_healthy()
    writer.write()
    assert read(cluster, "t", 40) == writer.values


@MODES
def test_a_paused_leader_is_replaced_and_comes_back_as_a_follower(
    hightide_cluster: MakeCluster, processes: bool
) -> None:
    cluster = hightide_cluster(processes=processes)
    cluster.create_topic("t")
    writer = Writer(cluster, "t")
    writer.write()
    victim = leader(cluster)
    cluster.pause(victim)
    assert cluster.node(victim).is_paused
    await_another_leader(cluster, victim)
    writer.write()
    cluster.resume()
    cluster.wait_healthy()
    assert leader(cluster) != victim
    assert read(cluster, "t", 40) == writer.values


@MODES
def test_a_paused_node_can_be_killed(hightide_cluster: MakeCluster, processes: bool) -> None:
    cluster = hightide_cluster(processes=processes)
    cluster.pause(3)
    cluster.kill(3)
    assert not cluster.node(3).is_paused
    cluster.start()
    cluster.wait_healthy()


@pytest.mark.covers("T20")
def test_a_wiped_disk_is_filled_again(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    cluster.create_topic("t")
    writer = Writer(cluster, "t")
    writer.write()
    victim = min(others(leader(cluster)))
    cluster.kill(victim)
    cluster.wipe(victim)
    assert not cluster.node(victim).data_directory.exists()
    cluster.start(victim)
    cluster.wait_healthy()
    writer.write()
    cluster.kill(*others(victim))
    cluster.start()
    assert read(cluster, "t", 40) == writer.values


# ---------------------------------------------------------------------- the network


@MODES
@pytest.mark.covers("T20")
def test_a_leader_that_is_cut_off_is_replaced(hightide_cluster: MakeCluster, processes: bool) -> None:
    cluster = hightide_cluster(processes=processes)
    cluster.create_topic("t")
    writer = Writer(cluster, "t")
    writer.write()
    cut_off = leader(cluster)
    cluster.partition({cut_off}, others(cut_off))
    await_another_leader(cluster, cut_off)
    writer.write()
    cluster.heal()
    cluster.wait_healthy()
    assert leader(cluster) != cut_off
    assert read(cluster, "t", 40) == writer.values


@pytest.mark.covers("T20")
def test_a_leader_that_is_not_heard_is_replaced(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    cluster.create_topic("t")
    writer = Writer(cluster, "t")
    writer.write()
    mute = leader(cluster)
    cluster.partition({mute}, others(mute), one_way=True)
    await_another_leader(cluster, mute)
    writer.write()
    cluster.heal()
    cluster.wait_healthy()
    assert read(cluster, "t", 40) == writer.values


@pytest.mark.covers("C20", "T4", "C31")
def test_a_follower_that_does_not_reach_its_leader_leaves_the_in_sync_set_and_returns(
    hightide_cluster: MakeCluster,
) -> None:
    """Both still reach the controller, so nobody is fenced: only time tells that the follower lags."""
    cluster = hightide_cluster(settings={"replica.lag.time.max.ms": "1000"})
    controller = cluster.controller()
    assert controller is not None
    leading, lagging = sorted(others(controller))
    cluster.create_topic("t", assignments={0: [leading, controller, lagging]})
    writer = Writer(cluster, "t")
    writer.write()
    cluster.partition({leading}, {lagging})
    writer.write()  # nothing is acknowledged while the laggard counts
    assert cluster.in_sync("t") == {leading, controller}
    cluster.heal()
    cluster.wait_healthy()
    assert leader(cluster) == leading
    assert read(cluster, "t", 40) == writer.values


def test_connections_that_break_are_made_again(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    cluster.create_topic("t")
    cluster.partition({1}, {2}, {3}, reset=True)
    cluster.wait_for(lambda: cluster.controller() is None, "nobody can be the controller")
    cluster.heal()
    cluster.wait_healthy()
    writer = Writer(cluster, "t")
    writer.write()
    assert read(cluster, "t", 20) == writer.values


# ---------------------------------------------------------------------- clock and disk


def test_the_clock_of_the_brokers_runs_ahead(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    cluster.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    cluster.clock.advance(3600)
    cluster.wait_healthy()
    Writer(cluster, "t").write(1)
    consumer = Consumer(consumer_settings(cluster))
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(DELIVERY_SECONDS)
    consumer.close()
    newest_file_ms = os.stat(cluster.node(1).log_file).st_mtime * 1000
    assert message is not None
    assert message.timestamp()[1] > newest_file_ms + 3_000_000
    with pytest.raises(ValueError, match="back"):
        cluster.clock.advance(-1)


@pytest.mark.covers("T20")
def test_a_full_disk_refuses_records_until_there_is_room(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    cluster.create_topic("t", assignments={0: [2]})
    writer = Writer(cluster, "t")
    writer.write()
    cluster.fill_disk(2)
    refusals = _produce_once(cluster, b"x" * 100_000)
    cluster.empty_disk(2)
    cluster.wait_for(lambda: not _produce_once(cluster, b"there is room"), "records are accepted again")
    assert refusals
    assert read(cluster, "t", 20) == writer.values
    assert cluster.node(2).is_running


def _produce_once(cluster: Cluster, value: bytes) -> list[KafkaError]:
    errors: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 1500, "retries": 1, "log_level": 0}
    )
    producer.produce("t", value, partition=0, on_delivery=lambda error, _: errors.append(error) if error else None)
    producer.flush(DELIVERY_SECONDS)
    return errors


# ---------------------------------------------------------------------- words


def test_what_can_not_be_done_is_said(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: cluster.kill(4), "there is no node 4: they are numbered from 1 to 3"),
        (lambda: cluster.start(1), "node 1 runs already"),
        (lambda: cluster.wipe(1), "node 1 is running"),
        (lambda: cluster.resume(1), "node 1 is not paused"),
        (lambda: cluster.partition({1, 2, 3}), "two groups"),
        (lambda: cluster.partition({1}, {1, 2}), "two groups"),
        (lambda: cluster.partition({1}, {2}, {3}, one_way=True), "two groups"),
        (lambda: cluster.partition({1}, {2}, one_way=True, reset=True), "can't be one-way"),
        (lambda: cluster.leader_of("nothing"), "no running broker knows nothing-0"),
        (lambda: cluster.create_topic("t", replication_factor=9), "topic t was not created: "),
        (lambda: cluster.wait_for(lambda: False, "pigs fly", 0), "not after 0 s: pigs fly"),
    ]
    for attempt, words in wrong:
        with pytest.raises(ClusterError, match=words):
            attempt()
    cluster.pause(2)
    with pytest.raises(ClusterError, match="node 2 is paused"):
        cluster.stop(2)
    with pytest.raises(ClusterError, match="paused already"):
        cluster.pause(2)
    cluster.resume(2)
    cluster.kill(3)
    with pytest.raises(ClusterError, match="node 3 is not running"):
        cluster.stop(3)
    with pytest.raises(ClusterError, match="node 3 is down"):
        cluster.wait_healthy(timeout=0)


def test_a_cluster_that_can_not_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="a quorum has 1, 3 or 5"):
        Cluster(brokers=3, controllers=2)
    with pytest.raises(ClusterError, match="a quorum has 1, 3 or 5"):
        Cluster(brokers=0)
    with pytest.raises(ClusterError, match=r"num\.partitions"):
        Cluster(brokers=1, settings={"num.partitions": "none"})
    (tmp_path / "node-1").mkdir()
    with pytest.raises(ClusterError, match="holds another cluster"):
        Cluster(directory=tmp_path)


def test_a_node_that_can_not_start_says_why(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster(brokers=1)
    cluster.stop()
    (cluster.node(1).data_directory / "meta.properties").write_text("nonsense")
    with pytest.raises(ClusterError, match=r"hightide-node-1 did not start: .*meta\.properties"):
        cluster.start()
    assert not cluster.node(1).is_running


def test_processes_have_their_own_clock_and_disk() -> None:
    cluster = Cluster(brokers=1, processes=True)
    try:
        with pytest.raises(ClusterError, match="the machine's clock"):
            _ = cluster.clock
        with pytest.raises(ClusterError, match="the machine's disk"):
            cluster.fill_disk(1)
    finally:
        cluster.close()


def test_the_plugin_makes_clusters_and_shows_the_logs_of_processes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        dedent("""
            def test_passes(hightide_cluster):
                cluster = hightide_cluster(brokers=1)
                cluster.create_topic("t")
                assert cluster.leader_of("t") == 1

            def test_fails(hightide_cluster):
                hightide_cluster(brokers=1, processes=True).kill(1)
                raise AssertionError("on purpose")
        """)
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "hightide node 1, " in done.stdout
    assert "node 1 listens on 127.0.0.11:" in done.stdout


def test_the_node_that_did_not_start_is_named_and_not_only_who_waited_for_it(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    cluster.kill()
    (cluster.node(2).data_directory / "meta.properties").write_text("nonsense")
    with pytest.raises(ClusterError, match=r"node 2 has ended:(.|\n)*meta\.properties"):
        cluster.start(1, 2, timeout=5)
