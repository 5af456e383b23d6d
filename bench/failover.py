"""`python -m bench failover`: what a stock producer notices when one of three brokers goes away.

Unavailability is the longest time without an acknowledgement that a producer sees which sends 200 records a second with
acks=all to a partition of three replicas led by the victim. Each run starts with a healthy cluster and a topic of its
own, and ends with one.
"""

import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
from rich.console import Console

from bench import machine
from bench.admin import active_controller, ask, await_brokers, await_in_sync, create_topic
from bench.clusters import Cluster, Server
from bench.hightide_server import hightide_cluster
from bench.pages import Measured, Page
from bench.programs import FailedError
from bench.steady_producer import SteadyProducer
from hightide.errors import ErrorCode
from hightide.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

RESULT_NAME = "failover"
SESSION_SECONDS = 6.0  # the default of broker.session.timeout.ms
SETTINGS = {"default.replication.factor": "3", "min.insync.replicas": "2"}
ROUNDS = 5
BROKERS = 3
CREATE_TOPICS_VERSION = 7
CREATE_SECONDS_MAX = 60.0
AFTERWARDS = 100  # acknowledgements that show that all is well again

INTRODUCTION = f"""\
# Failover

Written by `python -m bench failover`: three `hightide server` processes with default settings (session time-out
{SESSION_SECONDS:.0f} s, heartbeats every second), topics of three replicas with `min.insync.replicas=2` and
`hightide.durability=fsync`. Unavailability is the longest time without an acknowledgement that a stock producer
(librdkafka with its default settings, idempotent, acks=all) sees while it sends 200 records a second to a partition led
by the broker that goes away. In sync again: from the execution of `hightide server` until every replica of every
partition is in the in-sync set in the eyes of every broker. A metadata change: from the kill of the active controller
until a topic that a client asks the others for is created.
"""


class Failover:
    """One cluster and the lines it fills."""

    def __init__(self, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        self._topics: list[str] = []
        self.kill = Measured("unavailable after kill -9 of a leader", "s", SESSION_SECONDS + 1)
        self.kill_both = Measured(
            "unavailable after kill -9 of a leader that is the active controller", "s", SESSION_SECONDS + 1
        )
        self.stop = Measured("unavailable around a clean stop of a leader", "s", 0.2)
        self.stop_both = Measured("unavailable around a clean stop of a leader that is the active controller", "s")
        self.stopping = Measured("a clean stop, from SIGTERM to the end of the process", "s")
        self.change = Measured("until a metadata change succeeds after kill -9 of the active controller", "s", 2.0)
        self.after_kill = Measured("in sync again after kill -9, from the start of the process", "s")
        self.after_stop = Measured("in sync again after a clean stop, from the start of the process", "s")

    @property
    def lines(self) -> list[Measured]:
        """In the order of the page."""
        return [
            self.kill, self.kill_both, self.stop, self.stop_both, self.stopping, self.change, self.after_kill,
            self.after_stop,
        ]  # fmt: skip

    def round(self) -> None:
        """Everything once."""
        self._lose_leader(self.kill, self.after_kill, is_controller=False, by=self._kill)
        self._lose_leader(self.stop, self.after_stop, is_controller=False, by=self._stop)
        self._lose_leader(self.kill_both, self.after_kill, is_controller=True, by=self._kill)
        self._lose_leader(self.stop_both, self.after_stop, is_controller=True, by=self._stop)
        self._lose_controller()

    # ------------------------------------------------------------------ runs

    def _lose_leader(
        self, line: Measured, again: Measured, *, is_controller: bool, by: Callable[[Server], None]
    ) -> None:
        cluster = self._cluster
        controller = active_controller(cluster)
        victim = next(server for server in cluster.servers if (server.node_id == controller) == is_controller)
        topic = self._new_topic(victim.node_id)
        pids = cluster.pids
        with machine.watch(pids) as seen, SteadyProducer(cluster.bootstrap, topic) as producer:
            began = time.monotonic()
            by(victim)
            pids.remove(victim.pid)
            producer.await_told(AFTERWARDS)
            line.add(producer.longest_silence(began))
        line.disturbances[-1] = seen.disturbance
        self._say(f"{line.title}: {line.values[-1]:.3f} s")
        self._return(victim, again)

    def _kill(self, victim: Server) -> None:
        victim.kill()

    def _stop(self, victim: Server) -> None:
        began = time.monotonic()
        victim.stop()
        self.stopping.add(time.monotonic() - began)

    def _return(self, victim: Server, line: Measured) -> None:
        victim.launch()
        for topic in self._topics:
            await_in_sync(self._cluster, topic, 1, BROKERS)
        line.add(time.monotonic() - victim.started)
        await_brokers(self._cluster)

    def _lose_controller(self) -> None:
        cluster = self._cluster
        victim = cluster.server(active_controller(cluster))
        pids = cluster.pids
        with machine.watch(pids) as seen:
            began = time.monotonic()
            victim.kill()
            pids.remove(victim.pid)
            self._create_somewhere(f"after-{len(self.change.values)}")
            self.change.add(time.monotonic() - began)
        self.change.disturbances[-1] = seen.disturbance
        self._say(f"{self.change.title}: {self.change.values[-1]:.3f} s")
        self._return(victim, self.after_kill)

    def _create_somewhere(self, topic: str) -> None:
        """On the brokers that live: nobody knows yet that the third is gone, and its death is not what is measured."""
        survivor = self._cluster.any_server()
        living = [server.node_id for server in self._cluster.servers if server.alive]
        where = CreatableReplicaAssignment(partition_index=0, broker_ids=living)
        wish = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=[where])
        request = CreateTopicsRequest(topics=[wish], timeout_ms=int(CREATE_SECONDS_MAX * 1000))
        deadline = time.monotonic() + CREATE_SECONDS_MAX
        while time.monotonic() < deadline:
            told = ask(survivor, request, CREATE_TOPICS_VERSION, CreateTopicsResponse).topics[0]
            if told.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
        raise FailedError(f"no topic can be created {CREATE_SECONDS_MAX:.0f} s after the controller's death")

    def _new_topic(self, leader: int) -> str:
        topic = f"run-{len(self._topics)}"
        create_topic(self._cluster, topic, 1, BROKERS, {"hightide.durability": "fsync"}, leader=leader)
        self._topics.append(topic)
        return topic


def measure_failover(console: Console, directory: Path, results: Path, load: str, *, is_quick: bool) -> bool:
    """Measure, print, write."""
    with hightide_cluster(directory / RESULT_NAME, BROKERS, SETTINGS) as cluster:
        cluster.launch()
        await_brokers(cluster)
        failover = Failover(cluster, lambda text: console.print(text, highlight=False))
        for _ in range(1 if is_quick else ROUNDS):
            failover.round()
    page = Page(RESULT_NAME, INTRODUCTION, failover.lines, load, {"librdkafka": confluent_kafka.libversion()[0]})
    page.show(console)
    if is_quick:
        console.print("One run of each: nothing in docs/benchmarks.", highlight=False)
    else:
        page.write(results)
        console.print(f"Wrote docs/benchmarks/{RESULT_NAME}.md and .json.", highlight=False)
    return True
