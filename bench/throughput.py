"""librdkafka at 1 KiB: its throughput as a share of its own mock, and the broker's CPU per MB beside the floor.

One broker run is one trial of both rows. Around each lie a run against the mock and a run of the floor, before and
after; all of them touch the memory they will use first.
"""

import sys
from dataclasses import dataclass
from typing import Any

from bench import machine
from bench.broker import Broker
from bench.plan import DURABILITIES, Plan
from bench.programs import SHORT_QUEUE, build, librdkafka, run_program
from bench.trials import Goal, Row, compared

MESSAGE_BYTES = 1024
WARMUP_MESSAGES = 16_000
TOPIC = "throughput"
ACKS = ("1", "all")
SHARE_OF_MOCK = Goal(0.75, at_least=True)
TIMES_THE_FLOOR = Goal(1.3, at_least=False)
MEGABYTES_MIN, MEGABYTES_MAX = 20, 1_000
ONE_PARTITION, NO_CODEC, FULL_BATCHES = 1, "none", 0
SPARE_MEGABYTES = 300  # what client, mock and broker use beside the bytes of the run


@dataclass(frozen=True)
class Around:
    """The reference runs between two broker runs."""

    mock_mb_s: float
    floor_ms_mb: float
    floor_mb_s: float
    mock_disturbance: str | None
    floor_disturbance: str | None


class Throughput:
    """Measures all rows in turn."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._producer = build("rdkafka_producer")
        self._toucher = build("touch_memory")
        self._library = librdkafka()
        self.library_version = ""
        self._megabytes = MEGABYTES_MIN
        rate = self._mock()[0]
        self._megabytes = int(min(max(rate * plan.run_seconds, MEGABYTES_MIN), MEGABYTES_MAX))
        self._around: Around | None = None

    def measure(self) -> list[Row]:
        """Every durability with acks=1 and acks=all."""
        shares, costs = [], {}
        for durability in DURABILITIES:
            share_goal, cost_goal = (SHARE_OF_MOCK, TIMES_THE_FLOOR) if durability == "replicated" else (None, None)
            for acks in ACKS:
                shares.append(Row("librdkafka at 1 KiB / its mock", durability, acks, "share", share_goal))
                costs[durability, acks] = Row("broker CPU per MB / the floor", durability, acks, "times", cost_goal)
        self._plan.say(f"Throughput: runs of {self._megabytes} MB in messages of {MESSAGE_BYTES} bytes")
        self._around = self._references()
        self._plan.repeat(shares, lambda row: self._trial(row, costs[row.durability, row.acks]))
        return shares + list(costs.values())

    def _trial(self, share: Row, cost: Row) -> None:
        before = self._around
        assert before is not None
        mb_s, cpu_ms_mb, disturbance = self._broker(share.durability, share.acks)
        after = self._around = self._references()
        beside = {
            "broker_mb_s": mb_s,
            "broker_cpu_ms_mb": cpu_ms_mb,
            "mock_mb_s": (before.mock_mb_s + after.mock_mb_s) / 2,
            "floor_ms_mb": (before.floor_ms_mb + after.floor_ms_mb) / 2,
            "floor_mb_s": (before.floor_mb_s + after.floor_mb_s) / 2,
        }
        mock_causes = [disturbance, before.mock_disturbance, after.mock_disturbance]
        floor_causes = [disturbance, before.floor_disturbance, after.floor_disturbance]
        share.trials.append(compared(mb_s, before.mock_mb_s, after.mock_mb_s, mock_causes, beside))
        cost.trials.append(compared(cpu_ms_mb, before.floor_ms_mb, after.floor_ms_mb, floor_causes, beside))
        self._say(share, cost, beside)

    def _say(self, share: Row, cost: Row, beside: dict[str, float]) -> None:
        first, second = share.trials[-1], cost.trials[-1]
        mock = f"left out, {first.disturbance}" if first.disturbance else f"{first.value:.0%} of the mock"
        floor = f"left out, {second.disturbance}" if second.disturbance else f"{second.value:.2f}x the floor"
        self._plan.say(
            f"  {share.durability:10} acks={share.acks:3}  throughput: {mock}; CPU: {floor}"
            f"  (write floor beside it {beside['floor_ms_mb']:.2f} ms/MB)"
        )

    def _references(self) -> Around:
        mock_mb_s, mock_disturbance = self._mock()
        floor_ms_mb, floor_mb_s, floor_disturbance = self._floor()
        return Around(mock_mb_s, floor_ms_mb, floor_mb_s, mock_disturbance, floor_disturbance)

    def _touch(self) -> None:
        machine.touch_memory(self._toucher, self._megabytes + SPARE_MEGABYTES)

    def _mock(self) -> tuple[float, str | None]:
        self._touch()
        with machine.watch() as seen:
            result = self._produce("mock", "1", 0)
        self.library_version = result["library"]
        return result["bytes"] / 1e6 / result["seconds"], seen.disturbance

    def _floor(self) -> tuple[float, float, str | None]:
        self._touch()
        path = self._plan.directory / "floor.log"
        with machine.watch() as seen:
            result = run_program(sys.executable, "-m", "bench.floor", self._megabytes, path)
        megabytes = result["bytes"] / 1e6
        return result["cpu_seconds"] * 1e3 / megabytes, megabytes / result["seconds"], seen.disturbance

    def _broker(self, durability: str, acks: str) -> tuple[float, float, str | None]:
        with Broker(self._plan.directory / "throughput", durability) as broker:
            broker.start()
            broker.create_topic(TOPIC)
            self._touch()
            with machine.watch([broker.pid]) as seen:
                result = self._produce(broker.address, acks, broker.pid)
            megabytes = result["bytes"] / 1e6
            broker.expect_records(TOPIC, result["bytes"] // MESSAGE_BYTES + WARMUP_MESSAGES)
        return megabytes / result["seconds"], sum(result["broker_cpu_seconds"]) * 1e3 / megabytes, seen.disturbance

    def _produce(self, address: str, acks: str, pid: int) -> dict[str, Any]:
        messages = self._megabytes * 1_000_000 // MESSAGE_BYTES
        return run_program(
            self._producer, self._library, address, TOPIC, ONE_PARTITION, messages, WARMUP_MESSAGES, MESSAGE_BYTES,
            acks, NO_CODEC, FULL_BATCHES, SHORT_QUEUE, pid,
        )  # fmt: skip
