"""A consumer group of processes and a producer, and what they told, judged by K16 and by what was read."""

import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from types import TracebackType
from typing import IO, Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from hightide.coordination.partitioning import partition_of
from hightide.sim.history import groups
from hightide.sim.history.findings import describe
from hightide.sim.history.operations import Commit, Ownership
from hightide.sim.history.recorder import History
from hightide.testing import Cluster
from hightide.testing.places import OFFSETS_PARTITIONS
from hightide.types import OFFSETS_TOPIC
from hightide.types import TopicPartition as Place

PARTITIONS = 6
PROGRESS_SECONDS = 90.0
STOP_SECONDS = 60.0
SEND_SECONDS = 0.01


class Member:
    """One process, and the lines it wrote."""

    def __init__(self, name: str, engine: str, bootstrap: str, group: str, topic: str) -> None:
        self.name = name
        self.lines: list[dict[str, Any]] = []
        self.read = 0
        self.died_at: float | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.group_process", engine, bootstrap, group, topic],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self._thread = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._thread.start()

    def _listen(self, output: IO[bytes]) -> None:
        for line in output:
            if line.endswith(b"\n"):
                told = json.loads(line)
                self.lines.append(told)
                self.read += len(told.get("records", ()))

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """Leave the group in peace."""
        self._process.terminate()
        self._end()

    def _end(self) -> None:
        self._process.wait(STOP_SECONDS)
        self.died_at = time.monotonic()
        self._thread.join(STOP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


class GroupStory:
    """`with GroupStory(cluster, "librdkafka") as story:` runs members and a producer until the end of the block."""

    def __init__(self, cluster: Cluster, engine: str, members: int = 3) -> None:
        self.cluster = cluster
        self.engine = engine
        self.group = f"group-{engine}"
        self.topic = f"topic-{engine}"
        self.members: list[Member] = []
        self.acknowledged: set[str] = set()
        cluster.create_topic(self.topic, PARTITIONS)
        self._count = members
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for _ in range(self._count):
            self.start_member()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(STOP_SECONDS)
        if error is None:
            self._await(lambda: self.acknowledged <= self.values(), "everything that was acknowledged is read")
        for member in self.living:
            member.stop() if error is None else member.kill()

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 1000,
                "socket.timeout.ms": 5000,
                "log_level": 0,
            }
        )

        def delivered(error: object, message: Any) -> None:
            if error is None:
                self.acknowledged.add(message.value().decode())

        number = 0
        while not self._stopping.wait(SEND_SECONDS):
            number += 1
            producer.produce(self.topic, f"v{number}", partition=number % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
        producer.flush(STOP_SECONDS)

    # ------------------------------------------------------------------ what happens

    def start_member(self) -> Member:
        """One more process."""
        member = Member(f"member-{len(self.members) + 1}", self.engine, self.cluster.bootstrap, self.group, self.topic)
        self.members.append(member)
        return member

    @property
    def living(self) -> list[Member]:
        """The members that were not killed."""
        return [member for member in self.members if member.died_at is None]

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        leader = self.cluster.leader_of(OFFSETS_TOPIC, partition_of(self.group, OFFSETS_PARTITIONS))
        assert leader is not None
        return leader

    def owned(self) -> list[int]:
        """All partitions that living members own, as they told."""
        owned: list[int] = []
        for member in self.living:
            told = [line for line in list(member.lines) if line["what"] in ("assigned", "revoked")]
            if told and told[-1]["what"] == "assigned":
                owned += told[-1]["partitions"]
        return sorted(owned)

    def values(self) -> set[str]:
        """Everything that any member read."""
        return {
            value for member in self.members for line in list(member.lines) for _, _, value in line.get("records", ())
        }

    def go_on(self, count: int = 100) -> None:
        """Wait until everything is owned once by the living, and they have read that many more."""
        self._await(lambda: self.owned() == list(range(PARTITIONS)), "every partition has an owner")
        before = sum(member.read for member in self.living)
        self._await(lambda: sum(member.read for member in self.living) >= before + count, "the group reads on")

    def _await(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS
        wake = threading.Event()
        while not condition():
            for member in self.members:
                assert not member.lines or member.lines[-1]["what"] != "crashed", f"{member.name}: {member.lines[-1]}"
            if time.monotonic() > deadline:
                last = [(member.name, member.lines[-3:]) for member in self.members]
                raise AssertionError(f"not after {PROGRESS_SECONDS} s: {what}; {last}")
            wake.wait(0.05)

    # ------------------------------------------------------------------ the judgement

    def judge(self) -> None:
        """No two owners, no offset that goes back, and every record below a committed offset was read."""
        history = self._history()
        final = self._committed(history)
        findings = groups.check(history)
        assert findings == [], describe(findings)
        read: defaultdict[int, set[int]] = defaultdict(set)
        for member in self.members:
            for line in member.lines:
                for part, offset, _ in line.get("records", ()):
                    read[part].add(offset)
        for part, offset in final.items():
            missing = set(range(offset)) - read[part]
            assert not missing, f"partition {part}: committed up to {offset}, never read: {sorted(missing)[:10]}"
        assert sum(final.values()) >= len(self.acknowledged), "everything was committed in the end"

    def _history(self) -> History:
        """The lines of all members in the order of their times, as a history."""
        now = 0.0
        history = History(lambda: now)
        events = [(line["at"], member, line) for member in self.members for line in member.lines]
        events += [(member.died_at or 0.0, member, {"what": "died"}) for member in self.members]
        owned: dict[Member, Ownership] = {}
        commits: dict[Member, Commit] = {}
        for at, member, line in sorted(events, key=lambda event: event[0]):
            now = at
            match line["what"]:
                case "assigned":
                    places = [Place(self.topic, part) for part in line["partitions"]]
                    owned[member] = history.owned(member.name, self.group, places)
                case "revoked" | "died" if member in owned:
                    history.gave_up(owned.pop(member))
                case "committing":
                    offsets = {Place(self.topic, int(part)): offset for part, offset in line["offsets"].items()}
                    commits[member] = history.begin_commit(member.name, self.group, offsets)
                case "committed":
                    history.committed(commits[member])
                case "refused":
                    history.failed(commits[member], line["reason"])
                case "unknown":
                    history.unknown(commits[member], line["reason"])
        assert any(commit.outcome.value == "ok" for commit in history.commits)
        return history

    def _committed(self, history: History) -> dict[int, int]:
        """What the group committed, as a fresh client is told."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": self.group, "log_level": 0})
        asked = history.moment()
        told: list[TopicPartition] = []

        def is_told() -> bool:
            try:
                wanted = [TopicPartition(self.topic, part) for part in range(PARTITIONS)]
                told[:] = consumer.committed(wanted, timeout=10)
            except KafkaException:  # librdkafka leaves it to us to ask again when the coordinator has just moved
                return False
            return True

        self._await(is_told, "a fresh client is told what was committed")
        consumer.close()
        offsets = {each.partition: max(-1, each.offset) for each in told}
        named = {Place(self.topic, part): offset for part, offset in offsets.items()}
        history.read_committed("fresh", self.group, named, asked=asked)
        return {part: max(0, offset) for part, offset in offsets.items()}
