"""What is measured on three brokers: RF 3, acks=all, min.insync.replicas=2, with and without fsync on both sides.

Kafka syncs every append with `flush.messages=1`. Our default, fsync, is also held against Kafka's default, which is
none.
"""

from collections.abc import Callable, Mapping

from bench.comparison.arena import Arena
from bench.comparison.contests import (
    DISK,
    FLOOR,
    HIGHTIDE,
    HIGHTIDE_FSYNC,
    KAFKA,
    KAFKA_FSYNC,
    MOCK,
    REPLICATING,
    TAIL_SPREAD_MAX,
    WRITING,
    Contest,
    Line,
    Run,
)
from bench.comparison.loads import FSYNC, MB, PAGE_CACHE, Loads, Produce
from bench.comparison.one_broker_rows import (
    CPU_PER_MB,
    CPU_PER_REQUEST,
    LARGE,
    PARTITIONS,
    RATES,
    both,
    latency_lines,
)
from bench.comparison.room import WorkAlone
from bench.trials import Goal

MESSAGES = 500_000  # nearly a second: the first and last requests count for less
WARMUP_MESSAGES = 8_000
CONNECTIONS = 50
REQUESTS = 40_000
IDLE_PARTITIONS = 999
ACKS = "all"
WRITE_ALONE = WorkAlone(WRITING, "cpu_ms_mb", "receive + CRC-32C + write, on three brokers", times=3)
REPLICATE_ALONE = WorkAlone(REPLICATING, "cpu_us", "writing, passing on and answering, in three processes")
WITH_FSYNC, DEFAULTS = "fsync on both", "our default, fsync, against Kafka's, none"
FSYNC_PAIR, DEFAULTS_PAIR = (HIGHTIDE_FSYNC, KAFKA_FSYNC), (HIGHTIDE_FSYNC, KAFKA)
CONTESTANTS: Mapping[str, tuple[str, str]] = {
    HIGHTIDE: (HIGHTIDE, PAGE_CACHE),
    KAFKA: (KAFKA, PAGE_CACHE),
    HIGHTIDE_FSYNC: (HIGHTIDE, FSYNC),
    KAFKA_FSYNC: (KAFKA, FSYNC),
}


def three_broker_contests(loads: Loads, arena: Arena) -> list[Contest]:
    """All rows of three brokers with load, in the order they run."""
    throughput = [_throughput(loads, arena, partitions) for partitions in PARTITIONS]
    latency = (_latency(loads, arena, rate) for rate in RATES)
    return [*throughput, _requests(loads, arena), _requests_among_many(loads, arena), *latency]


def _everybody(run: Callable[[str, str], Run]) -> dict[str, Callable[[], Run]]:
    def runner(system: str, durability: str) -> Callable[[], Run]:
        return lambda: run(system, durability)

    return {name: runner(system, durability) for name, (system, durability) in CONTESTANTS.items()}


def _throughput(loads: Loads, arena: Arena, partitions: int) -> Contest:
    amount = loads.effort.amount
    plural = "s" if partitions > 1 else ""
    title = f"three brokers, produce 1 KiB, {partitions} partition{plural}"

    def run(system: str, durability: str) -> Run:
        work = Produce(
            amount(MESSAGES), LARGE, ACKS, partitions=partitions, durability=durability,
            warmup_messages=amount(WARMUP_MESSAGES, at_least=500),
        )  # fmt: skip
        return loads.produce(arena, system, work)

    lines = [
        Line(title, "mb_s", "MB/s", goal=Goal(2.5, at_least=True), alone=WRITE_ALONE),
        Line(f"{title}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB", goal=Goal(0.35, at_least=False), alone=WRITE_ALONE),
        Line(f"{title}: memory", "rss_mb", "MB", plotted=False, is_timed=False),
        Line(f"{title}, {WITH_FSYNC}", "mb_s", "MB/s", FSYNC_PAIR),
        Line(f"{title}, {WITH_FSYNC}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB", FSYNC_PAIR),
        Line(
            f"{title}, {DEFAULTS}", "mb_s", "MB/s", DEFAULTS_PAIR, Goal(1.5, at_least=True), WRITE_ALONE, on_disk=True
        ),
        Line(f"{title}, fsync: of what the disk takes", "mb_s", "MB/s", (HIGHTIDE_FSYNC, DISK), plotted=False),
    ]
    if partitions == 1:
        at_floor = "a follower's CPU per MB, to the floor (receive + CRC + write)"
        goal = Goal(2.0, at_least=False)
        lines.append(Line(f"{title}: {at_floor}", "follower_ms_mb", "ms/MB", (HIGHTIDE, FLOOR), goal, plotted=False))
    runners = _everybody(run)
    runners[WRITING] = loads.writing
    runners[DISK] = lambda: loads.disk(arena.brokers, amount(MESSAGES) * LARGE // MB)
    return Contest("three-throughput", title, runners, lines)


def _requests(loads: Loads, arena: Arena) -> Contest:
    count = loads.effort.amount(REQUESTS, at_least=100)
    title = f"three brokers, one-record requests, {CONNECTIONS} connections"
    lines = [
        Line(title, "requests_s", "requests/s", goal=Goal(5.0, at_least=True), alone=REPLICATE_ALONE),
        Line(f"{title}: {CPU_PER_REQUEST}", "cpu_us", "us"),
        Line(f"{title}: p99", "p99_us", "us", spread_max=TAIL_SPREAD_MAX, plotted=False),
        Line(f"{title}, {WITH_FSYNC}", "requests_s", "requests/s", FSYNC_PAIR),
        Line(f"{title}, {DEFAULTS}", "requests_s", "requests/s", DEFAULTS_PAIR),
        Line(
            f"{title}: of what replication alone reaches",
            "requests_s",
            "requests/s",
            (HIGHTIDE, REPLICATING),
            plotted=False,
        ),
    ]

    def run(system: str, durability: str) -> Run:
        return loads.one_record_requests(arena, system, CONNECTIONS, count, durability)

    runners = _everybody(run)
    runners[REPLICATING] = lambda: loads.replicated_echo(CONNECTIONS, count)
    return Contest("three-requests", title, runners, lines)


def _requests_among_many(loads: Loads, arena: Arena) -> Contest:
    """What followers have to look at for every answer must not grow with what they follow."""
    count = loads.effort.amount(REQUESTS, at_least=100)
    idle = loads.effort.amount(IDLE_PARTITIONS)
    title = f"three brokers, one-record requests, {CONNECTIONS} connections, beside {idle} idle partitions"
    lines = [
        Line(title, "requests_s", "requests/s"),
        Line(f"{title}: {CPU_PER_REQUEST}", "cpu_us", "us"),
        Line(f"{title}: p99", "p99_us", "us", spread_max=TAIL_SPREAD_MAX, plotted=False),
    ]

    def run(system: str) -> Run:
        return loads.one_record_requests(arena, system, CONNECTIONS, count, partitions=idle + 1)

    return Contest("three-requests", title, both(run), lines, rounds_max=4)


def _latency(loads: Loads, arena: Arena, rate: int) -> Contest:
    title = f"three brokers, latency at {rate:,} messages/s"
    lines = latency_lines(title, 0.5, 0.3 if rate == RATES[0] else 0.5)
    lines += latency_lines(f"{title}, {WITH_FSYNC}", None, None, FSYNC_PAIR)

    def run(system: str, durability: str) -> Run:
        return loads.latency(arena, system, rate, ACKS, durability)

    runners = _everybody(run)
    runners[MOCK] = lambda: loads.mock_latency(rate, ACKS)
    return Contest("three-latency", title, runners, lines)
