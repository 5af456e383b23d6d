"""Requests of one record each over fifty connections, as a share of the echo server on the same event loop."""

from typing import Any

from bench import machine, requests
from bench.broker import Broker
from bench.echo_server import NOTHING_TO_CHECK, echoing
from bench.plan import DURABILITIES, Plan
from bench.programs import build, run_program
from bench.trials import Goal, Row, compared

CONNECTIONS = 50
WARMUP_REQUESTS = 2_000
VALUE_BYTES = 100
ACKS_ALL = -1
TOPIC = "requests"
SHARE_OF_ECHO = Goal(0.40, at_least=True)
REQUESTS_MIN, REQUESTS_MAX = 2_000, 200_000


class SmallRequests:
    """Measures all rows in turn."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sender = build("request_sender")
        self._frame = plan.directory / "request.bin"
        self._answer = plan.directory / "answer.bin"
        self._frame.write_bytes(requests.produce_frame(TOPIC, ACKS_ALL, VALUE_BYTES))
        self._answer.write_bytes(requests.produce_answer(TOPIC))
        self._requests = REQUESTS_MIN
        rate = self._echo()[0]
        self._requests = int(min(max(rate * plan.run_seconds, REQUESTS_MIN), REQUESTS_MAX))
        self._before: tuple[float, str | None] = (0.0, None)

    def measure(self) -> list[Row]:
        """Every durability with acks=all."""
        rows = [
            Row(
                "one-record requests / echo server",
                durability, "all", "share", SHARE_OF_ECHO if durability == "replicated" else None,
            )
            for durability in DURABILITIES
        ]  # fmt: skip
        self._plan.say(f"Small requests: runs of {self._requests} over {CONNECTIONS} connections")
        self._before = self._echo()
        self._plan.repeat(rows, self._trial)
        return rows

    def _trial(self, row: Row) -> None:
        before, before_cause = self._before
        result, cause = self._broker(row.durability)
        after, after_cause = self._before = self._echo()
        rate = result["requests"] / result["seconds"]
        beside = {
            "broker_requests_s": rate,
            "broker_cpu_us": result["server_cpu_seconds"] * 1e6 / result["requests"],
            "broker_p50_us": result["p50_us"],
            "broker_p99_us": result["p99_us"],
            "echo_requests_s": (before + after) / 2,
        }
        trial = compared(rate, before, after, [cause, before_cause, after_cause], beside)
        row.trials.append(trial)
        what = f"left out, {trial.disturbance}" if trial.disturbance else f"{trial.value:.0%} of the echo server"
        self._plan.say(f"  {row.durability:10} {what}  (broker CPU {beside['broker_cpu_us']:.0f} us a request)")

    def _echo(self) -> tuple[float, str | None]:
        with echoing(self._answer) as server, machine.watch([server.pid]) as seen:
            result = self._send(server.port, NOTHING_TO_CHECK, server.pid)
        return result["requests"] / result["seconds"], seen.disturbance

    def _broker(self, durability: str) -> tuple[dict[str, Any], str | None]:
        with Broker(self._plan.directory / "requests", durability) as broker:
            broker.start()
            broker.create_topic(TOPIC)
            with machine.watch([broker.pid]) as seen:
                result = self._send(broker.port, requests.error_position(TOPIC), broker.pid)
            broker.expect_records(TOPIC, result["requests"] + WARMUP_REQUESTS)
        return result, seen.disturbance

    def _send(self, port: int, error_position: int, pid: int) -> dict[str, Any]:
        return run_program(
            self._sender, port, CONNECTIONS, self._requests, WARMUP_REQUESTS, self._frame, error_position, pid
        )  # fmt: skip
