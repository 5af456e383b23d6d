"""Producers that go on through any number of crashes, each in its own thread, and tell a history what they know."""

import threading
from random import Random
from typing import Any

from confluent_kafka import KafkaError, Producer

from hightide.errors import ErrorCode
from hightide.wire.messages.init_producer_id import InitProducerIdRequest
from tests.chaos.history import History
from tests.chaos.raw_client import RawClient
from tests.requests import batch, produce_batch

PAUSE_SECONDS = 0.01  # before another attempt to reach a broker that is down
VALUE_BYTES_MAX = 6000  # segments roll during a run
# What a client may be told while a broker comes up: it asks again.
TRY_AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT,
}  # fmt: skip


class LoadThread:
    """Base of a producer: `run` until `stopping`."""

    def __init__(self, name: str, port: int, topic: str, partitions: int, history: History, seed: object) -> None:
        self.name = name
        self.port = port
        self.topic = topic
        self.partitions = partitions
        self.history = history
        self.random = Random(f"{seed}:{name}")
        self.stopping = threading.Event()
        self._number = 0
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it and wait; what it has not been told about stays unknown."""
        self.stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.history.failed(f"{self.name} ended: {error!r}")

    def run(self) -> None:
        raise NotImplementedError

    def new_value(self) -> bytes:
        self._number += 1
        value = b"%s-%d-" % (self.name.encode(), self._number) + self.random.randbytes(
            self.random.choice((10, 100, 1000, VALUE_BYTES_MAX))
        )
        self.history.sending(value, self.name, self._number)
        return value


class RawProducer(LoadThread):
    """One record at a time on a raw connection. Idempotent: the same batch again until it is acknowledged."""

    def __init__(self, *args: Any, idempotent: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        self._idempotent = idempotent
        self._client: RawClient | None = None
        self._producer_id = -1
        self._sequences = [0] * self.partitions

    def run(self) -> None:
        while not self.stopping.is_set():
            partition = self.random.randrange(self.partitions)
            value = self.new_value()
            self._deliver(value, partition)
        if self._client is not None:
            self._client.close()

    def _deliver(self, value: bytes, partition: int) -> None:
        while not self.stopping.is_set():
            try:
                answer = self._send(value, partition)
            except OSError:
                if self._client is not None:
                    self._client.close()
                self._client = None
                if not self._idempotent:
                    return  # nobody knows: sending it again could make it appear twice
                self.stopping.wait(PAUSE_SECONDS)
                continue
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                self.history.acknowledged(value, partition, answer.base_offset)
                self._sequences[partition] += 1
                return
            if code not in TRY_AGAIN:
                self.history.failed(f"{self.name} was told {code.name} for sequence {self._sequences[partition]}")
                return
            self.stopping.wait(PAUSE_SECONDS)

    def _send(self, value: bytes, partition: int) -> Any:
        if self._client is None:
            self._client = RawClient(self.port)
        if self._idempotent and self._producer_id < 0:
            self._producer_id = self._client.call(InitProducerIdRequest(transactional_id=None), 4).producer_id
        options: dict[str, int] = {}
        if self._idempotent:
            sequence = self._sequences[partition]
            options = {"producer_id": self._producer_id, "producer_epoch": 0, "base_sequence": sequence}
        request = produce_batch(self.topic, batch([value], **options), partition)
        return self._client.call(request, 9).responses[0].partition_responses[0]


class LibrdkafkaProducer(LoadThread):
    """confluent-kafka with idempotence: batches, pipelining and retries as applications have them."""

    IN_FLIGHT = 200

    def run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{self.port}",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 50,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            },
            error_cb=self._error,
        )
        while not self.stopping.is_set():
            if len(producer) < self.IN_FLIGHT:
                value = self.new_value()
                partition = self.random.randrange(self.partitions)
                producer.produce(self.topic, value=value, partition=partition, on_delivery=self._delivered)
                producer.poll(0)
            else:
                producer.poll(0.05)
        left = producer.flush(30)
        if left:
            self.history.failed(f"{self.name} could not deliver {left} records to a broker that is up")

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.history.failed(f"{self.name}: {error}")

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.history.acknowledged(message.value(), message.partition(), message.offset())
        else:
            self.history.failed(f"{self.name} could not deliver: {error}")
