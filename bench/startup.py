"""From the execution of `hightide server` to its first acknowledged record, and what it occupies when nobody asks.

Both on an empty directory, where the broker formats its storage and the topic is created first, and on one that a
broker stopped cleanly and that has the topic. Beside each start lies one of the bare interpreter. A first start that
counts for nothing lets Python store the compiled package, which an installed one is.
"""

import subprocess
import sys
import time

from bench import machine, requests
from bench.broker import Broker
from bench.plan import DURABILITIES, Plan
from bench.trials import Goal, Row, Trial

TOPIC = "startup"
ACKS_ALL = -1
SECONDS = Goal(0.3, at_least=False)
MEGABYTES = Goal(60, at_least=False)
SETTLING_SECONDS = 1.0


class Startup:
    """Measures all rows in turn."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._frame = requests.produce_frame(TOPIC, ACKS_ALL, value_bytes=100)

    def measure(self) -> list[Row]:
        """Starts and memory, for every durability."""
        self._plan.say(f"Start-up: {self._plan.starts} starts each")
        self._start(Row("warm-up", DURABILITIES[0], "all", "s"), Row("warm-up", DURABILITIES[0], "all", "s"))
        rows = []
        for durability in DURABILITIES:
            goal, room = (SECONDS, MEGABYTES) if durability == "replicated" else (None, None)
            empty = Row("first record, empty directory", durability, "all", "s", goal)
            again = Row("first record, after a clean stop", durability, "all", "s", goal)
            memory = Row("idle memory (RSS)", durability, "", "MB", room)
            for _ in range(self._plan.starts):
                self._start(empty, again)
            for _ in range(min(self._plan.starts, 3)):
                self._idle(memory)
            rows += [empty, again, memory]
            for row in rows[-3:]:
                values = ", ".join(f"{trial.value:.3g}" for trial in row.trials)
                self._plan.say(f"  {durability:10} {row.title}: {values} {row.unit}")
        return rows

    def _start(self, empty: Row, again: Row) -> None:
        with Broker(self._plan.directory / "startup", empty.durability) as broker:
            self._timed(broker, empty, create=True)
            broker.stop()
            self._timed(broker, again, create=False)
            broker.expect_records(TOPIC, 2)

    def _timed(self, broker: Broker, row: Row, *, create: bool) -> None:
        interpreter = _interpreter_seconds()
        ours: list[int] = []
        with machine.watch(ours) as seen:
            broker.start()
            ours.append(broker.pid)
            if create:
                broker.create_topic(TOPIC)
            seconds = broker.produce_one(self._frame)
        row.trials.append(Trial(seconds, seen.disturbance, {"bare_interpreter_s": interpreter}))

    def _idle(self, row: Row) -> None:
        with Broker(self._plan.directory / "idle", row.durability) as broker:
            broker.start()
            broker.connect().close()
            time.sleep(SETTLING_SECONDS)
            rss, pss = machine.resident_and_proportional_mb(broker.pid)
        row.trials.append(Trial(rss, None, {"pss_mb": pss}))


def _interpreter_seconds() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.monotonic() - started
