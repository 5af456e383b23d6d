"""`python -m bench groups`: large consumer groups, many of them, and what a lost member costs.

Our own client joins by the hundred, because five hundred stock ones would measure the machine's patience with threads;
the fifty whose pauses count are librdkafka's, with an eager and with a cooperative assignor.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import machine
from bench.admin import await_brokers
from bench.clusters import Cluster
from bench.hightide_server import hightide_cluster
from bench.pages import Measured, Page
from bench.programs import FailedError
from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster as Client
from hightide.client.cluster import parse_bootstrap
from hightide.client.membership import GroupMember, MembershipLostError
from hightide.errors import ApiError
from hightide.runtime.clock import LoopClock
from hightide.runtime.network import SocketNetwork

RESULT_NAME = "groups"
TOPIC = "shared"
BROKERS, PARTITIONS = 3, 100
MEMBERS, MEMBERS_QUICK = 500, 20
GROUPS, GROUPS_QUICK = 200, 10
SIZE, SIZE_QUICK = 50, 5
ROUNDS = 3
SESSION_MS = 10_000
HEARTBEAT_SECONDS = 1.0
WAIT_SECONDS_MAX = 180.0
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
}
ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky"}

INTRODUCTION = f"""\
# Consumer groups

Written by `python -m bench groups`: three `hightide server` processes with default settings, a topic of {PARTITIONS}
partitions. Joined: from the first request until every member has its assignment of one common generation; the first
rebalance of a group waits at least three seconds for latecomers (`group.initial.rebalance.delay.ms`), which is part of
the figure. {SIZE} members lose one: a librdkafka consumer leaves, and the others notice with their next heartbeat
({HEARTBEAT_SECONDS:.0f} s). Settled again: until the last of them has its assignment. A partition pauses while nobody
owns it: the longest pause of those that belonged to the others. The clients share the machine's cores with the brokers.
"""


class Groups:
    """The lines of the page."""

    def __init__(self, say: Callable[[str], None], *, is_quick: bool) -> None:
        self._say = say
        self._members = MEMBERS_QUICK if is_quick else MEMBERS
        self._groups = GROUPS_QUICK if is_quick else GROUPS
        self._size = SIZE_QUICK if is_quick else SIZE
        self.one_group = Measured(f"{self._members} members join one group", "s")
        self.many_groups = Measured(f"{self._groups} groups of two members at once", "s")
        self.settled = {
            kind: Measured(f"{self._size} members lose one, {kind}: settled again", "s") for kind in ASSIGNORS
        }
        self.still = {
            kind: Measured(f"{self._size} members lose one, {kind}: longest pause of a kept partition", "s")
            for kind in ASSIGNORS
        }

    @property
    def lines(self) -> list[Measured]:
        """In the order of the page."""
        pauses = [line for kind in ASSIGNORS for line in (self.settled[kind], self.still[kind])]
        return [self.one_group, self.many_groups, *pauses]

    def round(self, cluster: Cluster) -> None:
        """Everything once, on a fresh cluster."""
        bootstrap = ",".join(server.address for server in cluster.servers)
        asyncio.run(_create_topic(bootstrap))
        self._timed(cluster, self.one_group, lambda: asyncio.run(_join(bootstrap, {"large": self._members})))
        names = {f"group-{number}": 2 for number in range(self._groups)}
        self._timed(cluster, self.many_groups, lambda: asyncio.run(_join(bootstrap, names)))
        for kind, assignor in ASSIGNORS.items():
            settled, still = lose_one(bootstrap, f"lost-{kind}", assignor, self._size)
            self.settled[kind].add(settled)
            self.still[kind].add(still)
            self._say(f"{kind}: settled again after {settled:.2f} s, a kept partition paused for {still:.2f} s at most")

    def _timed(self, cluster: Cluster, line: Measured, step: Callable[[], None]) -> None:
        with machine.watch(cluster.pids) as seen:
            step()
        line.add(seen.seconds, seen.disturbance)
        self._say(f"{line.title}: {line.values[-1]:.2f} s")


# ------------------------------------------------------------------ our own client, by the hundred


def _client(bootstrap: str) -> Client:
    loop = asyncio.get_running_loop()
    return Client(SocketNetwork(loop), LoopClock(loop), parse_bootstrap(bootstrap))


async def _create_topic(bootstrap: str) -> None:
    client = _client(bootstrap)
    outcomes = await Admin(client).create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])
    client.close()
    if outcomes[TOPIC] is not None:
        raise FailedError(f"the topic was not created: {outcomes[TOPIC]}")


class _Joiner:
    """A member that joins again until all of its group are in one generation."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.client = _client(bootstrap)
        self.member = GroupMember(self.client, group, [TOPIC], session_timeout_ms=SESSION_MS)
        self.generation = -1

    async def run(self) -> None:
        while True:
            try:
                self.generation = -1
                self.generation = (await self.member.join()).generation
                while True:
                    await asyncio.sleep(HEARTBEAT_SECONDS)
                    await self.member.heartbeat()
            except (MembershipLostError, ApiError):
                continue


