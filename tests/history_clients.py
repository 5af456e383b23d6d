"""Stock clients on a real cluster that tell a history what they do, each in a thread of its own.

`ConfluentLoad` and `AiokafkaLoad` send unique values, idempotent and with acks=all, through any fault; `Follower` reads
along, `Observer` asks for offsets, and `read_everything` is the final read of a fresh client. What a client cannot know
stays unknown: a delivery that failed may still have happened.

    history = History(time.monotonic)
    with ConfluentLoad(history, "confluent", bootstrap, partitions) as load, Follower(history, "follower", ...):
        load.await_more(200)
        ...  # do something terrible
    read_everything(history, bootstrap, partitions)
    assert check_all(history) == []
"""

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from hightide.sim.history.operations import Mark, Polled, Send
from hightide.sim.history.recorder import History
from hightide.types import NO_OFFSET, TopicPartition

PAUSE_SECONDS = 0.002  # between two sends: the test machine has other things to do
IN_FLIGHT_MAX = 200
KEY_BYTES_MAX = 2000  # keys are padding, so that segments roll; values stay short, because histories hold them
DELIVERY_SECONDS = 30.0
JOIN_SECONDS = 60.0
POLL_SECONDS = 0.1
POLL_RECORDS_MAX = 500
ASK_SECONDS = 2.0
CONSUMER_SETTINGS: dict[str, Any] = {
    "group.id": "unused",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 1000,
    "log_level": 0,
}


