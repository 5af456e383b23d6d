"""What is measured on one broker, and what shall be reached (page-cache durability on both sides)."""

from collections.abc import Callable
from functools import partial

from bench.comparison.arena import Arena
from bench.comparison.contests import (
    ECHO,
    HIGHTIDE,
    KAFKA,
    MOCK,
    SENDING,
    TAIL_SPREAD_MAX,
    WRITING,
    Contest,
    Line,
    Point,
    Run,
)
from bench.comparison.loads import Loads, Produce
from bench.comparison.room import WorkAlone
from bench.trials import SPREAD_MAX, Goal

LARGE, SMALL = 1024, 100
CODECS, PARTITIONS = ("none", "lz4"), (1, 12)
ACKS = {1: ("1", "all"), 12: ("all",)}
CONNECTIONS = (1, 10, 50, 500, 1_000)
PARTITION_CURVE = (1, 10, 100, 1_000)
RATES = (300, 5_000)
WARMUP_MESSAGES = 16_000
BATCH_MESSAGES = 16  # of the partition curve: batches of 16 KiB, whether they go to one partition or to a thousand
MESSAGES = {(LARGE, "none"): 500_000, (LARGE, "lz4"): 300_000, (SMALL, "none"): 2_500_000, (SMALL, "lz4"): 2_500_000}
FIRST_BATCHES = 6  # of each partition, before the clock starts: Kafka writes the first at a fiftieth of its speed
CURVE_MESSAGES = 100_000
READY_BATCHES, READY_CONNECTIONS = 1_500, 4  # of a MB each; with more connections neither system takes more
READY_RECORDS = 1_000
REQUESTS = {1: 6_000, 10: 20_000}
REQUESTS_OF_MANY = 40_000

THROUGHPUT, CPU_PER_MB, CPU_PER_REQUEST = "throughput", "broker CPU per MB", "broker CPU per request"
READER_CORES = 1  # its threads stay on one: on two they hold each other up
WRITE_ALONE = WorkAlone(WRITING, "cpu_ms_mb", "receive + CRC-32C + write")
SEND_ALONE = WorkAlone(SENDING, "cpu_ms_mb", "answering with pages")
ECHO_ALONE = WorkAlone(ECHO, "cpu_us", "an echo server on the same event loop")
REQUEST_GOALS = {50: Goal(2.0, at_least=True), 500: Goal(1.3, at_least=True)}


def one_broker_contests(loads: Loads, arena: Arena) -> list[Contest]:
    """All rows of one broker, in the order they run."""
    contests = []
    for message_bytes in (LARGE, SMALL):
        for codec in CODECS:
            for partitions in PARTITIONS:
                contests += [
                    _produce(loads, arena, message_bytes, codec, partitions, acks) for acks in ACKS[partitions]
                ]
    contests.append(_ready_batches(loads, arena))
    contests += [_consume(loads, arena, message_bytes) for message_bytes in (LARGE, SMALL)]
    contests += [_requests(loads, arena, connections) for connections in CONNECTIONS]
    contests += [_latency(loads, arena, rate) for rate in RATES]
    contests += [_partitions(loads, arena, partitions) for partitions in PARTITION_CURVE]
    contests.append(_performance_test(loads, arena))
    return contests


def both(run: Callable[[str], Run]) -> dict[str, Callable[[], Run]]:
    """The same for each system."""
    return {system: partial(run, system) for system in (HIGHTIDE, KAFKA)}


def spoken(message_bytes: int) -> str:
    """Of messages that size."""
    return "1 KiB" if message_bytes == LARGE else f"{message_bytes} B"


