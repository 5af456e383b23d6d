"""`Cluster`: brokers for a test, in this process or in processes of their own, and everything that can happen to them.

One thread of its own carries the proxy between the nodes and the questions to them; the nodes have threads or
processes. All methods are called from the test, block until they are done, and raise `ClusterError` with a sentence
when they can't be.
"""

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from itertools import permutations
from pathlib import Path
from secrets import token_bytes
from types import TracebackType
from typing import Any, Self, TypeVar

from hightide.client.admin import BROKERS_CHOICE, NewTopic
from hightide.errors import ApiError
from hightide.node.config import ConfigError, Settings
from hightide.runtime.launcher import LocalCluster
from hightide.testing.clock import BrokersClock
from hightide.testing.errors import ClusterError
from hightide.testing.nodes import ClusterNode, Machine
from hightide.testing.observation import Observation, View, complaints, newest
from hightide.testing.places import Claim, Place, node_settings, properties_text
from hightide.testing.process_node import ProcessNode
from hightide.testing.proxy import Proxy
from hightide.testing.thread_node import ThreadNode
from hightide.types import NO_BROKER, format_uuid

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
HEALTHY_SECONDS = 60.0
ANSWER_SECONDS = 30.0  # for anything that the own thread does
PAUSE_SECONDS = 0.02  # between two questions: nobody announces what a cluster has become

T = TypeVar("T")


