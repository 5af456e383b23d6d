"""Start-up and idle memory: brokers of their own, one at a time, with nothing else running.

A start is counted from the execution of the server to its first acknowledged record: on an empty directory, where the
topic is created first, and after a clean stop. Kafka's storage must be formatted by a program of its own before that,
which is not counted; hightide does it as it starts. Memory is what the restarted broker occupies when nobody asks.
"""

import time
from collections.abc import Mapping

from bench import machine, requests
from bench.clusters import POLL_SECONDS, Server
from bench.comparison.arena import BOTH_SYSTEMS_SETTINGS, ClusterMaker
from bench.comparison.contests import TAIL_SPREAD_MAX, Contest, Line, Run
from bench.comparison.effort import Effort
from bench.comparison.one_broker_rows import both
from bench.trials import Goal, Trial
from hightide.errors import ErrorCode

TOPIC = "startup"
ACKS_ALL_CODE = -1
START_GOAL, MEMORY_GOAL = Goal(0.15, at_least=False), Goal(0.1, at_least=False)


def lifecycle_contests(effort: Effort, makers: Mapping[str, ClusterMaker]) -> list[Contest]:
    """One contest with all three lines."""
    lines = [
        Line("start-up, empty directory", "empty_s", "s", goal=START_GOAL, spread_max=TAIL_SPREAD_MAX),
        Line("start-up, after a clean stop", "again_s", "s", goal=START_GOAL, spread_max=TAIL_SPREAD_MAX),
        Line("idle memory", "idle_mb", "MB", goal=MEMORY_GOAL, is_timed=False),
    ]
    return [Contest("startup", "start-up and idle memory", both(lambda system: _run(effort, makers[system])), lines)]


def _run(effort: Effort, make: ClusterMaker) -> Run:
    with make(effort.directory / "startup", 1, BOTH_SYSTEMS_SETTINGS) as cluster:
        server = cluster.servers[0]
        empty = _start(server, create=True)
        server.stop()
        again = _start(server, create=False)
        time.sleep(effort.settling_seconds)
        memory = machine.resident_mb(server.pid)
    figures = {"empty_s": empty.value, "again_s": again.value, "idle_mb": memory}
    return Run(figures, empty.disturbance or again.disturbance)


def _start(server: Server, *, create: bool) -> Trial:
    frame = requests.produce_frame(TOPIC, ACKS_ALL_CODE, value_bytes=100)
    ours: list[int] = []
    with machine.watch(ours) as seen:
        server.launch()
        ours.append(server.pid)
        while not _answers(server, frame, create=create):
            server.expect_alive("takes no record")
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - server.started
    return Trial(seconds, seen.disturbance)


def _answers(server: Server, frame: bytes, *, create: bool) -> bool:
    """Whether one record is acknowledged now, in a topic made just before where there is none yet."""
    try:
        with requests.connect(server.port) as connection:
            if create:
                made = requests.create_topic(connection, TOPIC)
                if made not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return False
            return requests.produce(connection, frame) is ErrorCode.NONE
    except OSError:
        return False
