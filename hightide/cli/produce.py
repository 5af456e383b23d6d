"""`hightide produce`: send values from the command line, or lines from standard input."""

import asyncio
import os
import random
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from hightide.cli.failures import CommandError, ExitCode, failure_of, unknown_topic
from hightide.cli.lines import read_lines
from hightide.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT, Bootstrap, Output, Timeout
from hightide.cli.output import Format, Table, say, show
from hightide.cli.progress import progress
from hightide.cli.session import visit
from hightide.client.cluster import Cluster
from hightide.client.outbox import Delivered
from hightide.client.producer import Producer
from hightide.client.retries import RetryPolicy, retry
from hightide.errors import ApiError, ErrorCode
from hightide.wire.compression import Codec

STDIN = 0
CREATION_SECONDS = 5.0  # how long a broker may take to create a topic by itself before we believe that it does not


class Acks(StrEnum):
    """Who must have a record before it counts as sent."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Compression(StrEnum):
    """The codecs."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Shape(NamedTuple):
    """How a line becomes a record."""

    key: bytes | None
    key_delimiter: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    partition: int | None
    empty_is_null: bool

    def split(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value of a line."""
        key, value = self.key, line
        if self.key_delimiter:
            head, found, tail = line.partition(self.key_delimiter)
            if found:
                key, value = head, tail
        if self.empty_is_null:
            return key or None, value or None
        return key, value


class Tally:
    """What was kept, per partition, and the first thing that went wrong."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed = 0
        self.error: ApiError | None = None
        self.ranges: dict[int, list[int]] = {}

    def note(self, future: "asyncio.Future[Delivered]") -> None:
        """One record's fate is known."""
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self.failed += 1
            self.error = self.error or (error if isinstance(error, ApiError) else None)
            return
        delivered = future.result()
        self.sent += 1
        known = self.ranges.setdefault(delivered.partition, [0, delivered.offset, delivered.offset])
        known[0] += 1
        known[1], known[2] = min(known[1], delivered.offset), max(known[2], delivered.offset)


def add_to(application: typer.Typer) -> None:
    """Make it part of the command line."""
    application.command("produce")(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic by name.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE…]", help="Values; without any, lines from standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="The key of every record.")] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("-K", "--key-delimiter", help="What ends the key at the head of a line.")
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option("-p", "--partition", min=0, help="Instead of the key's.")] = None,
    empty_is_null: Annotated[
        bool, typer.Option("-Z", "--empty-is-null", help="Empty keys and values are null; a null value is a tombstone.")
    ] = False,
    compression: Annotated[Compression, typer.Option("-z", "--compression", help="The codec.")] = Compression.NONE,
    acks: Annotated[Acks, typer.Option("--acks", help="Who must have it: all in-sync, the leader, nobody.")] = Acks.ALL,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Send records. Keys choose the partition as in the Java client; with --acks all nothing is sent twice."""
    delimiter = _unescaped(key_delimiter) if key_delimiter else None
    parsed = [_header(text) for text in headers or ()]
    shape = Shape(key.encode() if key is not None else None, delimiter, parsed, partition, empty_is_null)

    async def work(cluster: Cluster) -> Tally:
        await _ensure_topic(cluster, topic)
        producer = Producer(
            cluster,
            acks=-1 if acks is Acks.ALL else int(acks),
            codec=Codec[compression.name],
            idempotent=acks is Acks.ALL,
            delivery_timeout=timeout,
            sticky_start=random.randrange(1 << 16),
        )
        tally = Tally()
        given = _given(values) if values else read_lines(STDIN)
        undisturbed = not (values or sys.stdin.isatty())
        with progress(f"sending to {topic}", _input_bytes(), undisturbed=undisturbed) as advance:
            try:
                async for lines in given:
                    await _send(producer, topic, shape, lines, tally)
                    advance(sum(map(len, lines)) + len(lines))
                    if tally.failed:
                        break
            finally:
                await producer.close()
        return tally

    tally = visit(bootstrap, timeout, work)
    _show(topic, output, tally)


async def _send(producer: Producer, topic: str, shape: Shape, lines: Sequence[bytes], tally: Tally) -> None:
    for line in lines:
        key, value = shape.split(line)
        future = await producer.send(topic, value, key=key, headers=shape.headers, partition=shape.partition)
        future.add_done_callback(tally.note)


async def _given(values: Sequence[str]) -> AsyncIterator[list[bytes]]:
    yield [os.fsencode(value) for value in values]


async def _ensure_topic(cluster: Cluster, name: str) -> None:
    """Kafka's brokers create a missing topic for a producer, if they are so configured; say so when it happens."""

    async def created() -> None:
        await cluster.topic(name)

    try:
        await cluster.topic(name)
        return
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    missing = unknown_topic(name, sorted((await cluster.all_topics()).topics))
    await cluster.create_implicitly(name)
    try:
        await retry(cluster.clock, RetryPolicy(give_up_after=CREATION_SECONDS), created, cluster.heard)
    except ApiError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise missing from None
        raise
    say(f"topic {name!r} did not exist: the broker created it")


def _show(topic: str, output: Format, tally: Tally) -> None:
    ranges = sorted(tally.ranges.items())
    show(
        output,
        document={
            "topic": topic,
            "records": tally.sent,
            "failed": tally.failed,
            "partitions": [
                {"partition": partition, "records": records, "first_offset": first, "last_offset": last}
                for partition, (records, first, last) in ranges
            ],
        },
        names=[f"{topic}-{partition}" for partition, _ in ranges],
        tables=lambda: [
            Table(
                ["PARTITION", "RECORDS", "FIRST OFFSET", "LAST OFFSET"],
                [[partition, *known] for partition, known in ranges],
            )
        ],
    )
    if tally.failed:
        reason = failure_of(tally.error) if tally.error else CommandError("records could not be sent")
        raise CommandError(f"{tally.failed} records were not kept: {reason.sentence}", reason.code, reason.hint)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise CommandError(f"{text!r} is not a header; write NAME=VALUE", ExitCode.USAGE)
    return name, os.fsencode(value) if equals else None


def _unescaped(text: str) -> bytes:
    return text.replace("\\t", "\t").replace("\\n", "\n").encode()


def _input_bytes() -> int | None:
    """How much is to be read, when standard input is a file."""
    status = os.fstat(sys.stdin.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None
