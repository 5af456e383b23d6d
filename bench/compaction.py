"""How long the loop of a broker stands still while a log is compacted: `python -m bench.compaction [--gib 1]`.

The broker runs in this process, on the plain event loop, so that every single callback can be timed; the helper that
compacts is a process of its own, as always. A log is filled with records of which most are replaced later, once with
values that do not compress and once compressed; then it is compacted while a producer and a consumer go on. The figure
is the longest callback, by name, beside the longest in as much time without compaction: a machine that is busy with
something else shows in both. The goal is 5 ms (DESIGN section 2).
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import time
from asyncio.events import Handle
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from hightide.limits import MIB
from hightide.node.config import Settings
from hightide.node.node import Node
from hightide.runtime.world import RealWorld
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hightide.wire.records import Record

GOAL_SECONDS = 0.005
TOPIC = "compacted"
BATCHES, RECORDS_PER_BATCH = 400, 64  # written again and again, each record with a key of its own
VALUE_BYTES = 1024
PRODUCE_SECONDS = 0.01


class Stall(NamedTuple):
    """The longest callback of a while, how many were longer than the goal, and the most that one computed.

    The last tells a busy machine from a busy loop: time in which the processor did something else is not in it.
    """

    seconds: float
    callback: str
    too_long: int
    processor_seconds: float


class Result(NamedTuple):
    """What one log showed."""

    codec: str
    log_bytes: int
    left_bytes: int
    seconds: float
    before: Stall
    during: Stall


Call = tuple[float, float, str]  # seconds, processor seconds, whose


@contextlib.contextmanager
def _watched() -> Iterator[list[Call]]:
    """Time every callback of the loop."""
    found: list[Call] = []
    original: Any = Handle._run

    def timed(handle: Any) -> None:
        name = _name(handle._callback)
        began, processor = time.perf_counter(), time.thread_time()
        original(handle)
        seconds = time.perf_counter() - began
        if seconds > GOAL_SECONDS / 10:
            found.append((seconds, time.thread_time() - processor, name))

    Handle._run = timed  # type: ignore[method-assign,assignment]
    try:
        yield found
    finally:
        Handle._run = original  # type: ignore[method-assign]


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        callback = task.get_coro()
    return getattr(callback, "__qualname__", repr(callback)[:100])


def _worst(found: list[Call]) -> Stall:
    seconds, _, callback = max(found, default=(0.0, 0.0, "nothing"))
    too_long = sum(each > GOAL_SECONDS for each, _, _ in found)
    return Stall(seconds, callback, too_long, max((processor for _, processor, _ in found), default=0.0))


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


def measure(directory: Path, gibibytes: float) -> list[Result]:
    """Fill and compact a log per codec."""
    results = []
    for codec in (Codec.NONE, Codec.ZSTD):
        path = directory / codec.name.lower()
        shutil.rmtree(path, ignore_errors=True)
        try:
            results.append(asyncio.run(_measure(path, int(gibibytes * 1024 * MIB), codec)))
        finally:
            shutil.rmtree(path, ignore_errors=True)
    return results


def main() -> int:
    """Measure and print; 1 when the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gib", type=float, default=1.0, help="how large the log is")
    parser.add_argument("--dir", type=Path, default=Path(".bench/compaction"), help="where it is")
    options = parser.parse_args()
    fine = True
    for result in measure(options.dir, options.gib):
        fine &= result.during.seconds <= GOAL_SECONDS
        print(
            f"{result.codec}: {result.log_bytes / MIB:.0f} MiB became {result.left_bytes / MIB:.0f} in "
            f"{result.seconds:.1f} s; longest callback {result.during.seconds * 1000:.2f} ms "
            f"({result.during.too_long} above 5 ms), "
            f"without compaction {result.before.seconds * 1000:.2f} ms ({result.before.too_long})"
        )
        print(
            f"  it was {result.during.callback}; the most that one callback computed: "
            f"{result.during.processor_seconds * 1000:.2f} ms, without {result.before.processor_seconds * 1000:.2f} ms"
        )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
