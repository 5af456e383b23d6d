"""`python -m bench.history`: how long the history checkers take for 100,000 operations (goal: 5 s, RELIABILITY).

The history is a correct one, of a model log with several producers and consumers, some of which give up or seek: that
is what campaigns judge thousands of times. Every value is read twice, once in the final read.
"""

import time
from collections.abc import Callable
from random import Random

from hightide.sim.history.checks import CHECKERS, check_all
from hightide.sim.history.operations import Mark, Polled, Send
from hightide.sim.history.recorder import History
from hightide.sim.history.windows import measure
from hightide.types import TopicPartition

OPERATIONS = 100_000
PARTITIONS = [TopicPartition("orders", index) for index in range(8)]
CLIENTS = 8
POLL_RECORDS_MAX = 20
FINAL_POLL_RECORDS = 500


class Model:
    """Logs that never fail, and clients that record what they do to them, a few sends in flight each."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._now = 0.0
        self.history = History(lambda: self._now)
        self._logs: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}
        self._in_flight: list[Send] = []
        self._positions = {(client, partition): 0 for client in range(CLIENTS) for partition in PARTITIONS}
        self._sent = 0

    def run(self, operations: int) -> None:
        """Most operations are sends, as in a campaign; then the final read."""
        for _ in range(operations):
            self._now += self._random.expovariate(1000)
            kind = self._random.random()
            if kind < 0.7:
                self._send()
            elif kind < 0.98:
                self._poll()
            else:
                self._ask()
        while self._in_flight:
            self._answer()
        self._read_everything()

    def _send(self) -> None:
        self._sent += 1
        client, partition = self._random.randrange(CLIENTS), self._random.choice(PARTITIONS)
        self._in_flight.append(self.history.begin_send(f"producer-{client}", partition, self._sent))
        if len(self._in_flight) > 5 * CLIENTS:
            self._answer()

    def _answer(self) -> None:
        send = self._in_flight.pop(0)
        log = self._logs[send.partition]
        log += [value for value in send.values if isinstance(value, int)]
        if self._random.random() < 0.02:
            self.history.unknown(send, "timed out")
        else:
            self.history.acknowledged(send, len(log) - 1)

    def _poll(self) -> None:
        client, partition = self._random.randrange(CLIENTS), self._random.choice(PARTITIONS)
        if self._random.random() < 0.01:
            self._positions[client, partition] = self._random.randrange(len(self._logs[partition]) + 1)
            self.history.positioned(f"consumer-{client}", {partition: self._positions[client, partition]})
        poll = self.history.begin_poll(f"consumer-{client}")
        self.history.polled(poll, self._records(client, partition, self._random.randint(0, POLL_RECORDS_MAX)))

    def _records(self, client: int, partition: TopicPartition, count: int) -> list[Polled]:
        start = self._positions[client, partition]
        values = self._logs[partition][start : start + count]
        self._positions[client, partition] = start + len(values)
        return [Polled(partition, offset, value) for offset, value in enumerate(values, start)]

    def _ask(self) -> None:
        partition = self._random.choice(PARTITIONS)
        end = len(self._logs[partition])
        self.history.observed("admin", partition, Mark.LATEST, end, asked=self.history.moment(), leader_epoch=1)

    def _read_everything(self) -> None:
        read = self.history.begin_final_read("final", PARTITIONS)
        for partition, log in self._logs.items():
            for start in range(0, len(log), FINAL_POLL_RECORDS):
                values = log[start : start + FINAL_POLL_RECORDS]
                poll = self.history.begin_poll("final")
                self.history.polled(
                    poll, [Polled(partition, start + index, value) for index, value in enumerate(values)]
                )
        self.history.caught_up(read)


def main() -> None:
    """Print the seconds of every checker."""
    model = Model(seed=1)
    started = time.perf_counter()
    model.run(OPERATIONS)
    print(f"recorded {OPERATIONS:,} operations in {time.perf_counter() - started:.2f} s")
    assert check_all(model.history) == [], "the model is a correct log"
    model.history.moment()  # forgets what the checkers derived together, so that the first one is charged for it
    total = 0.0
    judges: dict[str, Callable[[History], object]] = {**CHECKERS, "K19": measure}
    for name, judge in judges.items():
        started = time.perf_counter()
        judge(model.history)
        seconds = time.perf_counter() - started
        total += seconds
        print(f"{name:4} {seconds:.3f} s")
    records = sum(len(poll.records) for poll in model.history.polls)
    print(f"all  {total:.3f} s for {len(model.history.sends):,} sends and {records:,} records polled")


if __name__ == "__main__":
    main()
