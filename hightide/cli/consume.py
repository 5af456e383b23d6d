"""`hightide consume`: print records of a topic, from anywhere to anywhere."""

import os
import sys
import time
from contextlib import aclosing
from typing import Annotated

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT, Bootstrap, Timeout
from hightide.cli.output import Format
from hightide.cli.progress import Advance, progress
from hightide.cli.ranges import OffsetRange, parse_range, resolve
from hightide.cli.record_format import Printer, heading_of, printer_of
from hightide.cli.session import existing_topic, visit
from hightide.client.cluster import Cluster
from hightide.client.consumer import Consumer
from hightide.client.metadata import Topic
from hightide.types import TopicPartition


def add_to(application: typer.Typer) -> None:
    """Make it part of the command line."""
    application.command("consume")(consume)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic by name.")],
    offsets: Annotated[
        str,
        typer.Option("--offsets", metavar="FROM:TO", help="start, end, an offset, -N, @-1h, @2026-07-28T12:00."),
    ] = "start:end",
    follow: Annotated[bool, typer.Option("--follow", help="Go on when the end is reached.")] = False,
    partitions: Annotated[
        str | None, typer.Option("-p", "--partitions", metavar="0,1,…", help="Only these partitions.")
    ] = None,
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after this many records.")] = None,
    text: Annotated[
        str | None,
        typer.Option("-f", "--format", metavar="FORMAT", help="%t %p %o %T %k %v %h %K %V, as kcat; default %v\\n."),
    ] = None,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Only records of committed transactions.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Annotated[
        Format | None, typer.Option("-o", "--output", help="Whole records instead of values; JSON one per line.")
    ] = None,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Print records. Ends at the end of the log unless --follow or `--offsets FROM:` says otherwise."""
    try:
        wanted = parse_range(offsets, time.time_ns() // 1_000_000)
        printer = printer_of(output, text)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    if follow:
        wanted = OffsetRange(wanted.first, None)

    async def work(cluster: Cluster) -> None:
        chosen = _chosen(await existing_topic(cluster, topic), partitions)
        ranges = await resolve(cluster, chosen, wanted, read_committed=read_committed)
        total = sum((part.end or part.start) - part.start for part in ranges.values())
        consumer = Consumer(cluster, ranges, read_committed=read_committed)
        sys.stdout.buffer.write(heading_of(output))
        known = None if wanted.last is None else total
        with progress(f"reading {topic}", known, undisturbed=not sys.stdout.isatty()) as advance:
            await _print(consumer, printer, count, advance)

    visit(bootstrap, timeout, work)


async def _print(consumer: Consumer, printer: Printer, count: int | None, advance: Advance) -> None:
    left = count
    async with aclosing(consumer.batches()) as batches:
        async for records in batches:
            wanted = records if left is None else records[:left]
            if not _write(b"".join(map(printer, wanted))):
                return
            advance(len(wanted))
            if left is not None:
                left -= len(wanted)
                if not left:
                    return


def _write(content: bytes) -> bool:
    """Print; False when whoever reads our output has seen enough, as `head` does."""
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _chosen(topic: Topic, text: str | None) -> list[TopicPartition]:
    if text is None:
        return [TopicPartition(topic.name, number) for number in topic.partitions]
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise CommandError(f"{text!r} is not a list of partitions such as 0,1,2", ExitCode.USAGE) from None
    return [TopicPartition(topic.name, topic.partition(number).number) for number in numbers]
