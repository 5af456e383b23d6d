"""One run of each kind of work against one cluster: prepare, touch the memory, watch the machine, drive, check, tidy.

Every run makes its own topic and deletes it; what was acknowledged must be there, or the run fails. Figures have the
same names in every kind of work, so that lines can speak of any.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import admin, machine, requests
from bench.clusters import Cluster
from bench.comparison.arena import Arena
from bench.comparison.contests import Floor, Run
from bench.comparison.effort import Effort
from bench.echo_server import NOTHING_TO_CHECK, echoing
from bench.kafka_server import kafka_jars, tool_command
from bench.programs import LONG_QUEUE, SHORT_QUEUE, FailedError, build, librdkafka, run_program
from bench.replicated_echo import replicating

MB = 1_000_000
PAGE_CACHE, FSYNC = "page cache", "fsync"
SPARE_MEGABYTES = 300  # what client and brokers use beside the bytes of the run
FLOOR_MEGABYTES = 250
ACKS_ALL_CODE = -1
ECHO_TOPIC = "echo"
ECHO_VALUE_BYTES = 100
FULL_BATCHES = 0
PERFORMANCE_TEST = "org.apache.kafka.tools.ProducerPerformance"
PERFORMANCE_LINE = re.compile(r"\(([\d.]+) MB/sec\).*?([\d.]+) ms avg latency.*?(\d+) ms 50th.*?(\d+) ms 99th")
MIB_IN_MB = 1.048576
TOOL_SECONDS_MAX = 180
STEADY_COSTS_MIN, STEADY_SHARE = 4, 0.05
ANY_CORE, ONE_CORE = "any", "one"  # where the threads of the client of single messages run


@dataclass(frozen=True)
class Produce:
    """What to produce; `batch_messages` fixes the size of batches, 0 lets them fill."""

    messages: int
    message_bytes: int
    acks: str
    codec: str = "none"
    partitions: int = 1
    durability: str = PAGE_CACHE
    batch_messages: int = FULL_BATCHES
    warmup_messages: int = 16_000

    @property
    def queues(self) -> tuple[int, ...]:
        """How many messages the client lets wait: what to try. Batches of a fixed size are never short of messages."""
        return (LONG_QUEUE,) if self.batch_messages else (SHORT_QUEUE, LONG_QUEUE)

    @property
    def megabytes(self) -> int:
        return -(-(self.messages + self.warmup_messages) * self.message_bytes // MB)


class Loads:
    """The drivers, ready to run."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self._library = librdkafka()
        self._producer = build("rdkafka_producer")
        self._consumer = build("rdkafka_consumer")
        self._latency = build("rdkafka_latency")
        self._sender = build("request_sender")
        self._toucher = build("touch_memory")
        self.library_version = ""

    def touch(self, megabytes: int) -> None:
        """Make the host hand out the memory that the next run uses."""
        machine.touch_memory(self._toucher, megabytes + self.effort.amount(SPARE_MEGABYTES))

    def floor(self) -> Floor:
        """The machine's own speed now."""
        run = self._alone("bench.floor")
        return Floor(run.figures["cpu_ms_mb"], run.figures["mb_s"], run.disturbance)

    def writing(self) -> Run:
        """What it takes to receive, check and write a producer's bytes as hightide does, without a broker."""
        return self._alone("bench.floor", "ahead")

    def sending(self) -> Run:
        """What the kernel takes to send what a reader asks for, without a broker."""
        return self._alone("bench.send_floor")

    def _alone(self, module: str, *words: str) -> Run:
        megabytes = self.effort.amount(FLOOR_MEGABYTES, at_least=10)
        self.touch(megabytes)
        with machine.watch() as seen:
            result = run_program(
                sys.executable, "-m", module, megabytes, self.effort.directory / "floor.log", *words
            )  # fmt: skip
        size = result["bytes"] / MB
        figures = {"cpu_ms_mb": result["cpu_seconds"] * 1e3 / size, "mb_s": size / result["seconds"]}
        return Run(figures, seen.disturbance)

    def disk(self, writers: int, megabytes: int) -> Run:
        """What the disk takes from as many writers as there are brokers, each of so much, when everything is synced."""
        self.touch(writers * megabytes)
        with machine.watch() as seen:
            result = run_program(
                sys.executable, "-m", "bench.disk_floor", writers, megabytes, self.effort.directory / "disk.log"
            )  # fmt: skip
        return Run({"mb_s": result["bytes"] / MB / result["seconds"]}, seen.disturbance)

    def echo(self, connections: int, count: int) -> Run:
        """The same small requests to a server on the broker's sockets and event loop that does nothing with them."""
        _, answer = self._request_and_answer()
        with echoing(answer) as server:
            return self._send_to_echo(server.port, [server.pid], connections, count)

    def replicated_echo(self, connections: int, count: int) -> Run:
        """The same small requests to three that replicate their bytes and do nothing else with them."""
        batch_bytes, answer = self._request_and_answer()
        with replicating(answer, batch_bytes, self.effort.directory) as servers:
            return self._send_to_echo(servers.port, servers.pids, connections, count)

    def _request_and_answer(self) -> tuple[int, Path]:
        """Writes both down; how much of the request is its batch, and where the answer is."""
        frame, answer = (self.effort.directory / name for name in ("request.bin", "answer.bin"))
        frame.write_bytes(requests.produce_frame(ECHO_TOPIC, ACKS_ALL_CODE, ECHO_VALUE_BYTES))
        answer.write_bytes(requests.produce_answer(ECHO_TOPIC))
        return len(requests.batch(ECHO_VALUE_BYTES)), answer

    def _send_to_echo(self, port: int, pids: list[int], connections: int, count: int) -> Run:
        warmup = max(count // 10, 2 * connections)
        with machine.watch(pids) as seen:
            result = run_program(
                self._sender, port, connections, count, warmup, self.effort.directory / "request.bin",
                NOTHING_TO_CHECK, _listed(pids),
            )  # fmt: skip
        return Run(_of_requests(result, count), seen.disturbance)

    def produce(self, arena: Arena, system: str, work: Produce) -> Run:
        """librdkafka as fast as it can, with each queue: everybody counts with the one that suits it better."""
        return fastest([self._produce_with(arena, system, work, queue) for queue in work.queues])

    def _produce_with(self, arena: Arena, system: str, work: Produce, queue: int) -> Run:
        cluster = arena.cluster(system)
        with arena.topic(cluster, work.partitions, work.durability) as topic:
            leader = admin.leader_of(cluster, topic)
            self.touch(work.megabytes * arena.replication_factor)
            with machine.watch(arena.pids) as seen:
                result = self._produce(cluster.bootstrap, topic, work, cluster.pids, queue)
            memory = resident_mb(cluster)
            admin.expect_records(cluster, topic, work.messages + work.warmup_messages)
        figures = _throughput(result, memory) | {"queue": float(queue)}
        times = dict(zip(cluster.pids, result["broker_cpu_seconds"], strict=True))
        followers = [seconds for pid, seconds in times.items() if pid != leader.pid]
        if followers:
            figures["follower_ms_mb"] = sum(followers) / len(followers) * 1e3 / (result["bytes"] / MB)
        return Run(figures, seen.disturbance)

    def mock(self, work: Produce) -> Run:
        """The client's ceiling: the same work against the broker inside librdkafka."""
        return fastest([self._mock_with(work, queue) for queue in work.queues])

    def _mock_with(self, work: Produce, queue: int) -> Run:
        self.touch(work.megabytes)
        with machine.watch() as seen:
            result = self._produce("mock", "ceiling", work, [], queue)
        return Run(_throughput(result, 0.0), seen.disturbance)

    def fill(self, cluster: Cluster, topic: str, work: Produce) -> None:
        """Put messages into a topic that exists."""
        self._produce(cluster.bootstrap, topic, work, [], LONG_QUEUE)

    def _produce(self, bootstrap: str, topic: str, work: Produce, pids: list[int], queue: int) -> dict[str, Any]:
        result = run_program(
            self._producer, self._library, bootstrap, topic, work.partitions, work.messages, work.warmup_messages,
            work.message_bytes, work.acks, work.codec, work.batch_messages, queue, _listed(pids),
        )  # fmt: skip
        self.library_version = result["library"]
        return result

    def consume(self, arena: Arena, system: str, work: Produce) -> Run:
        """librdkafka reads back what was produced just before."""
        cluster = arena.cluster(system)
        with arena.topic(cluster, work.partitions, work.durability) as topic:
            self.touch(work.megabytes)
            self.fill(cluster, topic, work)
            admin.expect_records(cluster, topic, work.messages + work.warmup_messages)
            with machine.watch(arena.pids) as seen:
                result = self._consume(cluster, topic, work)
            memory = resident_mb(cluster)
        return Run(_throughput(result, memory), seen.disturbance)

    def _consume(self, cluster: Cluster, topic: str, work: Produce) -> dict[str, Any]:
        return run_program(
            self._consumer, self._library, cluster.bootstrap, topic, work.partitions,
            work.messages + work.warmup_messages, _listed(cluster.pids),
        )  # fmt: skip

    def one_record_requests(
        self,
        arena: Arena,
        system: str,
        connections: int,
        count: int,
        durability: str = PAGE_CACHE,
        partitions: int = 1,
    ) -> Run:
        """Unbatched Produce requests with acks=all to one partition's leader, one outstanding on each connection; the
        topic's other partitions are idle."""
        cluster = arena.cluster(system)
        warmup = max(count // 10, 2 * connections)
        with arena.topic(cluster, partitions, durability) as topic:
            self.touch(0)
            frame = requests.produce_frame(topic, ACKS_ALL_CODE, value_bytes=100)
            with machine.watch(arena.pids) as seen:
                result = self._send(cluster, topic, connections, count, warmup, frame)
            memory = resident_mb(cluster)
            admin.expect_records(cluster, topic, count + warmup)
        return Run(_of_requests(result, count) | {"rss_mb": memory}, seen.disturbance)

    def ready_batches(self, arena: Arena, system: str, connections: int, count: int, batch: tuple[int, int]) -> Run:
        """Whole batches that were made before, so that the client does nothing but send: what a broker takes by itself.

        `batch` is how many records it has and how large each is.
        """
        cluster = arena.cluster(system)
        records, record_bytes = batch
        megabytes = records * record_bytes / MB
        warmup = max(count // 10, 2 * connections)
        with arena.topic(cluster, 1, PAGE_CACHE) as topic:
            frame = requests.produce_frame(topic, ACKS_ALL_CODE, record_bytes, records)
            self.touch(round((count + warmup) * megabytes))
            with machine.watch(arena.pids) as seen:
                result = self._send(cluster, topic, connections, count, warmup, frame)
            memory = resident_mb(cluster)
            admin.expect_records(cluster, topic, (count + warmup) * records)
        figures = {
            "mb_s": count * megabytes / result["seconds"],
            "cpu_ms_mb": result["server_cpu_seconds"] * 1e3 / (count * megabytes),
            "client_ms_mb": result["client_cpu_seconds"] * 1e3 / (count * megabytes),
            "rss_mb": memory,
        }
        return Run(figures, seen.disturbance)

    def _send(
        self, cluster: Cluster, topic: str, connections: int, count: int, warmup: int, frame: bytes
    ) -> dict[str, Any]:
        path = self.effort.directory / "request.bin"
        path.write_bytes(frame)
        return run_program(
            self._sender, admin.leader_of(cluster, topic).port, connections, count, warmup, path,
            requests.error_position(topic), _listed(cluster.pids),
        )  # fmt: skip

    def latency(self, arena: Arena, system: str, rate: int, acks: str, durability: str = PAGE_CACHE) -> Run:
        """Single messages at a fixed rate: until acknowledged, and until a consumer has them."""
        cluster = arena.cluster(system)
        with arena.topic(cluster, 1, durability) as topic:
            self.touch(0)
            with machine.watch(arena.pids) as seen:
                result = self._send_either_way(cluster.bootstrap, topic, rate, acks, cluster.pids)
        return Run(_latencies(result), seen.disturbance)

    def mock_latency(self, rate: int, acks: str) -> Run:
        """What the client itself takes: the same against the broker inside librdkafka, without a network."""
        self.touch(0)
        with machine.watch() as seen:
            result = self._send_either_way("mock", "floor", rate, acks, [])
        return Run(_latencies(result), seen.disturbance)

    def _send_either_way(self, bootstrap: str, topic: str, rate: int, acks: str, pids: list[int]) -> dict[str, Any]:
        """With the client's threads on any core and on one: whoever is measured counts with what suits it better. On
        one core they wake each other sooner, but take it from a broker that wants both."""
        seconds = self.effort.seconds_at(rate)
        results = [
            self.send_at_rate(bootstrap, topic, rate, acks, pids, seconds=seconds, cores=cores)
            for cores in (ANY_CORE, ONE_CORE)
        ]
        return better(results)

    def send_at_rate(
        self,
        bootstrap: str,
        topic: str,
        rate: int,
        acks: str,
        pids: list[int],
        *,
        seconds: float,
        cores: str = ANY_CORE,
    ) -> dict[str, Any]:
        """What `rdkafka_latency` prints."""
        return run_program(
            self._latency, self._library, bootstrap, topic, rate, seconds, self.effort.latency_warmup_seconds, 100,
            acks, cores, _listed(pids),
        )  # fmt: skip

    def performance_test(self, arena: Arena, system: str, records: int, record_bytes: int) -> Run:
        """kafka-producer-perf-test, Kafka's own program, with the Java client's defaults (acks=all, idempotent)."""
        cluster = arena.cluster(system)
        with arena.topic(cluster, 1, PAGE_CACHE) as topic:
            self.touch(records * record_bytes // MB)
            command = tool_command(
                kafka_jars(), PERFORMANCE_TEST, "--bootstrap-server", cluster.bootstrap, "--topic", topic,
                "--num-records", str(records), "--record-size", str(record_bytes), "--throughput", "-1",
                "--warmup-records", str(records // 5),
            )  # fmt: skip
            cpu = _cpu_seconds(cluster)
            with machine.watch(arena.pids) as seen:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TOOL_SECONDS_MAX)
            cpu = _cpu_seconds(cluster) - cpu
        lines = PERFORMANCE_LINE.findall(done.stdout)
        if done.returncode or not lines:
            raise FailedError(f"kafka-producer-perf-test failed:\n{(done.stdout + done.stderr)[-500:]}")
        mib_s, _, p50_ms, p99_ms = lines[-1]
        figures = {
            "mb_s": float(mib_s) * MIB_IN_MB,
            "cpu_ms_mb": cpu * 1e3 / (records * record_bytes / MB),
            "p50_us": float(p50_ms) * 1e3,
            "p99_us": float(p99_ms) * 1e3,
        }
        return Run(figures, seen.disturbance)

    def warm_up(self, arena: Arena, cluster: Cluster) -> str:
        """Everything that rows do, with every broker as the leader, again and again until it costs no less CPU time
        than before; says what it cost."""
        at_least, at_most = self.effort.warmup_seconds[cluster.system]
        started = time.monotonic()
        costs: list[float] = []
        while True:
            before = _cpu_seconds(cluster)
            for server in cluster.servers:
                self._work_of_all_kinds(arena, cluster, server.node_id)
            costs.append(_cpu_seconds(cluster) - before)
            elapsed = time.monotonic() - started
            if elapsed >= at_most or (elapsed >= at_least and is_steady(costs)):
                state = "steady" if is_steady(costs) else "NOT steady"
                return f"the same work cost {costs[0]:.1f} s of CPU at first, {costs[-1]:.1f} s at last, {state}"

    def _work_of_all_kinds(self, arena: Arena, cluster: Cluster, leader: int) -> None:
        """Large and small messages with and without a codec, one-record requests, reading, single messages."""
        amount = self.effort.amount
        large = Produce(amount(60_000), 1024, "all", warmup_messages=0)
        small = Produce(amount(300_000), 100, "all", codec="lz4", warmup_messages=0)
        with arena.topic(cluster, 1, PAGE_CACHE, leader=leader) as topic:
            for work in (large, small):
                self.fill(cluster, topic, work)
            admin.expect_records(cluster, topic, large.messages + small.messages)
            everything = Produce(large.messages + small.messages, 1024, "all", warmup_messages=0)
            self._consume(cluster, topic, everything)
            frame = requests.produce_frame(topic, ACKS_ALL_CODE, value_bytes=100)
            self._send(cluster, topic, 50, amount(12_000, at_least=100), 100, frame)
        with arena.topic(cluster, 1, PAGE_CACHE, leader=leader) as topic:
            self.send_at_rate(cluster.bootstrap, topic, 3_000, "all", [], seconds=self.effort.latency_seconds / 5)


def is_steady(costs: Sequence[float]) -> bool:
    """Whether neither of the last two is noticeably less than the least before."""
    return len(costs) >= STEADY_COSTS_MIN and min(costs[-2:]) > (1 - STEADY_SHARE) * min(costs[:-2])


def fastest(runs: Sequence[Run]) -> Run:
    """The whole of the run with the most throughput, disturbed if one of them was: a disturbed run may have been it."""
    best = max(runs, key=lambda run: run.figures["mb_s"])
    return Run(best.figures, next((run.disturbance for run in runs if run.disturbance is not None), None))


def better(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole of the run that acknowledged sooner: its other figures are not picked from here and there."""
    return min(results, key=lambda result: float(result["produce_p50_us"]))


def _cpu_seconds(cluster: Cluster) -> float:
    return sum(machine.cpu_seconds(pid) for pid in cluster.pids)


def resident_mb(cluster: Cluster) -> float:
    """What all brokers of a cluster occupy now."""
    return sum(machine.resident_mb(pid) for pid in cluster.pids)


def _listed(pids: list[int]) -> str:
    return ",".join(map(str, pids)) or "0"


def _of_requests(result: dict[str, Any], count: int) -> dict[str, float]:
    return {
        "requests_s": count / result["seconds"],
        "cpu_us": result["server_cpu_seconds"] * 1e6 / count,
        "client_us": result["client_cpu_seconds"] * 1e6 / count,
        "p50_us": result["p50_us"],
        "p99_us": result["p99_us"],
    }


def _latencies(result: dict[str, Any]) -> dict[str, float]:
    figures = {name: float(value) for name, value in result.items() if name.endswith("_us")}
    figures["cpu_us"] = sum(result["broker_cpu_seconds"]) * 1e6 / result["messages"]
    figures["late_share"] = result["late"] / result["messages"]
    return figures


def _throughput(result: dict[str, Any], memory_mb: float) -> dict[str, float]:
    megabytes = result["bytes"] / MB
    return {
        "mb_s": megabytes / result["seconds"],
        "messages_s": result["messages"] / result["seconds"],
        "cpu_ms_mb": sum(result["broker_cpu_seconds"]) * 1e3 / megabytes,
        "client_ms_mb": result["client_cpu_seconds"] * 1e3 / megabytes,
        "rss_mb": memory_mb,
    }
