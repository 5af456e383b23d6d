"""A correct cluster as clients see it, driven by drawn numbers: the source of histories without findings.

Everything legal that surprises happens: answers are lost, what was given up is appended much later, retries without
idempotence leave copies, even after the answer, leaders change and learn the high watermark anew, a cut-off leader
tells old numbers, consumers seek, rebalance and fail, retention removes the beginning, offsets have gaps.
"""

from collections.abc import Callable
from random import Random

from hightide.sim.history.operations import Mark, Polled, Send
from hightide.sim.history.recorder import History
from hightide.types import NO_EPOCH, NO_OFFSET, TopicPartition

PARTITIONS = [TopicPartition("orders", index) for index in range(2)]
PRODUCERS = {"careful": True, "careless": False}  # whether idempotent
CONSUMERS = ["reader", "group-member"]
IN_FLIGHT_MAX = 4


class Partition:
    """One log: offsets rise, with gaps, and committed is what a consumer may see."""

    def __init__(self) -> None:
        self.records: dict[int, int] = {}
        self.end = 0
        self.committed = 0
        self.start = 0
        self.epoch = 0
        self.known_watermark = 0  # the leader's; a new one starts with an old one

    def append(self, *values: int) -> int:
        base = self.end
        for value in values:
            self.records[self.end] = value
            self.end += 1
        return base

    def commit(self) -> None:
        self.committed = self.end
        self.known_watermark = self.end

    def visible(self, position: int, count: int) -> list[tuple[int, int]]:
        offsets = range(max(position, self.start), self.committed)
        return [(offset, self.records[offset]) for offset in offsets if offset in self.records][:count]


