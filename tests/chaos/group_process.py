"""A member of a consumer group in a process of its own, to be killed: it tells what it does, a JSON line each.

    python -m tests.chaos.group_process ENGINE BOOTSTRAP GROUP TOPIC

Every line has the machine's monotonic time, which all processes share. What was read is told before it is committed,
and what will be committed before it is: so the lines of a killed process say everything that anybody can know of it.
"""

import asyncio
import json
import signal
import sys
import time
import traceback
from typing import Any

SESSION_MS = 10_000
POLL_SECONDS = 0.2
PATIENT_POLL_MS = 1500  # kafka-python 3.0 loses its thread when a poll ends in the middle of a rebalance
RECORDS_MAX = 200


def tell(what: str, **facts: object) -> None:
    print(json.dumps({"at": time.monotonic(), "what": what, **facts}), flush=True)


class Stopping:
    """SIGTERM asks for a clean end."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.now = True


def librdkafka(bootstrap: str, group: str, topic: str) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    stopping = Stopping()
    positions: dict[int, int] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
            "socket.timeout.ms": 5000,
            "log_level": 0,
        }
    )

    def commit() -> None:
        if not positions:
            return
        offsets = dict(positions)
        tell("committing", offsets=offsets)
        try:
            consumer.commit(
                offsets=[TopicPartition(topic, part, offset) for part, offset in offsets.items()], asynchronous=False
            )
        except KafkaException as error:
            tell("refused" if not error.args[0].retriable() else "unknown", reason=str(error))
        else:
            tell("committed")
        positions.clear()

    def assigned(_: Consumer, partitions: list[Any]) -> None:
        tell("assigned", partitions=[each.partition for each in partitions])

    def revoked(_: Consumer, partitions: list[Any]) -> None:
        commit()
        tell("revoked")

    def lost(_: Consumer, partitions: list[Any]) -> None:
        positions.clear()
        tell("revoked")

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not stopping.now:
        messages = [each for each in consumer.consume(RECORDS_MAX, POLL_SECONDS) if each.error() is None]
        if messages:
            read = [(each.partition(), each.offset(), each.value().decode()) for each in messages]
            tell("read", records=read)
            for part, offset, _ in read:
                positions[part] = offset + 1
            commit()
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.errors import CommitFailedError, KafkaError

    stopping = Stopping()

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked")

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", partitions=[each.partition for each in assigned])

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=1000,
        request_timeout_ms=5_000,
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopping.now:
        polled = consumer.poll(timeout_ms=PATIENT_POLL_MS, max_records=RECORDS_MAX)
        offsets = {place.partition: records[-1].offset + 1 for place, records in polled.items() if records}
        if not offsets:
            continue
        read = [(place.partition, each.offset, each.value.decode()) for place, some in polled.items() for each in some]
        tell("read", records=read)
        tell("committing", offsets=offsets)
        try:
            consumer.commit(
                {TopicPartition(topic, part): OffsetAndMetadata(offset, "", -1) for part, offset in offsets.items()}
            )
        except CommitFailedError as error:
            tell("refused", reason=str(error))
        except KafkaError as error:
            tell("unknown", reason=str(error))
        else:
            tell("committed")
    tell("revoked")
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str) -> None:
    """Its coordination ends with a CancelledError when a task of it is cancelled before it began: an application begins
    with a new consumer, in a new loop, and so does this one."""
    stopping = Stopping()
    while not stopping.now:
        try:
            asyncio.run(_aiokafka(bootstrap, group, topic, stopping))
        except asyncio.CancelledError:
            tell("revoked")


async def _aiokafka(bootstrap: str, group: str, topic: str, stopping: Stopping) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.abc import ConsumerRebalanceListener
    from aiokafka.errors import CommitFailedError, KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked")

        async def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", partitions=[each.partition for each in assigned])

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        request_timeout_ms=5000,
        metadata_max_age_ms=1000,
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stopping.now:
        polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=RECORDS_MAX)
        offsets = {place.partition: records[-1].offset + 1 for place, records in polled.items() if records}
        if not offsets:
            continue
        tell(
            "read",
            records=[
                (place.partition, each.offset, each.value.decode())
                for place, records in polled.items()
                for each in records
            ],
        )
        tell("committing", offsets=offsets)
        try:
            await consumer.commit({TopicPartition(topic, part): offset for part, offset in offsets.items()})
        except CommitFailedError as error:
            tell("refused", reason=str(error))
        except KafkaError as error:
            tell("unknown", reason=str(error))
        else:
            tell("committed")
    tell("revoked")  # stopping gives everything up without a word
    await consumer.stop()


if __name__ == "__main__":
    engine, *where = sys.argv[1:]
    try:
        {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}[engine](*where)
    except BaseException as error:
        tell("crashed", reason=repr(error), where=traceback.format_exc())
        raise
