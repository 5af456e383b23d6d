"""A stock producer that sends at a steady pace and remembers when it was told of each record: what a user notices."""

import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Producer

from bench.programs import FailedError

INTERVAL_SECONDS = 0.005
VALUE = b"v" * 100
DELIVERY_SECONDS = 60.0
POLL_SECONDS = 0.001


class SteadyProducer:
    """librdkafka as it is configured by default, with acks=all and idempotence, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._told: list[float] = []
        self._errors: list[KafkaError] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._work, name="steady producer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.await_told(20)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(DELIVERY_SECONDS)
        if error is None and self._errors:
            raise FailedError(f"the producer lost {len(self._errors)} records: {self._errors[0]}")

    def await_told(self, count: int, seconds: float = DELIVERY_SECONDS) -> None:
        """Wait until that many more records were acknowledged."""
        wanted = len(self._told) + count
        deadline = time.monotonic() + seconds
        while len(self._told) < wanted:
            if time.monotonic() > deadline or self._errors:
                raise FailedError(f"records are not acknowledged any more: {self._errors[:1]}")
            time.sleep(POLL_SECONDS)

    def longest_silence(self, since: float) -> float:
        """The longest time without an acknowledgement that ended after `since`."""
        return max(later - earlier for earlier, later in pairwise(self._told) if later > since)

    def _work(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            self._producer.produce(self._topic, VALUE, partition=0, on_delivery=self._delivered)
            due += INTERVAL_SECONDS
            self._producer.poll(max(0.0, due - time.monotonic()))
        self._producer.flush(DELIVERY_SECONDS)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is None:
            self._told.append(time.monotonic())
        else:
            self._errors.append(error)