class Cluster:
    """`with Cluster(brokers=3) as cluster:` is ready for clients inside, and leaves nothing behind.

    Nodes are numbered from 1. `settings` go to all of them; `directory` is a temporary one unless given, and then it
    must be new. With `processes`, every node is a process: slower to start, and the clock and the disks are real.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int | None = None,
        processes: bool = False,
        settings: Mapping[str, str] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        voters = (3 if brokers >= 3 else 1) if controllers is None else controllers
        if voters not in (1, 3, 5) or voters > brokers:
            raise ClusterError(f"{voters} controllers among {brokers} brokers: a quorum has 1, 3 or 5 of them")
        self.processes = processes
        self._controllers = voters
        self._clock = BrokersClock()
        self._is_closed = False
        self._owns_directory = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="hightide-")) if directory is None else Path(directory).resolve()
        if any(self.directory.glob("node-*")):
            raise ClusterError(f"{self.directory} holds another cluster: give a directory that is new")
        self._claim = Claim(brokers)
        try:
            self.nodes = self._make_nodes(self._claim.places, dict(settings or {}))
        except ClusterError:
            self._claim.release()
            self._remove_directory()
            raise
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hightide-testing", daemon=True)
        self._thread.start()
        self._proxy = Proxy(self._loop, self._claim.places)
        self._observation = Observation(self._loop)

    def _make_nodes(self, places: list[Place], wishes: dict[str, str]) -> list[ClusterNode]:
        cluster_id = format_uuid(token_bytes(16)).replace("-", "_")
        loaded = {}
        for place in places:
            directory = self.directory / f"node-{place.node_id}"
            directory.mkdir(parents=True)
            data = str(directory / "data")
            settings = node_settings(place, places, self._controllers, cluster_id, data) | wishes
            try:
                loaded[place.node_id] = Settings.load(None, {}, settings)
            except ConfigError as error:
                raise ClusterError(str(error)) from error
            (directory / "server.properties").write_text(properties_text(settings), "utf-8")
        launcher = LocalCluster(self.directory) if self.processes else None

        def machine(node_id: int) -> Machine:
            if launcher is not None:
                return ProcessNode(node_id, launcher)
            log_file = self.directory / f"node-{node_id}" / "server.log"
            return ThreadNode(node_id, loaded[node_id], log_file, self._clock)

        return [
            ClusterNode(place, machine(place.node_id), self.directory / f"node-{place.node_id}") for place in places
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_healthy()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every node at once, and remove everything. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for node in self.nodes:
            if node.is_running:
                node.machine.kill()
        self._on_loop(self._observation.close)
        self._run(self._proxy.close_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._claim.release()
        self._remove_directory()

    def _remove_directory(self) -> None:
        if self._owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    # ------------------------------------------------------------------ what there is

    @property
    def bootstrap(self) -> str:
        """All addresses, for clients; the same over all restarts."""
        return ",".join(node.address for node in self.nodes)

    def node(self, node_id: int) -> ClusterNode:
        """A node by its number."""
        if not 1 <= node_id <= len(self.nodes):
            raise ClusterError(f"there is no node {node_id}: they are numbered from 1 to {len(self.nodes)}")
        return self.nodes[node_id - 1]

    @property
    def clock(self) -> BrokersClock:
        """The time of the brokers in this process; processes have their own."""
        if self.processes:
            raise ClusterError("processes read the machine's clock; use a cluster without processes=True")
        return self._clock

    def logs(self, node_id: int) -> str:
        """Everything that a node logged, over all its lives."""
        try:
            return self.node(node_id).log_file.read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""

    # ------------------------------------------------------------------ life and death

    def start(self, *node_ids: int, timeout: float = READY_SECONDS) -> None:
        """Start these nodes, or all that are down, at once, and wait until each serves clients.

        A broker is ready when the controllers let it in: starting too few of them for a quorum ends in a time-out.
        """
        nodes = self._chosen(node_ids) if node_ids else [node for node in self.nodes if not node.is_running]
        for node in nodes:
            self._must(not node.is_running, f"node {node.id} runs already")
        for node in nodes:
            if len(self.nodes) > 1:
                self._on_loop(self._proxy.open, node.id)
            node.machine.launch()
        deadline = time.monotonic() + timeout
        for node in nodes:
            try:
                node.machine.await_ready(max(0.0, deadline - time.monotonic()))
            except ClusterError as error:
                # Who waits for a quorum in vain is not the one with the story to tell.
                dead = [other for other in nodes if not other.is_running and other is not node]
                told = "".join(f"\nnode {other.id} has ended:\n{self._log_tail(other)}" for other in dead)
                raise ClusterError(f"{error}{told}") from error

    def stop(self, *node_ids: int, timeout: float = STOP_SECONDS) -> None:
        """Stop these nodes, or all, cleanly and at once."""
        nodes = self._running(node_ids)
        for node in nodes:
            self._must(not node.is_paused, f"node {node.id} is paused: resume it first")
        for node in nodes:
            node.machine.begin_stop()
        deadline = time.monotonic() + timeout
        for node in nodes:
            if not node.machine.await_end(max(0.0, deadline - time.monotonic())):
                raise ClusterError(f"node {node.id} has not stopped after {timeout:g} s:\n{self._log_tail(node)}")
            self._on_loop(self._proxy.close, node.id)

    def restart(self, *node_ids: int, timeout: float = READY_SECONDS) -> None:
        """Stop and start these nodes, or all that run, one after the other: a rolling restart."""
        for node in self._running(node_ids):
            self.stop(node.id)
            self.start(node.id, timeout=timeout)

    def kill(self, *node_ids: int) -> None:
        """kill -9 of these nodes, or of all that run."""
        for node in self._running(node_ids):
            node.machine.kill()
            self._on_loop(self._proxy.close, node.id)

    def pause(self, *node_ids: int) -> None:
        """SIGSTOP of these nodes: they hold everything and do nothing."""
        for node in self._running(node_ids):
            self._must(not node.is_paused, f"node {node.id} is paused already")
            node.machine.pause()

    def resume(self, *node_ids: int) -> None:
        """SIGCONT of these nodes, or of all that are paused."""
        nodes = self._chosen(node_ids) if node_ids else [node for node in self.nodes if node.is_paused]
        for node in nodes:
            self._must(node.is_paused, f"node {node.id} is not paused")
            node.machine.resume()

    def wipe(self, node_id: int) -> None:
        """Lose the disk of a node that is down."""
        node = self.node(node_id)
        self._must(not node.is_running, f"node {node_id} is running: stop or kill it first")
        shutil.rmtree(node.data_directory, ignore_errors=True)

    def fill_disk(self, node_id: int) -> None:
        """Let no file of this node grow, until `empty_disk`. Not with processes, whose disk is the machine's."""
        self._thread_node(node_id).disk.fill()

    def empty_disk(self, node_id: int) -> None:
        """Give a node room again."""
        self._thread_node(node_id).disk.empty()

    def _thread_node(self, node_id: int) -> ThreadNode:
        machine = self.node(node_id).machine
        if not isinstance(machine, ThreadNode):
            raise ClusterError("processes use the machine's disk; use a cluster without processes=True")
        return machine

    # ------------------------------------------------------------------ the network between the nodes

    def partition(self, *groups: Collection[int], one_way: bool = False, reset: bool = False) -> None:
        """Part these groups of nodes from each other, on top of what is parted already, until `heal`.

        Silent, as a broken cable, unless `reset`: then connections break. With `one_way`, the first group is not heard
        by the second, which it still hears. Clients reach everybody all the time.
        """
        members = [self.node(node_id).id for group in groups for node_id in group]
        self._must(len(groups) >= 2 and all(groups), "a partition needs two groups of nodes, or more")
        self._must(len(set(members)) == len(members), f"a node can't be in two groups: {groups}")
        self._must(not one_way or len(groups) == 2, "a one-way partition has two groups")
        self._must(not (one_way and reset), "a reset reaches both sides: it can't be one-way")
        pairs = [(groups[0], groups[1])] if one_way else list(permutations(groups, 2))
        directions = [
            (sender, receiver) for senders, receivers in pairs for sender in senders for receiver in receivers
        ]
        self._on_loop(lambda: self._proxy.cut(directions, reset=reset))

    def heal(self) -> None:
        """End all partitions."""
        self._on_loop(self._proxy.heal)

    # ------------------------------------------------------------------ what the cluster says

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Who leads a partition, as the broker with the newest leader epoch knows it; None while nobody does."""
        known = newest(self._views(), topic, partition)
        if known is None:
            raise ClusterError(f"no running broker knows {topic}-{partition}")
        return None if known.leader == NO_BROKER else known.leader

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """The in-sync set of a partition, from the same broker."""
        known = newest(self._views(), topic, partition)
        if known is None:
            raise ClusterError(f"no running broker knows {topic}-{partition}")
        return set(known.in_sync_replicas)

    def controller(self) -> int | None:
        """The active controller, which knows that it is; None while there is none."""
        if len(self.nodes) == 1:
            return 1 if self.nodes[0].is_running else None
        voters = [node.place for node in self._reachable() if node.id <= self._controllers]
        beliefs = self._run(self._observation.leadership(voters))
        active = [(belief.epoch, node_id) for node_id, belief in beliefs.items() if belief.leader == node_id]
        return max(active)[1] if active else None

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = BROKERS_CHOICE,
        assignments: Mapping[int, Collection[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        timeout: float = HEALTHY_SECONDS,
    ) -> None:
        """Create a topic and wait until every running broker knows who leads its partitions.

        `assignments` (partition to brokers, the leader first) replace the two numbers.
        """
        placed = {number: list(brokers) for number, brokers in (assignments or {}).items()}
        topic = NewTopic(name, partitions, replication_factor, dict(configs or {}), placed)
        try:
            self._run(self._observation.create_topic([node.place for node in self._reachable()], topic), timeout)
        except ApiError as error:
            raise ClusterError(f"topic {name} was not created: {error.message or error.code.name}") from error
        self.wait_for(lambda: self._is_led_everywhere(name), f"every broker knows the leaders of {name}", timeout)

    def _is_led_everywhere(self, name: str) -> bool:
        return all(
            isinstance(view, View)
            and name in view.metadata.topics
            and all(part.leader != NO_BROKER for part in view.metadata.topics[name].partitions.values())
            for view in self._views().values()
        )

    def wait_healthy(self, timeout: float = HEALTHY_SECONDS) -> None:
        """Return when all is well: every node runs and is unfenced, there is a controller, and every partition has a
        leader and its full in-sync set, in the eyes of every broker."""
        last: list[str] = []

        def is_healthy() -> bool:
            last[:] = self._complaints()
            return not last

        try:
            self.wait_for(is_healthy, "the cluster is healthy", timeout)
        except ClusterError as error:
            raise ClusterError(f"{error}: " + "; ".join(last)) from None

    def _complaints(self) -> list[str]:
        wrong = [f"node {node.id} is down" for node in self.nodes if not node.is_running]
        wrong += [f"node {node.id} is paused" for node in self.nodes if node.is_paused]
        if self.controller() is None:
            wrong.append("there is no active controller")
        return wrong + complaints(self._views(), [node.id for node in self.nodes])

    def wait_for(self, condition: Callable[[], object], what: str, timeout: float = HEALTHY_SECONDS) -> None:
        """Return when `condition()` is true; ClusterError, which says `what` did not happen, when that takes longer."""
        deadline = time.monotonic() + timeout
        wake = threading.Event()
        while not condition():
            if time.monotonic() >= deadline:
                raise ClusterError(f"not after {timeout:g} s: {what}")
            wake.wait(PAUSE_SECONDS)

    # ------------------------------------------------------------------ within

    def _views(self) -> dict[int, View | ApiError]:
        return self._run(self._observation.views([node.place for node in self._reachable()]))

    def _reachable(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.is_running and not node.is_paused]

    def _chosen(self, node_ids: Collection[int]) -> list[ClusterNode]:
        return [self.node(node_id) for node_id in node_ids]

    def _running(self, node_ids: Collection[int]) -> list[ClusterNode]:
        nodes = self._chosen(node_ids) if node_ids else [node for node in self.nodes if node.is_running]
        for node in nodes:
            self._must(node.is_running, f"node {node.id} is not running")
        return nodes

    def _must(self, condition: object, otherwise: str) -> None:
        if not condition:
            raise ClusterError(otherwise)

    def _log_tail(self, node: ClusterNode, lines: int = 20) -> str:
        return "\n".join(self.logs(node.id).splitlines()[-lines:])

    def _run(self, work: Coroutine[Any, Any, T], timeout: float = ANSWER_SECONDS) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except FutureTimeoutError:
            future.cancel()
            raise ClusterError(f"no answer after {timeout:g} s") from None

    def _on_loop(self, call: Callable[..., object], *args: object) -> None:
        async def work() -> None:
            call(*args)

        self._run(work())