def _produce(loads: Loads, arena: Arena, message_bytes: int, codec: str, partitions: int, acks: str) -> Contest:
    amount = loads.effort.amount
    work = Produce(
        amount(MESSAGES[message_bytes, codec]), message_bytes, acks, codec, partitions,
        warmup_messages=amount(WARMUP_MESSAGES, at_least=500),
    )  # fmt: skip
    plural = "s" if partitions > 1 else ""
    title = f"produce {spoken(message_bytes)}, {codec}, acks={acks}, {partitions} partition{plural}"
    runners = both(lambda system: loads.produce(arena, system, work))
    is_plain = codec == "none"
    if message_bytes == LARGE:
        lines = [
            Line(title, "mb_s", "MB/s", goal=Goal(3.0, at_least=True) if is_plain else None, alone=WRITE_ALONE),
            Line(
                f"{title}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB",
                goal=Goal(0.2, at_least=False) if is_plain else None, alone=WRITE_ALONE,
            ),
        ]  # fmt: skip
        if is_plain and partitions == 1:
            own_goal = Goal(0.45, at_least=False)
            lines.append(
                Line(f"{title}: {CPU_PER_MB}, itself", "cpu_ms_mb", "ms/MB", (HIGHTIDE, None), goal=own_goal)
            )  # fmt: skip
            lines.append(Line(f"{title}: memory", "rss_mb", "MB", plotted=False, is_timed=False))
    else:
        lines = [
            Line(
                title, "messages_s", "messages/s",
                goal=Goal(1.2, at_least=True) if is_plain else None, alone=WRITE_ALONE,
            ),
            Line(f"{title}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB"),
        ]  # fmt: skip
    if is_plain:
        runners = {**runners, WRITING: loads.writing}
    if is_plain or (partitions == 1 and acks == "1"):
        runners = {**runners, MOCK: lambda: loads.mock(work)}
    if partitions == 1 and acks == "1":
        figure, unit = ("mb_s", "MB/s") if message_bytes == LARGE else ("messages_s", "messages/s")
        ceiling_goal = Goal(0.95, at_least=True) if message_bytes == SMALL and is_plain else None
        of_ceiling = f"{title}: of the client's ceiling"
        lines.append(Line(of_ceiling, figure, unit, (HIGHTIDE, MOCK), ceiling_goal, plotted=False))
        lines.append(Line(of_ceiling, figure, unit, (KAFKA, MOCK), plotted=False))
    return Contest("produce", title, runners, lines)


def _ready_batches(loads: Loads, arena: Arena) -> Contest:
    count = loads.effort.amount(READY_BATCHES, at_least=20)
    title = f"produce {spoken(LARGE)}, batches ready-made, {READY_CONNECTIONS} connections"
    lines = [
        Line(title, "mb_s", "MB/s", plotted=False),
        Line(f"{title}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB", plotted=False),
        Line(f"{title}: the client's CPU per MB", "client_ms_mb", "ms/MB", plotted=False),
    ]
    batch = READY_RECORDS, LARGE
    runners = both(lambda system: loads.ready_batches(arena, system, READY_CONNECTIONS, count, batch))
    return Contest("produce", title, runners, lines)


def _consume(loads: Loads, arena: Arena, message_bytes: int) -> Contest:
    amount = loads.effort.amount
    messages = amount(800_000 if message_bytes == LARGE else 3_000_000)
    work = Produce(messages, message_bytes, "1", warmup_messages=0)
    title = f"consume {spoken(message_bytes)}"
    is_large = message_bytes == LARGE
    figure, unit = ("mb_s", "MB/s") if is_large else ("messages_s", "messages/s")
    lines = [
        Line(
            title, figure, unit,
            goal=Goal(1.5, at_least=True) if is_large else None, alone=SEND_ALONE, client_cores=READER_CORES,
        ),
        Line(
            f"{title}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB",
            goal=Goal(0.35, at_least=False) if is_large else None, alone=SEND_ALONE,
        ),
    ]  # fmt: skip
    runners = both(lambda system: loads.consume(arena, system, work))
    return Contest("consume", title, {**runners, SENDING: loads.sending}, lines)


