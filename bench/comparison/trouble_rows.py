"""A follower that was down catches up; a leader is killed. Three brokers, RF 3, acks=all, min.insync.replicas=2.

Failover: messages go out at a fixed rate, the leader of their partition gets kill -9, and what counts is the longest a
message waited for its acknowledgement. Session time-outs are equal, and the leader killed is not the active controller,
so that both systems have the same to notice and the same to do.
"""

import threading
import time
from typing import Any

from bench import admin, machine
from bench.clusters import Cluster, Server
from bench.comparison.arena import Arena
from bench.comparison.contests import TAIL_SPREAD_MAX, Contest, Line, Run
from bench.comparison.loads import MB, PAGE_CACHE, Loads, Produce
from bench.comparison.one_broker_rows import LARGE, both
from bench.programs import FailedError

SESSION_SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
BEHIND_MESSAGES = 300_000
FAILOVER_RATE = 200
FAILOVER_KILL_SECONDS = 3.0
FAILOVER_SECONDS = 10.0
POLL_SECONDS = 0.005
WAIT_SECONDS_MAX = 60.0


def catch_up_contests(loads: Loads, arena: Arena) -> list[Contest]:
    """A follower comes back."""
    megabytes = loads.effort.amount(BEHIND_MESSAGES) * LARGE // MB
    title = f"catch-up of a follower that missed {megabytes} MB"
    lines = [
        Line(f"{title}, from its start", "from_start_s", "s", spread_max=TAIL_SPREAD_MAX),
        Line(f"{title}, from when it listens", "from_listening_s", "s", spread_max=TAIL_SPREAD_MAX),
    ]
    return [Contest("catch-up", title, both(lambda system: _catch_up(loads, arena, system)), lines, rounds_max=4)]


def failover_contests(loads: Loads, arena: Arena) -> list[Contest]:
    """A leader is killed."""
    title = "failover after kill -9 of a leader (session time-out 3 s on both)"
    lines = [
        Line(f"{title}: longest wait of a producer", "produce_max_us", "us", spread_max=TAIL_SPREAD_MAX),
        Line(f"{title}: longest wait of a consumer", "end_to_end_max_us", "us", spread_max=TAIL_SPREAD_MAX),
    ]
    return [Contest("failover", title, both(lambda system: _failover(loads, arena, system)), lines, rounds_max=4)]


def _catch_up(loads: Loads, arena: Arena, system: str) -> Run:
    cluster = arena.cluster(system)
    work = Produce(loads.effort.amount(BEHIND_MESSAGES), LARGE, "all", warmup_messages=0)
    with arena.topic(cluster, 1, PAGE_CACHE) as topic:
        follower = _bystander(cluster, topic)
        follower.stop()
        admin.await_in_sync(cluster, topic, 1, 2)
        loads.touch(work.megabytes * arena.replication_factor)
        loads.fill(cluster, topic, work)
        pids = arena.pids
        with machine.watch(pids) as seen:
            follower.launch()
            pids.append(follower.pid)
            follower.connect().close()
            listening = time.monotonic()
            _await_return(cluster, topic, follower)
            done = time.monotonic()
        admin.expect_records(cluster, topic, work.messages)
    admin.await_brokers(cluster)
    figures = {"from_start_s": done - follower.started, "from_listening_s": max(done - listening, POLL_SECONDS)}
    return Run(figures, seen.disturbance)


def _await_return(cluster: Cluster, topic: str, follower: Server) -> None:
    """Wait until the leader has the follower in its in-sync set again."""
    leader = admin.leader_of(cluster, topic)
    while follower.node_id not in admin.topic_partitions(leader, topic)[0].isr_nodes:
        follower.expect_alive("does not catch up", WAIT_SECONDS_MAX)
        time.sleep(POLL_SECONDS)


def _bystander(cluster: Cluster, topic: str) -> Server:
    """A server that neither leads the topic nor the quorum."""
    busy = {admin.leader_of(cluster, topic).node_id, admin.active_controller(cluster)}
    return next(server for server in cluster.servers if server.node_id not in busy)


def _failover(loads: Loads, arena: Arena, system: str) -> Run:
    cluster = arena.cluster(system)
    with arena.topic(cluster, 1, PAGE_CACHE, leader=_not_the_controller(cluster)) as topic:
        leader = admin.leader_of(cluster, topic)
        outcome: list[dict[str, Any] | Exception] = []
        with machine.watch(arena.pids) as seen:
            sender = threading.Thread(target=_send, args=(loads, cluster, topic, outcome))
            sender.start()
            time.sleep(loads.effort.latency_warmup_seconds + FAILOVER_KILL_SECONDS)
            leader.kill()
            sender.join()
        leader.launch()
        admin.await_brokers(cluster)
        admin.await_in_sync(cluster, topic, 1, arena.replication_factor)
    result = outcome[0]
    if isinstance(result, Exception):
        raise result
    return Run({name: float(value) for name, value in result.items() if name.endswith("_max_us")}, seen.disturbance)


def _not_the_controller(cluster: Cluster) -> int:
    controller = admin.active_controller(cluster)
    return next(server.node_id for server in cluster.servers if server.node_id != controller)


def _send(loads: Loads, cluster: Cluster, topic: str, outcome: list[dict[str, Any] | Exception]) -> None:
    """The sender's thread."""
    try:
        outcome.append(
            loads.send_at_rate(cluster.bootstrap, topic, FAILOVER_RATE, "all", [], seconds=FAILOVER_SECONDS)
        )  # fmt: skip
    except (FailedError, OSError) as error:
        outcome.append(error)