async def _join(bootstrap: str, groups: dict[str, int]) -> None:
    """Return when every group's members share a generation."""
    joiners = {name: [_Joiner(bootstrap, name) for _ in range(count)] for name, count in groups.items()}
    everybody = [joiner for members in joiners.values() for joiner in members]
    tasks = [asyncio.create_task(joiner.run()) for joiner in everybody]
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not all(_is_settled(members) for members in joiners.values()):
        if time.monotonic() > deadline:
            raise FailedError(f"the groups have not settled after {WAIT_SECONDS_MAX:.0f} s")
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for joiner in everybody:
        joiner.client.close()


def _is_settled(members: Sequence[_Joiner]) -> bool:
    return members[0].generation >= 0 and len({joiner.generation for joiner in members}) == 1


# ------------------------------------------------------------------ fifty stock consumers


class _Owners:
    """Who owns what since when, told by callbacks of consumers that one thread polls."""

    def __init__(self) -> None:
        self.owned: dict[int, set[int]] = {}
        self.given_up: dict[int, float] = {}
        self.longest = 0.0
        self.last_at = 0.0

    def assigned(self, number: int, partitions: Sequence[Any]) -> None:
        now = time.monotonic()
        for each in partitions:
            begun = self.given_up.pop(each.partition, None)
            if begun is not None:
                self.longest = max(self.longest, now - begun)
        self.owned.setdefault(number, set()).update(each.partition for each in partitions)
        self.last_at = now

    def revoked(self, number: int, partitions: Sequence[Any]) -> None:
        now = time.monotonic()
        for each in partitions:
            self.given_up[each.partition] = now
        self.owned.setdefault(number, set()).difference_update(each.partition for each in partitions)
        self.last_at = now

    @property
    def is_complete(self) -> bool:
        return sum(map(len, self.owned.values())) == PARTITIONS and all(self.owned.values())


def lose_one(bootstrap: str, group: str, assignor: str, size: int) -> tuple[float, float]:
    """Seconds until everything is owned again after one of `size` members left, and the longest pause of a partition
    that stayed with the living."""
    from confluent_kafka import Consumer

    owners = _Owners()
    consumers = {}
    for number in range(size):
        consumers[number] = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "partition.assignment.strategy": assignor,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": int(HEARTBEAT_SECONDS * 1000),
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumers[number].subscribe(
            [TOPIC],
            on_assign=lambda _, partitions, number=number: owners.assigned(number, partitions),
            on_revoke=lambda _, partitions, number=number: owners.revoked(number, partitions),
        )
    try:
        _poll(consumers, lambda: len(owners.owned) == size and owners.is_complete)
        lost = owners.owned.pop(0)
        began = time.monotonic()
        consumers.pop(0).close()
        owners.owned.pop(0, None)
        owners.longest = 0.0
        for partition in lost:
            owners.given_up.pop(partition, None)
        _poll(consumers, lambda: owners.is_complete)
        return owners.last_at - began, owners.longest
    finally:
        for consumer in consumers.values():
            consumer.close()


def _poll(consumers: dict[int, Any], is_done: Callable[[], bool]) -> None:
    """Let callbacks happen until it is so, and has been so for two heartbeats."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    since: float | None = None
    while since is None or time.monotonic() - since < 2 * HEARTBEAT_SECONDS:
        for consumer in list(consumers.values()):
            consumer.poll(0)
        since = (since or time.monotonic()) if is_done() else None
        if time.monotonic() > deadline:
            raise FailedError(f"the group has not settled after {WAIT_SECONDS_MAX:.0f} s")
        time.sleep(0.002)


def measure_groups(console: Console, directory: Path, results: Path, load: str, *, is_quick: bool) -> bool:
    """Measure, print and write; whether every line has a figure."""
    groups = Groups(lambda text: console.print(text, highlight=False), is_quick=is_quick)
    for _ in range(1 if is_quick else ROUNDS):
        with hightide_cluster(directory / RESULT_NAME, BROKERS, SETTINGS) as cluster:
            cluster.launch()
            await_brokers(cluster)
            groups.round(cluster)
    page = Page(RESULT_NAME, INTRODUCTION, groups.lines, load, {"librdkafka": version("confluent-kafka")})
    page.show(console)
    if is_quick:
        console.print("One run with few members: nothing in docs/benchmarks.", highlight=False)
    else:
        page.write(results)
        console.print(f"Wrote docs/benchmarks/{RESULT_NAME}.md and .json.", highlight=False)
    return True
