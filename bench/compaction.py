"""`python -m bench compaction`: how long the loop of a broker stands still while a log is compacted.

The broker runs in this process, on the plain event loop, so that every single callback can be timed; the helper that
compacts is a process of its own, as always. A log is filled with records of which most are replaced later, once as they
are and once compressed; then it is compacted while a producer and a consumer go on.
"""

import asyncio
import contextlib
import resource
import shutil
import time
from asyncio.events import Handle
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rich.console import Console

from bench import machine
from bench.pages import Measured, Page
from hightide.limits import MIB
from hightide.node.config import Settings
from hightide.node.node import Node
from hightide.runtime.world import RealWorld
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hightide.wire.records import Record

RESULT_NAME = "compaction"
ROUNDS = 3
LOG_BYTES, QUICK_LOG_BYTES = 1024 * MIB, 64 * MIB
GOAL_SECONDS = 0.005  # DESIGN section 2: no callback of the loop takes longer
TOPIC = "compacted"
BATCHES, RECORDS_PER_BATCH = 400, 64  # written again and again, each record with a key of its own
VALUE_BYTES = 1024
PRODUCE_SECONDS = 0.01


INTRODUCTION = f"""\
# Compaction

Written by `python -m bench compaction`: a log of 1 GiB, in records of 1 KiB of which all but the newest
{BATCHES * RECORDS_PER_BATCH} are replaced, is compacted by the helper process while the broker takes a batch of
{RECORDS_PER_BATCH} records and reads a megabyte every {PRODUCE_SECONDS * 1000:.0f} ms. Every callback of the broker's
loop is timed. A stall is a callback with everything it waited for: the disk, locks, other threads and processes. Where
the thread never waited by its own will, a stall is what it computed and how long the kernel let others go first; if the
clock went further, the host took the difference away. That is shown too, and everything beside as much time without
compaction.
"""


class Stall(NamedTuple):
    """The longest callback of a while by the clock, and the longest without what the host took away."""

    clock_seconds: float
    seconds: float
    callback: str


class Result(NamedTuple):
    """What one log showed."""

    codec: str
    log_bytes: int
    left_bytes: int
    seconds: float
    without: Stall
    during: Stall


class Call(NamedTuple):
    """One callback: by the clock, without what the host took away, and whose."""

    clock_seconds: float
    seconds: float
    callback: str


@contextlib.contextmanager
def _watched() -> Iterator[list[Call]]:
    """Time every callback of the loop."""
    found: list[Call] = []
    original: Any = Handle._run

    def timed(handle: Any) -> None:
        name = _name(handle._callback)
        (waits, runnable), began = _waited(), time.perf_counter()
        original(handle)
        seconds = time.perf_counter() - began
        if seconds > GOAL_SECONDS / 10:
            now_waits, now_runnable = _waited()
            found.append(Call(seconds, seconds if now_waits > waits else now_runnable - runnable, name))

    Handle._run = timed  # type: ignore[method-assign,assignment]
    try:
        yield found
    finally:
        Handle._run = original  # type: ignore[method-assign]


def _waited() -> tuple[int, float]:
    """How often this thread waited for something, and the seconds it ran or could have run."""
    waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    ran, queued, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return waits, (int(ran) + int(queued)) / 1e9


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        callback = task.get_coro()
    return getattr(callback, "__qualname__", repr(callback)[:100])


def _worst(found: list[Call]) -> Stall:
    worst = max(found, key=lambda call: call.seconds, default=Call(0.0, 0.0, "nothing"))
    return Stall(max((call.clock_seconds for call in found), default=0.0), worst.seconds, worst.callback)


