"""Producers with unique values: idempotent, one record under way each, retried until it is answered for good."""

from random import Random
from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.sim.level0.network import Connection, Stream
from hightide.sim.level0.partition_replica import Key

if TYPE_CHECKING:
    from hightide.sim.level0.partitions import PartitionWorld

FIRST_NODE = 201
REQUEST_SECONDS = 3.0
BACKOFF_SECONDS = 0.1


class SimulatedProducer:
    """One producer of one partition. With acks=1 it goes on after the first answer, whatever becomes of the record."""

    def __init__(self, world: "PartitionWorld", number: int, key: Key, *, acks_all: bool, pause: float) -> None:
        self._world = world
        self._node = FIRST_NODE + number
        self._random: Random = world.kernel.stream(f"producer {number}")
        self._connection: Connection | None = None
        self._leader = -1
        self._attempt = 0
        self._pause = pause
        self.number = number
        self.key = key
        self.acks_all = acks_all
        self.sequence = 0
        self.is_stopped = False
        self.is_waiting = False
        """Whether a record was sent and is not answered for good."""

    def start(self) -> None:
        """Send records from now on."""
        self._world.kernel.after(self._pause * self._random.random(), self._next)

    def stop(self) -> None:
        """Send no new record; the one under way is still retried."""
        self.is_stopped = True

    def _next(self) -> None:
        if self.is_stopped:
            return
        self.is_waiting = True
        self._send()

    def _send(self) -> None:
        world = self._world
        if self._leader < 0:
            partition = world.controllers.image.partition(*self.key)
            if partition is None:  # its topic was deleted
                self.is_stopped, self.is_waiting = True, False
                return
            self._leader = partition.leader
        self._attempt += 1
        if self._leader < 0:
            world.kernel.after(BACKOFF_SECONDS, self._retry, self._attempt)
            return
        if self._connection is None or not self._connection.is_open:
            self._connection = world.network.connect(self._node, self._leader)
        world.network.send(
            self._connection.request, world.produce_asked, self._leader, self, self._attempt, self.sequence,
            self._connection.response,
        )  # fmt: skip
        world.kernel.after(REQUEST_SECONDS, self._retry, self._attempt)

    def _retry(self, attempt: int) -> None:
        """No answer, or one that says to look again: another connection, by the newest metadata."""
        if attempt == self._attempt and self.is_waiting:
            if self._connection is not None:
                self._world.network.close(self._connection)
                self._connection = None
            self._leader = -1
            self._send()

    def answered(self, attempt: int, error: ErrorCode) -> None:
        """A broker answered; a late answer to an earlier attempt tells nothing any more."""
        if attempt != self._attempt or not self.is_waiting:
            return
        if error is ErrorCode.NONE:
            self.is_waiting = False
            self.sequence += 1
            self._world.kernel.after(self._pause * (0.5 + self._random.random()), self._next)
        elif error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (not self.acks_all or self._world.allows_loss):
            # What was answered is gone, as it may be: begin again as another producer.
            self.number, self.sequence = self._world.next_producer_number(), 0
            self._world.kernel.after(BACKOFF_SECONDS, self._retry, attempt)
        else:
            self._world.kernel.after(BACKOFF_SECONDS * (0.5 + self._random.random()), self._retry, attempt)


class Answerer:
    """The way of one answer back to its producer."""

    __slots__ = ("_attempt", "_producer", "_stream", "_world")

    def __init__(self, world: "PartitionWorld", producer: SimulatedProducer, attempt: int, stream: Stream) -> None:
        self._world = world
        self._producer = producer
        self._attempt = attempt
        self._stream = stream

    def __call__(self, error: ErrorCode) -> None:
        """Send the answer."""
        self._world.network.send(self._stream, self._producer.answered, self._attempt, error)