class Flight:
    """A send on its way: appended or not, given up or not."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.base: int | None = None


class ModelCluster:
    """Takes one step per call of `step`; `finish` ends with a final read."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._now = 0.0
        self.history = History(lambda: self._now)
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self._flights: dict[tuple[str, TopicPartition], list[Flight]] = {
            (producer, partition): [] for producer in PRODUCERS for partition in PARTITIONS
        }
        self._strays: list[Send] = []  # given up or retried, still under way
        self._positions: dict[tuple[str, TopicPartition], int] = {}
        self._next_value = 0

    @property
    def actions(self) -> list[Callable[[TopicPartition], None]]:
        return [
            self._send,
            self._send,
            self._append,
            self._append,
            self._acknowledge,
            self._acknowledge,
            self._give_up,
            self._refuse,
            self._stray_arrives,
            self._poll,
            self._poll,
            self._poll,
            self._failed_poll,
            self._seek,
            self._rebalance,
            self._fetch_watermark,
            self._list_offsets,
            self._old_leader_answers,
            self._elect,
            self._leave_gap,
            self._retain,
        ]

    def step(self) -> None:
        self._now += self.random.random()
        self.random.choice(self.actions)(self.random.choice(PARTITIONS))

    def finish(self) -> None:
        """Heal: what is under way arrives and is answered, or never; then a fresh client reads everything."""
        for (_, partition), flights in self._flights.items():
            for flight in flights:
                self._appended(flight)
                self._answer(partition, flight)
        client = "final"
        for partition, log in self.partitions.items():
            log.commit()
            self._tell(client, partition, Mark.LOG_START, log.start)
        read = self.history.begin_final_read(client, PARTITIONS)
        for partition, log in self.partitions.items():
            position = 0
            while records := log.visible(position, self.random.randint(1, 4)):
                self._record_poll(client, partition, records)
                position = records[-1][0] + 1
        self.history.caught_up(read)

    # Producers

    def _send(self, partition: TopicPartition) -> None:
        producer = self.random.choice(list(PRODUCERS))
        flights = self._flights[producer, partition]
        if len(flights) < IN_FLIGHT_MAX:
            values = range(self._next_value, self._next_value + self.random.choice([1, 1, 3]))
            self._next_value = values.stop
            send = self.history.begin_send(producer, partition, *values, idempotent=PRODUCERS[producer])
            flights.append(Flight(send))

    def _append(self, partition: TopicPartition) -> None:
        """An idempotent producer's sends arrive in order; of another one any may, and twice."""
        producer = self.random.choice(list(PRODUCERS))
        flights = self._flights[producer, partition]
        if not flights:
            return
        if PRODUCERS[producer]:
            waiting = [flight for flight in flights if flight.base is None]
            if waiting:
                self._appended(waiting[0])
        else:
            self._appended(self.random.choice(flights), again=self.random.random() < 0.3)

    def _appended(self, flight: Flight, *, again: bool = False) -> None:
        if flight.base is None or again:
            log = self.partitions[flight.send.partition]
            flight.base = log.append(*_numbers(flight.send))

    def _acknowledge(self, partition: TopicPartition) -> None:
        """Everything up to the end is replicated, and one of the waiting producers hears of it."""
        flights = self._flights[self.random.choice(list(PRODUCERS)), partition]
        done = [flight for flight in flights if flight.base is not None]
        if done:
            flight = self.random.choice(done)
            flights.remove(flight)
            self._answer(partition, flight)

    def _answer(self, partition: TopicPartition, flight: Flight) -> None:
        self.partitions[partition].commit()
        base = NO_OFFSET if self.random.random() < 0.1 or flight.base is None else flight.base
        self.history.acknowledged(flight.send, base)
        if not flight.send.idempotent and self.random.random() < 0.2:
            self._strays.append(flight.send)

    def _give_up(self, partition: TopicPartition) -> None:
        """A time-out: all that waits is given up, as by a producer that needs a new identity then."""
        flights = self._flights[self.random.choice(list(PRODUCERS)), partition]
        for flight in flights:
            if self.random.random() < 0.7:
                self.history.unknown(flight.send, "timed out")
            if flight.base is None or not flight.send.idempotent:
                self._strays.append(flight.send)
        flights.clear()

    def _refuse(self, partition: TopicPartition) -> None:
        flights = self._flights["careless", partition]
        waiting = [flight for flight in flights if flight.base is None]
        if waiting:
            flights.remove(waiting[0])
            self.history.failed(waiting[0].send, "refused")

    def _stray_arrives(self, partition: TopicPartition) -> None:
        if self._strays:
            send = self._strays.pop(self.random.randrange(len(self._strays)))
            self.partitions[send.partition].append(*_numbers(send))

    # Consumers

    def _poll(self, partition: TopicPartition) -> None:
        client = self.random.choice(CONSUMERS)
        log = self.partitions[partition]
        position = self._positions.get((client, partition), 0)
        records = log.visible(position, self.random.randint(0, 4))
        self._record_poll(client, partition, records)
        if records:
            self._positions[client, partition] = records[-1][0] + 1

    def _record_poll(self, client: str, partition: TopicPartition, records: list[tuple[int, int]]) -> None:
        poll = self.history.begin_poll(client)
        self.history.polled(poll, [Polled(partition, offset, value) for offset, value in records])

    def _failed_poll(self, partition: TopicPartition) -> None:
        """It may have swallowed records."""
        client = self.random.choice(CONSUMERS)
        records = self.partitions[partition].visible(self._positions.get((client, partition), 0), 2)
        poll = self.history.begin_poll(client)
        self.history.unknown(poll, "disconnected")
        if records:
            self._positions[client, partition] = records[-1][0] + 1

    def _seek(self, partition: TopicPartition) -> None:
        log = self.partitions[partition]
        position = self.random.randint(log.start, log.committed)
        self._positions["reader", partition] = position
        self.history.positioned("reader", {partition: position})

    def _rebalance(self, partition: TopicPartition) -> None:
        """To a committed offset, which is never beyond what some member read."""
        client = "group-member"
        read = self._positions.get((client, partition), 0)
        self._positions[client, partition] = self.random.randint(0, read)
        self.history.positioned(client, {partition: None})

    # Brokers

    def _fetch_watermark(self, partition: TopicPartition) -> None:
        log = self.partitions[partition]
        log.known_watermark = self.random.randint(log.known_watermark, log.committed)
        mark = self.random.choice([Mark.HIGH_WATERMARK, Mark.LAST_STABLE_OFFSET])
        self._tell(self.random.choice(CONSUMERS), partition, mark, log.known_watermark, log.epoch)

    def _list_offsets(self, partition: TopicPartition) -> None:
        """Never below what the client was told: until then the answer is OFFSET_NOT_AVAILABLE."""
        log = self.partitions[partition]
        if log.known_watermark == log.committed:
            self._tell(self.random.choice(CONSUMERS), partition, Mark.LATEST, log.committed, log.epoch)

    def _old_leader_answers(self, partition: TopicPartition) -> None:
        """A client that knows nothing yet asks a leader that was cut off some time ago."""
        old = self.random.randint(0, self.partitions[partition].committed)
        self._tell(f"newcomer-{self.history.moment()}", partition, Mark.LATEST, old)

    def _elect(self, partition: TopicPartition) -> None:
        """What was not committed is gone: it was acknowledged to nobody and read by nobody."""
        log = self.partitions[partition]
        log.epoch += 1
        for offset in range(log.committed, log.end):
            log.records.pop(offset, None)
        log.end = log.committed
        log.known_watermark = self.random.randint(log.start, log.committed)
        for (_, owner), flights in self._flights.items():
            if owner == partition:
                for flight in flights:
                    if flight.base is not None and flight.base >= log.committed:
                        flight.base = None

    def _leave_gap(self, partition: TopicPartition) -> None:
        """A transaction's marker takes an offset that no consumer sees."""
        self.partitions[partition].end += 1

    def _retain(self, partition: TopicPartition) -> None:
        if self.random.random() < 0.2:
            log = self.partitions[partition]
            log.start = self.random.randint(log.start, log.committed)
            self._tell("admin", partition, Mark.LOG_START, log.start)

    def _tell(self, client: str, partition: TopicPartition, mark: Mark, offset: int, epoch: int = NO_EPOCH) -> None:
        asked = self.history.moment()
        self.history.observed(client, partition, mark, offset, asked=asked, leader_epoch=epoch)


def _numbers(send: Send) -> list[int]:
    return [value for value in send.values if isinstance(value, int)]


def correct_history(seed: int, steps: int) -> History:
    """What clients of a correct cluster saw."""
    cluster = ModelCluster(seed)
    for _ in range(steps):
        cluster.step()
    cluster.finish()
    return cluster.history