class RecordedThread(ABC):
    """Works from `with` to the end of the block; what went wrong in it is raised there."""

    def __init__(self, history: History, name: str, bootstrap: str, partitions: Sequence[TopicPartition]) -> None:
        self.history = history
        self.name = name
        self.bootstrap = bootstrap
        self.partitions = list(partitions)
        self.stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._thread.join(JOIN_SECONDS)
        if error is None:  # the block's own failure is the better story
            assert not self._thread.is_alive(), f"{self.name} does not end"
            if self._error is not None:
                raise self._error

    @property
    def is_working(self) -> bool:
        return self._thread.is_alive()

    def _guarded(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self._error = error

    @abstractmethod
    def work(self) -> None:
        """Go on until `stopping` is set."""


class RecordedLoad(RecordedThread):
    """A producer. Its `client` in the history changes with its identity, because an order holds within one only."""

    def __init__(
        self,
        history: History,
        name: str,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        *,
        pause_seconds: float = PAUSE_SECONDS,
        delivery_seconds: float = DELIVERY_SECONDS,
    ) -> None:
        super().__init__(history, name, bootstrap, partitions)
        self.pause_seconds = pause_seconds
        self.delivery_seconds = delivery_seconds
        self.acknowledged = 0
        self.is_doubtful = False  # an identity that lost a record is given up
        self._progress = threading.Condition()
        self._random = Random(name)
        self._number = 0
        self._lives = 0

    def await_more(self, count: int, seconds: float = 60.0) -> None:
        """Return when that many more records were acknowledged."""
        with self._progress:
            wanted = self.acknowledged + count
            enough = self._progress.wait_for(lambda: self.acknowledged >= wanted or not self.is_working, seconds)
        assert self.is_working, f"{self.name} ended: {self._error!r}"
        assert enough, f"{self.name} got {self.acknowledged} of {wanted} acknowledgements in {seconds} s"

    def begin_life(self) -> str:
        """The client's name in the history, from now on."""
        self._lives += 1
        self.is_doubtful = False
        return self.name if self._lives == 1 else f"{self.name}#{self._lives}"

    def begin_send(self, client: str) -> tuple[Send, bytes, bytes]:
        """A new value for some partition: the operation, the value, a key."""
        self._number += 1
        value = f"{self.name}-{self._number}".encode()
        send = self.history.begin_send(client, self._random.choice(self.partitions), value)
        return send, value, self._random.randbytes(self._random.randrange(KEY_BYTES_MAX))

    def succeeded(self, send: Send, offset: int | None) -> None:
        self.history.acknowledged(send, NO_OFFSET if offset is None or offset < 0 else offset)
        with self._progress:
            self.acknowledged += 1
            self._progress.notify_all()

    def doubt(self, send: Send, reason: object) -> None:
        self.is_doubtful = True
        self.history.unknown(send, str(reason))


class _EpochBumps(logging.Handler):
    """Prints why librdkafka began another producer epoch: what it had under way then may be written twice by it."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "epoch bump" in message or "ERRSEQ" in message:
            print(f"{time.monotonic():.3f} {message}", flush=True)


class ConfluentLoad(RecordedLoad):
    """librdkafka: batches, pipelining and retries as applications have them.

    A record whose time is up makes it begin another producer epoch, in which it sends all others again that were under
    way, also those that were written: from then on their one copy is nobody's promise.
    """

    def work(self) -> None:
        while not self.stopping.is_set():
            self._live(self.begin_life())

    def _live(self, client: str) -> None:
        bumps = logging.getLogger(f"{__name__}.{client}")
        bumps.setLevel(logging.DEBUG)
        bumps.propagate = False
        bumps.addHandler(_EpochBumps())
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": int(self.delivery_seconds * 1000),
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.interval.ms": 1000,
                "debug": "eos",
                "log_level": 7,  # syslog's debug
            },
            logger=bumps,
        )
        while not (self.stopping.is_set() or self.is_doubtful):
            if len(producer) >= IN_FLIGHT_MAX:
                producer.poll(POLL_SECONDS)
                continue
            send, value, key = self.begin_send(client)
            topic, partition = send.partition
            delivered = partial(self._delivered, send)
            producer.produce(topic, value=value, key=key, partition=partition, on_delivery=delivered)
            producer.poll(self.pause_seconds)
        producer.flush(self.delivery_seconds + 5)

    def _delivered(self, send: Send, error: KafkaError | None, message: Any) -> None:
        if self.is_doubtful:
            send.idempotent = False
        if error is None:
            self.succeeded(send, message.offset())
        else:
            self.doubt(send, error)


class AiokafkaLoad(RecordedLoad):
    """aiokafka: one batch under way per partition, retried for ever."""

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        while not self.stopping.is_set():
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                enable_idempotence=True,
                acks="all",
                linger_ms=2,
                retry_backoff_ms=20,
                metadata_max_age_ms=1000,
                request_timeout_ms=int(self.delivery_seconds * 1000),
            )
            try:
                await producer.start()
            except AiokafkaError:  # no broker is up
                await producer.stop()
                await asyncio.sleep(POLL_SECONDS)
                continue
            await self._live(self.begin_life(), producer)

    async def _live(self, client: str, producer: Any) -> None:
        room = asyncio.Semaphore(IN_FLIGHT_MAX)
        while not (self.stopping.is_set() or self.is_doubtful):
            await room.acquire()
            send, value, key = self.begin_send(client)
            topic, partition = send.partition
            try:
                future = await producer.send(topic, value=value, key=key, partition=partition)
            except AiokafkaError as error:
                room.release()
                self.history.failed(send, repr(error))  # it was never queued
                await asyncio.sleep(POLL_SECONDS)
                continue
            future.add_done_callback(partial(self._delivered, send, room))
            await asyncio.sleep(self.pause_seconds)
        try:
            await asyncio.wait_for(producer.stop(), self.delivery_seconds + 5)  # flushes
        except (TimeoutError, AiokafkaError):
            self.is_doubtful = True

    def _delivered(self, send: Send, room: asyncio.Semaphore, future: "asyncio.Future[Any]") -> None:
        room.release()
        if future.cancelled() or future.exception() is not None:
            self.doubt(send, "cancelled" if future.cancelled() else repr(future.exception()))
        else:
            told = future.result()
            # A duplicate too old for the broker to know its place has no log start, and an offset that is made up.
            self.succeeded(send, told.offset if told.log_start_offset != -1 else None)


class Follower(RecordedThread):
    """Reads all partitions from the start, as they grow, and never jumps."""

    def work(self) -> None:
        consumer = Consumer({**CONSUMER_SETTINGS, "bootstrap.servers": self.bootstrap})
        try:
            self.history.positioned(self.name, dict.fromkeys(self.partitions, 0))
            consumer.assign([ConfluentPartition(*partition, 0) for partition in self.partitions])
            while not self.stopping.is_set():
                poll(self.history, self.name, consumer)
        finally:
            consumer.close()


class Observer(RecordedThread):
    """Asks for the first and the latest offset of every partition, over and over."""

    def work(self) -> None:
        consumer = Consumer({**CONSUMER_SETTINGS, "bootstrap.servers": self.bootstrap})
        try:
            while not self.stopping.wait(POLL_SECONDS):
                for partition in self.partitions:
                    ask_offsets(self.history, self.name, consumer, partition)
        finally:
            consumer.close()


def poll(history: History, client: str, consumer: Any) -> dict[TopicPartition, int]:
    """One poll, recorded; the partitions whose end it reached, with that end (if the consumer was told to say so)."""
    operation = history.begin_poll(client)
    records: list[Polled] = []
    ends: dict[TopicPartition, int] = {}
    for message in consumer.consume(POLL_RECORDS_MAX, POLL_SECONDS):
        error = message.error()
        if error is None:
            partition = TopicPartition(message.topic(), message.partition())
            records.append(Polled(partition, message.offset(), message.value()))
        elif error.code() == KafkaError._PARTITION_EOF:
            ends[TopicPartition(message.topic(), message.partition())] = message.offset()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # a log that ends before what was read of it
            raise AssertionError(f"{client} stands where no log is: {error}")
    history.polled(operation, records)
    return ends


def ask_offsets(history: History, client: str, consumer: Any, partition: TopicPartition) -> tuple[int, int] | None:
    """The first and the latest offset, recorded; None when no leader answers."""
    asked = history.moment()
    try:
        start, end = consumer.get_watermark_offsets(ConfluentPartition(*partition), timeout=ASK_SECONDS, cached=False)
    except KafkaException:
        return None
    history.observed(client, partition, Mark.LOG_START, start, asked=asked)
    history.observed(client, partition, Mark.LATEST, end, asked=asked)
    return start, end


def read_everything(
    history: History,
    bootstrap: str,
    partitions: Sequence[TopicPartition],
    *,
    client: str = "final",
    seconds: float = 60.0,
) -> None:
    """The final read: a fresh client, from the first to the latest offset of each. Call it when all is healed."""
    deadline = time.monotonic() + seconds
    read = history.begin_final_read(client, partitions)
    consumer = Consumer({**CONSUMER_SETTINGS, "bootstrap.servers": bootstrap, "enable.partition.eof": True})
    try:
        missing: dict[TopicPartition, int] = {}
        starts = []
        for partition in partitions:
            while (bounds := ask_offsets(history, client, consumer, partition)) is None:
                assert time.monotonic() < deadline, f"{partition} has no leader after {seconds} s"
            starts.append(ConfluentPartition(*partition, bounds[0]))
            missing[partition] = bounds[1]
        consumer.assign(starts)
        while missing:
            assert time.monotonic() < deadline, f"not read to the end in {seconds} s: {missing}"
            for partition, end in poll(history, client, consumer).items():
                if end >= missing.get(partition, end + 1):
                    del missing[partition]
    finally:
        consumer.close()
    history.caught_up(read)


def record_log(history: History, process: str, path: Path) -> None:
    """Everything that a process wrote."""
    history.logged(process, path.read_text("utf-8", "replace"))
