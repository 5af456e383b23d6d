"""Stock consumers of three engines as members of groups: what each read, owned and committed, in one shape.

Every member runs in a thread of its own, polls, and commits what it has handled before it gives a partition away.
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer

POLL_SECONDS = 0.1
PATIENT_POLL_MS = 1500
JOIN_SECONDS = 60.0
SESSION_MS = 6000

Record = tuple[str, int, int, bytes]
"""Topic, partition, offset, value."""


class GroupMember(ABC):
    """One member: `records` grows until it is stopped. Stopping is clean: it commits and leaves the group."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, instance: str | None = None) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.instance = instance
        self.records: list[Record] = []
        self.owned: frozenset[int] = frozenset()
        self.changes: list[frozenset[int]] = []
        """Every assignment it had."""
        self.committed: dict[int, int] = {}
        self.error: BaseException | None = None
        self.changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"member-{group}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave; what went wrong is raised here."""
        self._stopping.set()
        self._thread.join(JOIN_SECONDS)
        assert not self._thread.is_alive(), "a member does not stop"
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.error = error
        self.changed.set()

    @abstractmethod
    def run(self) -> None:
        """Poll until told to stop."""

    def handled(self, record: Record) -> None:
        """A record was read."""
        self.records.append(record)
        self.committed[record[1]] = record[2] + 1
        self.changed.set()

    def assigned(self, partitions: frozenset[int]) -> None:
        """The assignment is this now."""
        if partitions != self.owned:
            self.owned = partitions
            self.changes.append(partitions)
        self.changed.set()


class ConfluentMember(GroupMember):
    """librdkafka."""

    settings: ClassVar[dict[str, Any]] = {}

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
                **({} if self.instance is None else {"group.instance.id": self.instance}),
                **self.settings,
            }
        )

        def look(client: Consumer, _: list[Any]) -> None:
            self.assigned(frozenset(partition.partition for partition in client.assignment()))

        def assign(client: Consumer, partitions: list[Any]) -> None:
            self.assigned(self.owned | {partition.partition for partition in partitions})

        def revoke(client: Consumer, partitions: list[Any]) -> None:
            self._commit(client)
            self.assigned(self.owned - {partition.partition for partition in partitions})

        def lose(client: Consumer, partitions: list[Any]) -> None:
            self.assigned(self.owned - {partition.partition for partition in partitions})

        consumer.subscribe([self.topic], on_assign=assign, on_revoke=revoke, on_lost=lose)
        try:
            while not self._stopping.is_set():
                messages = consumer.consume(500, POLL_SECONDS)
                for message in messages:
                    if message.error() is None:
                        self.handled((message.topic(), message.partition(), message.offset(), message.value()))
                if messages:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException:
            pass  # nothing to commit, or no right to: the next owner reads again


class CooperativeMember(ConfluentMember):
    """librdkafka with the cooperative assignor (KIP-429)."""

    settings: ClassVar = {"partition.assignment.strategy": "cooperative-sticky"}


class KafkaPythonMember(GroupMember):
    """kafka-python. A poll that ends in the middle of a rebalance loses its thread there (3.0): polls are longer."""

    def run(self) -> None:
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            metadata_max_age_ms=1000,
            **({} if self.instance is None else {"group_instance_id": self.instance}),
        )
        try:
            while not self._stopping.is_set():
                polled = consumer.poll(timeout_ms=PATIENT_POLL_MS)
                self.assigned(frozenset(place.partition for place in consumer.assignment()))
                for place, records in polled.items():
                    for record in records:
                        self.handled((place.topic, place.partition, record.offset, record.value))
                if polled:
                    consumer.commit()
        finally:
            consumer.close()


class AiokafkaMember(GroupMember):
    """aiokafka."""

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            group_instance_id=self.instance,
        )
        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Any) -> None:
                member.assigned(frozenset())

            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.assigned(frozenset(place.partition for place in assigned))

        consumer.subscribe([self.topic], listener=Listener())
        await consumer.start()
        try:
            while not self._stopping.is_set():
                polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
                for place, records in polled.items():
                    for record in records:
                        self.handled((place.topic, place.partition, record.offset, record.value))
                if polled:
                    await consumer.commit()
        finally:
            await consumer.stop()


ENGINES: dict[str, type[GroupMember]] = {
    "librdkafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}


def wait_until(condition: Callable[[], object], what: str, *members: GroupMember, seconds: float = 40.0) -> None:
    """Return when it is so; fail with what the members see when that takes too long."""
    deadline = time.monotonic() + seconds
    wake = threading.Event()
    while not condition():
        for member in members:
            if member.error is not None:
                raise member.error
        if time.monotonic() > deadline:
            seen = [(sorted(member.owned), len(member.records)) for member in members]
            raise AssertionError(f"not after {seconds} s: {what}; the members own and read {seen}")
        (members[0].changed if members else wake).wait(0.05)
        if members:
            members[0].changed.clear()