async def _measure(directory: Path, log_bytes: int, codec: Codec) -> Result:
    loop = asyncio.get_running_loop()
    world = RealWorld(loop)
    flags = {
        "log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0", "hightide.durability": "replicated",
        "log.cleaner.enable": "false",
    }  # fmt: skip
    node = Node(world, Settings.load(None, {}, flags))
    await node.start()
    try:
        configs = {"cleanup.policy": "compact", "segment.bytes": str(128 * MIB), "min.cleanable.dirty.ratio": "0"}
        topic = CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )  # fmt: skip
        await node.create_topics(CreateTopicsRequest(topics=[topic]))
        batches = _batches(codec)
        log = node.partition(TOPIC, 0).log
        while log.size_bytes < log_bytes:
            _append(node, batches)
            await asyncio.sleep(0)
        log.roll()
        _append(node, batches)
        node.commits.dirty(node.partition(TOPIC, 0))
        while log.synced_end < log.end:
            await asyncio.sleep(0.01)
        full = log.size_bytes
        traffic = loop.create_task(_traffic(node, batches))
        began = time.monotonic()
        with _watched() as found:
            await node.housekeeping.compactions.compact_all()
        seconds = time.monotonic() - began
        during, left = _worst(found), log.size_bytes
        with _watched() as found:
            await asyncio.sleep(min(seconds, 10.0))
        traffic.cancel()
        if node.housekeeping.compactions.rounds != 1:
            raise SystemExit("the log was not compacted")
        return Result(codec.name.lower(), full, left, seconds, _worst(found), during)
    finally:
        await node.stop()
        world.compactor.close()
        world.syncer.close()


def _batches(codec: Codec) -> Iterator[bytearray]:
    random = Random(1)
    made = [
        build_batch(
            [
                Record(timestamp=1, key=b"%d" % (number * RECORDS_PER_BATCH + each), value=_value(random))
                for each in range(RECORDS_PER_BATCH)
            ],
            codec=codec,
        )
        for number in range(BATCHES)
    ]
    return cycle(made)


def _value(random: Random) -> bytes:
    return random.randbytes(VALUE_BYTES // 2).hex().encode()  # compresses to half


def _append(node: Node, batches: Iterator[bytearray]) -> None:
    batch = bytearray(next(batches))
    node.partition(TOPIC, 0).append(memoryview(batch), 1, node.clock.wall_ms())


async def _traffic(node: Node, batches: Iterator[bytearray]) -> None:
    """A producer, and a consumer that reads from the start again and again."""
    offset = 0
    while True:
        _append(node, batches)
        partition = node.partition(TOPIC, 0)
        read = partition.read(offset, MIB, partition.high_watermark, at_least_one=True)
        offset = 0 if read is None else read.end
        if read is not None:
            read.slice.release()
        await asyncio.sleep(PRODUCE_SECONDS)


class _Lines:
    """What is told of one codec."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        kind = "not compressed" if codec is Codec.NONE else codec.name.lower()
        self.took = Measured(f"1 GiB compacted, {kind}", "s")
        self.stall = Measured(f"the longest stall of the loop meanwhile, {kind}", "ms", GOAL_SECONDS * 1000)
        self.stall_without = Measured(f"the same without compaction, {kind}", "ms")
        self.clock = Measured(f"the longest callback with what the host took, {kind}", "ms")
        self.clock_without = Measured(f"that without compaction, {kind}", "ms")

    def add(self, result: Result, disturbance: str | None) -> None:
        self.took.add(result.seconds, disturbance)
        self.stall.add(round(result.during.seconds * 1000, 2), disturbance)
        self.stall_without.add(round(result.without.seconds * 1000, 2), disturbance)
        self.clock.add(round(result.during.clock_seconds * 1000, 2), disturbance)
        self.clock_without.add(round(result.without.clock_seconds * 1000, 2), disturbance)

    @property
    def all(self) -> list[Measured]:
        return [self.took, self.stall, self.stall_without, self.clock, self.clock_without]


def measure_compaction(console: Console, directory: Path, results: Path, load: str, *, is_quick: bool) -> bool:
    """Measure, print, write."""
    lines = [_Lines(codec) for codec in (Codec.NONE, Codec.ZSTD)]
    for _ in range(1 if is_quick else ROUNDS):
        for each in lines:
            path = directory / RESULT_NAME
            with machine.watch() as seen:
                result = asyncio.run(_measure(path, QUICK_LOG_BYTES if is_quick else LOG_BYTES, each.codec))
            shutil.rmtree(path)
            each.add(result, seen.disturbance)
            console.print(
                f"{result.codec}: {result.log_bytes / MIB:.0f} MiB became {result.left_bytes / MIB:.0f} in "
                f"{result.seconds:.1f} s; the longest stall was {result.during.callback}",
                highlight=False,
            )
    page = Page(RESULT_NAME, INTRODUCTION, [line for each in lines for line in each.all], load, {})
    page.show(console)
    if is_quick:
        console.print("One short run of each: nothing in docs/benchmarks.", highlight=False)
    else:
        page.write(results)
        console.print(f"Wrote docs/benchmarks/{RESULT_NAME}.md and .json.", highlight=False)
    return True
