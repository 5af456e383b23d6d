"""`python -m bench scale`: a thousand partitions with three replicas each on three brokers.

How long they take to be created, what they cost while nothing happens, how long all that one broker led are without a
leader after kill -9, and how long it takes until everything is in sync after its return.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import machine
from bench.admin import POLL_SECONDS, active_controller, ask, await_brokers, topic_partitions
from bench.clusters import Cluster, Server
from bench.hightide_server import hightide_cluster
from bench.pages import Measured, Page
from bench.programs import FailedError
from hightide.errors import ErrorCode
from hightide.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from hightide.wire.messages.metadata import MetadataResponsePartition

RESULT_NAME = "scale"
TOPIC = "thousand"
PARTITIONS, PARTITIONS_QUICK = 1000, 100
BROKERS = 3
ROUNDS = 3
IDLE_SECONDS, IDLE_SECONDS_QUICK = 20.0, 3.0
SETTLE_SECONDS = 2.0
SESSION_SECONDS = 6.0  # the default of broker.session.timeout.ms
WAIT_SECONDS_MAX = 300.0
CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 4, 3
SETTINGS = {"default.replication.factor": "3", "min.insync.replicas": "2"}

INTRODUCTION = f"""\
# A thousand partitions

Written by `python -m bench scale`: three `hightide server` processes with default settings (session time-out
{SESSION_SECONDS:.0f} s) and one topic of {PARTITIONS} partitions with three replicas each, {BROKERS * PARTITIONS} logs
in all, on one disk. Created: from the request until every replica of every partition is in sync in the eyes of every
broker. Idle: nobody writes or reads; the brokers go on sending heartbeats and fetching from each other. Failed over:
from kill -9 of one broker, not the active controller, until both others know a new leader for each partition that it
led; the session has to end first. CPU and memory are those of one broker, each run on each of them.
"""


class Scale:
    """The lines of the page."""

    def __init__(self, say: Callable[[str], None], partitions: int, idle_seconds: float) -> None:
        self._say = say
        self._partitions = partitions
        self._idle_seconds = idle_seconds
        self.created = Measured("created", "s")
        self.empty_memory = Measured("memory (RSS) of a broker before", "MB")
        self.memory = Measured("memory (RSS) of a broker with them", "MB")
        self.empty_idle = Measured("CPU of an idle broker before", "cores")
        self.idle = Measured("CPU of an idle broker with them", "cores")
        self.descriptors = Measured("open descriptors of a broker", "")
        self.failed_over = Measured("all failed over after kill -9", "s", SESSION_SECONDS + 1)
        self.in_sync = Measured("all in sync again after its restart", "s")
        self.deleted = Measured("deleted", "s")

    @property
    def lines(self) -> list[Measured]:
        """In the order of the page."""
        return [
            self.created, self.empty_memory, self.memory, self.empty_idle, self.idle, self.descriptors,
            self.failed_over, self.in_sync, self.deleted,
        ]  # fmt: skip

    def round(self, cluster: Cluster) -> None:
        """Everything once, on a fresh cluster."""
        self._rest(cluster, self.empty_idle, self.empty_memory)
        self._timed(cluster, self.created, lambda: self._create(cluster))
        self._rest(cluster, self.idle, self.memory)
        for server in cluster.servers:
            self.descriptors.add(len(os.listdir(f"/proc/{server.pid}/fd")))
        controller = active_controller(cluster)
        victim = next(server for server in cluster.servers if server.node_id != controller)
        self._timed(cluster, self.failed_over, lambda: self._fail_over(cluster, victim))
        self._timed(cluster, self.in_sync, lambda: self._return(cluster, victim))
        self._timed(cluster, self.deleted, lambda: self._delete(cluster))

    def _timed(self, cluster: Cluster, line: Measured, step: Callable[[], None]) -> None:
        pids = cluster.pids
        with machine.watch(pids) as seen:
            step()
            pids[:] = cluster.pids
        line.add(seen.seconds, seen.disturbance)
        self._say(f"{line.title}: {line.values[-1]:.2f} s")

    def _rest(self, cluster: Cluster, idle: Measured, memory: Measured) -> None:
        time.sleep(SETTLE_SECONDS)
        before = {server.pid: machine.cpu_seconds(server.pid) for server in cluster.servers}
        began = time.monotonic()
        time.sleep(self._idle_seconds)
        seconds = time.monotonic() - began
        for server in cluster.servers:
            idle.add((machine.cpu_seconds(server.pid) - before[server.pid]) / seconds)
            memory.add(machine.resident_and_proportional_mb(server.pid)[0])
        self._say(f"{idle.title}: {idle.values[-1]:.3f} cores; {memory.title}: {memory.values[-1]:.0f} MB")

    # ------------------------------------------------------------------ steps

    def _create(self, cluster: Cluster) -> None:
        wish = CreatableTopic(name=TOPIC, num_partitions=self._partitions, replication_factor=BROKERS)
        request = CreateTopicsRequest(topics=[wish], timeout_ms=int(WAIT_SECONDS_MAX * 1000))

        def created() -> bool:
            told = ask(cluster.any_server(), request, CREATE_TOPICS_VERSION, CreateTopicsResponse).topics[0]
            return told.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

        _wait(created, "is not created")
        self._await_states(cluster, lambda state: len(state.isr_nodes) == BROKERS, "is not in sync")

    def _fail_over(self, cluster: Cluster, victim: Server) -> None:
        victim.kill()
        self._await_states(cluster, lambda state: state.leader_id not in (-1, victim.node_id), "has no new leaders")

    def _return(self, cluster: Cluster, victim: Server) -> None:
        victim.launch()
        await_brokers(cluster)
        self._await_states(cluster, lambda state: len(state.isr_nodes) == BROKERS, "is not in sync")

    def _delete(self, cluster: Cluster) -> None:
        request = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=int(WAIT_SECONDS_MAX * 1000))

        def deleted() -> bool:
            told = ask(cluster.any_server(), request, DELETE_TOPICS_VERSION, DeleteTopicsResponse).responses[0]
            return told.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

        _wait(deleted, "is not deleted")
        _wait(
            lambda: not any(any(server.data.glob(f"{TOPIC}-*")) for server in cluster.servers), "still has directories"
        )

    def _await_states(
        self, cluster: Cluster, is_right: Callable[[MetadataResponsePartition], bool], otherwise: str
    ) -> None:
        def everywhere() -> bool:
            seen = [topic_partitions(server, TOPIC) for server in cluster.servers if server.alive]
            return all(len(state) == self._partitions and all(map(is_right, state)) for state in seen)

        _wait(everywhere, otherwise)


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        try:
            if condition():
                return
        except OSError:
            pass  # a broker that is on its way
        if time.monotonic() > deadline:
            raise FailedError(f"the topic {otherwise} after {WAIT_SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)


def measure_scale(console: Console, directory: Path, results: Path, load: str, *, is_quick: bool) -> bool:
    """Measure, print, write."""
    count, idle = (PARTITIONS_QUICK, IDLE_SECONDS_QUICK) if is_quick else (PARTITIONS, IDLE_SECONDS)
    scale = Scale(lambda text: console.print(text, highlight=False), count, idle)
    for _ in range(1 if is_quick else ROUNDS):
        with hightide_cluster(directory / RESULT_NAME, BROKERS, SETTINGS) as cluster:
            cluster.launch()
            await_brokers(cluster)
            scale.round(cluster)
    page = Page(RESULT_NAME, INTRODUCTION, scale.lines, load, {})
    page.show(console)
    if is_quick:
        console.print(f"One run with {count} partitions: nothing in docs/benchmarks.", highlight=False)
    else:
        page.write(results)
        console.print(f"Wrote docs/benchmarks/{RESULT_NAME}.md and .json.", highlight=False)
    return True