def _requests(loads: Loads, arena: Arena, connections: int) -> Contest:
    count = loads.effort.amount(REQUESTS.get(connections, REQUESTS_OF_MANY), at_least=100)
    plural = "s" if connections > 1 else ""
    title = f"one-record requests, {connections} connection{plural}"
    point = Point("connections", connections)
    lines = [
        Line(
            title, "requests_s", "requests/s", goal=REQUEST_GOALS.get(connections), alone=ECHO_ALONE, point=point
        ),
        Line(f"{title}: {CPU_PER_REQUEST}", "cpu_us", "us", point=point),
        Line(f"{title}: p50", "p50_us", "us", plotted=connections == 1),
        Line(f"{title}: p99", "p99_us", "us", plotted=connections == 1, spread_max=TAIL_SPREAD_MAX),
    ]  # fmt: skip
    runners = both(lambda system: loads.one_record_requests(arena, system, connections, count))
    runners[ECHO] = lambda: loads.echo(connections, count)
    return Contest("requests" if connections in (1, 50, 500) else "connections", title, runners, lines)


def latency_lines(
    title: str, p50_goal: float | None, p99_goal: float | None, pair: tuple[str, str] = (HIGHTIDE, KAFKA)
) -> list[Line]:
    """What the runs at a fixed rate tell; goals are held against the client alone, who must run in the contest."""

    def line(percentile: str, limit: float | None, spread_max: float) -> Line:
        figure = f"produce_{percentile}_us"
        goal = None if limit is None else Goal(limit, at_least=False)
        alone = WorkAlone(MOCK, figure, "the client alone")
        return Line(f"{title}: produce {percentile}", figure, "us", pair, goal, alone, spread_max=spread_max)

    return [
        line("p50", p50_goal, SPREAD_MAX),
        line("p99", p99_goal, TAIL_SPREAD_MAX),
        Line(f"{title}: end-to-end p50", "end_to_end_p50_us", "us", pair),
        Line(f"{title}: end-to-end p99", "end_to_end_p99_us", "us", pair, spread_max=TAIL_SPREAD_MAX),
    ]


def _latency(loads: Loads, arena: Arena, rate: int) -> Contest:
    title = f"latency at {rate:,} messages/s"
    runners = both(lambda system: loads.latency(arena, system, rate, "all"))
    runners[MOCK] = lambda: loads.mock_latency(rate, "all")
    lines = latency_lines(title, 0.5, 0.5)
    beside_client = f"{title}: produce p50, to the client alone"
    lines += [
        Line(beside_client, "produce_p50_us", "us", (system, MOCK), plotted=False) for system in (HIGHTIDE, KAFKA)
    ]
    return Contest("latency", title, runners, lines)


def _partitions(loads: Loads, arena: Arena, partitions: int) -> Contest:
    amount = loads.effort.amount
    work = Produce(
        amount(CURVE_MESSAGES), LARGE, "all", partitions=partitions, batch_messages=BATCH_MESSAGES,
        warmup_messages=max(amount(WARMUP_MESSAGES, at_least=500), partitions * FIRST_BATCHES * BATCH_MESSAGES),
    )  # fmt: skip
    plural = "s" if partitions > 1 else ""
    title = f"produce in batches of 16 KiB, {partitions:,} partition{plural}"
    point = Point("partitions", partitions)
    lines = [
        Line(title, "mb_s", "MB/s", point=point),
        Line(f"{title}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB", point=point),
        Line(f"{title}: memory", "rss_mb", "MB", plotted=False, is_timed=False),
    ]
    return Contest("partitions", title, both(lambda system: loads.produce(arena, system, work)), lines)


def _performance_test(loads: Loads, arena: Arena) -> Contest:
    records = loads.effort.amount(500_000, at_least=100)
    title = f"kafka-producer-perf-test {spoken(LARGE)}"
    lines = [
        Line(title, "mb_s", "MB/s"),
        Line(f"{title}: {CPU_PER_MB}", "cpu_ms_mb", "ms/MB"),
        Line(f"{title}: p99", "p99_us", "us", spread_max=TAIL_SPREAD_MAX, plotted=False),
    ]
    runners = both(lambda system: loads.performance_test(arena, system, records, LARGE))
    return Contest("perf-test", title, runners, lines)
