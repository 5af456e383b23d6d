"""Where both systems stand ready: a cluster of each, started when first needed, warmed up, made anew when one died.

Whoever runs has the machine alone: the other stands still meanwhile. Idle brokers wake up often enough, a JVM's more
often than ours, to be seen in the other's 99th percentile.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import admin, machine
from bench.clusters import Cluster
from bench.comparison.effort import Effort
from bench.programs import FailedError

ClusterMaker = Callable[[Path, int, Mapping[str, str]], Cluster]
WarmUp = Callable[["Arena", Cluster], str]

FAILED_STARTS_MAX = 2
REST_CORES_MAX = 0.15  # of each broker, over `REST_SECONDS`
REST_SECONDS, REST_SECONDS_MAX = 0.1, 10.0
BOTH_SYSTEMS_SETTINGS = {"log.segment.delete.delay.ms": "200"}
"""Deleted files stay for a minute by default, in the page cache too, and go in the middle of another run."""


class Arena:
    """One cluster per system, all of the same shape; used as a context manager, nothing is left behind."""

    def __init__(
        self,
        effort: Effort,
        makers: Mapping[str, ClusterMaker],
        *,
        brokers: int,
        settings: Mapping[str, str] | None = None,
        warm_up: WarmUp | None = None,
        keeps_topics: bool = False,
    ) -> None:
        self.brokers = brokers
        self._effort = effort
        self._makers = makers
        self._settings = {**BOTH_SYSTEMS_SETTINGS, **(settings or {})}
        self._warm_up = warm_up
        self._keeps_topics = keeps_topics
        self._clusters: dict[str, Cluster] = {}
        self._is_ready = False
        self._failed_starts = 0
        self._topics = 0

    @property
    def pids(self) -> list[int]:
        """Of all servers of all systems."""
        return [pid for cluster in self._clusters.values() for pid in cluster.pids]

    @property
    def replication_factor(self) -> int:
        return min(self.brokers, 3)

    def cluster(self, system: str) -> Cluster:
        """A system's cluster, as `prepare` left it, and alone: the others stand still until they are asked for."""
        chosen = self._clusters[system]
        for cluster in self._clusters.values():
            if cluster is not chosen:
                cluster.pause()
        if chosen.resume():
            admin.await_calm(chosen)
        return chosen

    def prepare(self) -> bool:
        """Start what is not running, and say whether that was needed. When one died all begin anew, so that both have
        the same history."""
        if self._is_ready and all(cluster.alive for cluster in self._clusters.values()):
            return False
        if self._failed_starts == FAILED_STARTS_MAX:
            raise FailedError(f"the clusters of {self.brokers} did not come up, {FAILED_STARTS_MAX} times")
        self.close()
        self._failed_starts += 1
        self._start()
        self._failed_starts = 0
        self._is_ready = True
        return True

    def _start(self) -> None:
        for system, make in self._makers.items():
            plural = "s" if self.brokers > 1 else ""
            self._effort.say(f"Starting {self.brokers} broker{plural} of {system}")
            directory = self._effort.directory / f"{system}-{self.brokers}"
            self._clusters[system] = cluster = make(directory, self.brokers, self._settings)
            cluster.launch()
            admin.await_brokers(cluster)
        for system in self._clusters:
            if self._warm_up is not None:
                started = time.monotonic()
                how = self._warm_up(self, self.cluster(system))
                self._effort.say(f"Warmed up {system} for {time.monotonic() - started:.0f} s: {how}")

    @contextmanager
    def topic(self, cluster: Cluster, partitions: int, durability: str, *, leader: int | None = None) -> Iterator[str]:
        """A new topic, deleted at the end with its files unless the arena keeps them; `leader` is where a single
        partition begins."""
        self._topics += 1
        name = f"contest{self._topics:04}"
        settings = cluster.topic_settings(durability)
        if self.brokers > 1:
            settings[admin.MIN_IN_SYNC] = "2"
        try:
            admin.create_topic(cluster, name, partitions, self.replication_factor, settings, leader=leader)
            _await_rest(cluster)
            yield name
        finally:
            if cluster.alive and not self._keeps_topics:  # where one died all begin anew before the next run
                admin.delete_topic(cluster, name)

    def close(self) -> None:
        """End all servers and remove their data."""
        for cluster in self._clusters.values():
            cluster.kill()
            shutil.rmtree(cluster.directory, ignore_errors=True)
        self._clusters.clear()
        self._is_ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _await_rest(cluster: Cluster) -> None:
    """Wait until the brokers have done what a new topic makes them do after they said that it is there. A thousand
    partitions keep a broker busy for seconds."""
    deadline = time.monotonic() + REST_SECONDS_MAX
    busy = float("inf")
    while busy > REST_CORES_MAX * len(cluster.servers) and time.monotonic() < deadline:
        started, before = time.monotonic(), sum(map(machine.cpu_seconds, cluster.pids))
        time.sleep(REST_SECONDS)
        busy = (sum(map(machine.cpu_seconds, cluster.pids)) - before) / (time.monotonic() - started)
