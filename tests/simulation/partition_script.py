"""Text scripts for the partition simulator: a cluster whose every delay is known, and a person who makes the trouble.

A script is a list of blocks: one or more commands, a line `----`, and what happened, up to an empty line. The expected
output is the timeline itself, so a script reads like a story and is written by running it. A line `off <rule>: <name>`
in its head says that without that rule the same script ends with that finding.

| command                                   | meaning                                                          |
|-------------------------------------------|------------------------------------------------------------------|
| brokers 3 [lease=loose] [loss=allowed]    | the cluster; comes first                                         |
| topic t 1,2,3 [min=2] [durability=fsync]  | one partition with this assignment                               |
| delete t, set t key=value, lead t 2       | an administrator's commands                                      |
| run 1.5                                   | let seconds pass                                                 |
| produce t [3] [acks=1] [at=5] [to=1]      | records, each until it is answered or for a second; at: from     |
| produce t again                           | that number on; to: this broker; again: the last one once more   |
| kill 1, start 1, stop 1, wipe 1           | a broker's process, and its disk                                 |
| power 1 [keep=2]                          | power loss; keep: how many records survive that were not synced  |
| pause 1 2.5                               | SIGSTOP for a while                                              |
| cut 1 2,3,c; cut 1>2; heal                | partitions; c stands for the controllers                         |
| hold KIND 2>1, release, drop              | messages of one kind: fetch, answer, alter, altered, beat,       |
|                                           | beaten, register, registered, metadata                           |
| pass KIND 2>1 [3]                         | the first (the third) one that is held goes on                   |
| slow 1 2.0, fast 1, sync 1                | how long an fsync of a broker takes; begin one                   |
| controller crash, controller cut          | the active controller dies, or loses its quorum                  |
| disk 1 t e0:10 e2:15                      | what the disk of a dead broker holds                             |
| show t, well, converge 30                 | every replica; whether all is well, now or within some seconds   |
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hightide.errors import ErrorCode
from hightide.metadata.controller import Controller
from hightide.metadata.decision import Decision
from hightide.metadata.entities import Topic
from hightide.rules import ALL_ON, Rules
from hightide.sim.level0.kernel import InvariantError
from hightide.sim.level0.network import Hold
from hightide.sim.level0.partition_controllers import NODES
from hightide.sim.level0.partition_faults import set_topic
from hightide.sim.level0.partition_log import PartitionLog
from hightide.sim.level0.partition_messages import matcher
from hightide.sim.level0.partitions import Options, PartitionWorld, check_liveness
from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from hightide.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from hightide.wire.messages.metadata_log import PartitionChangeRecord

PRODUCE_SECONDS = 1.0
SEPARATOR = "----"


class Script:
    """One script on one world. `run_script` is the usual way to it."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cluster: PartitionWorld | None = None
        self._holds: dict[tuple[str, ...], Hold] = {}
        self._sequences: dict[bytes, int] = {}
        self._output: list[str] = []
        self._commands: dict[str, Callable[..., None]] = {
            name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }

    @property
    def world(self) -> PartitionWorld:
        """The cluster."""
        assert self._cluster is not None, "a script begins with `brokers`"
        return self._cluster

    def run(self, command: str) -> list[str]:
        """One command; what happened."""
        name, *arguments = command.split()
        words = [argument for argument in arguments if "=" not in argument]
        fields = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        self._output = []
        told = 0 if self._cluster is None else len(self._cluster.trace.timeline)
        self._commands[name](*words, **fields)
        happened = [line.lstrip().split("  ", 1)[1] for line in self.world.trace.timeline[told:]]
        return happened + self._output

    # ------------------------------------------------------------------ the cluster

    def do_brokers(self, count: str, lease: str = "strict", loss: str = "never") -> None:
        options = Options(
            brokers=int(count), lease_strict=lease == "strict", loses_at_will=loss == "allowed", steady=True
        )
        self._cluster = PartitionWorld(0, options, self._rules, keeps_timeline=True)
        self._cluster.kernel.run(2.0)

    def do_topic(self, name: str, assignment: str, min: str = "2", durability: str = "fsync") -> None:  # noqa: A002
        brokers = tuple(map(int, assignment.split(",")))
        self.world.create_topic(name, assignment=brokers, minimum=int(min), durability=durability)
        self.do_run("0.5")

    def do_delete(self, name: str) -> None:
        topics = [DeleteTopicState(name=name)]
        self._command(lambda controller: controller.delete_topics(DeleteTopicsRequest(topics=topics), 6))

    def do_set(self, name: str, **settings: str) -> None:
        for key, value in settings.items():
            request = set_topic(name, key, value)
            self._command(partial(_alter, request=request))

    def do_lead(self, name: str, leader: str) -> None:
        record = PartitionChangeRecord(topic_id=self._topic(name).topic_id, partition_id=0, leader=int(leader))
        self._command(lambda _: Decision([record], None))

    def _command(self, decide: Callable[[Controller], Decision[Any]]) -> None:
        assert self.world.controllers.command(decide), "there is no controller"
        self.world.kernel.run(self.world.kernel.now + 0.05)

    # ------------------------------------------------------------------ time and clients

    def do_run(self, seconds: str) -> None:
        self.world.kernel.run(self.world.kernel.now + float(seconds))

    def do_produce(self, name: str, count: str = "1", acks: str = "all", at: str = "", to: str = "-1") -> None:
        topic_id = self._topic(name).topic_id
        first = self._sequences.get(topic_id, 0)
        if count == "again":
            count, first = "1", first - 1
        elif at:
            first = int(at)
        for sequence in range(first, first + int(count)):
            self._sequences[topic_id] = sequence + 1
            self._produce(name, sequence, int(to), acks_all=acks == "all")

    def _produce(self, name: str, sequence: int, leader: int, *, acks_all: bool) -> None:
        world = self.world
        topic = self._topic(name)
        leader = topic.partitions[0].leader if leader < 0 else leader
        process = world.processes.get(leader)
        replica = None if process is None else process.replicas.get((topic.topic_id, 0))
        if replica is None:
            self._output.append(f"produce {sequence}: broker {leader} does not answer")
            return
        answers: list[ErrorCode] = []
        replica.produce(self._producer(topic), sequence, acks_all, answers.append)
        deadline = world.kernel.now + PRODUCE_SECONDS
        while not answers and world.kernel.now < deadline:
            world.kernel.run(min(deadline, world.kernel.now + 0.01))
        result = answers[0].name if answers else "no answer yet"
        self._output.append(f"produce {sequence}: {result}")

    def _producer(self, topic: Topic) -> int:
        return int.from_bytes(topic.topic_id[-2:], "big")

    # ------------------------------------------------------------------ trouble

    def do_kill(self, broker: str) -> None:
        self.world.kill(int(broker))

    def do_start(self, broker: str) -> None:
        self.world.start(int(broker))

    def do_stop(self, broker: str) -> None:
        self.world.processes[int(broker)].wants_stop = True

    def do_power(self, broker: str, keep: str = "0") -> None:
        self.world.lose_power(int(broker), keeps=int(keep))

    def do_wipe(self, broker: str) -> None:
        self.world.wipe(int(broker))

    def do_pause(self, broker: str, seconds: str) -> None:
        self.world.pause(int(broker), float(seconds))

    def do_cut(self, who: str, targets: str = "") -> None:
        if ">" in who:
            source, target = who.split(">")
            self.world.network.block(_nodes(source), _nodes(target), both_ways=False)
        else:
            self.world.network.block(_nodes(who), _nodes(targets))

    def do_heal(self) -> None:
        self.world.network.heal()

    def do_hold(self, kind: str, way: str) -> None:
        sources, targets = (_nodes(side) for side in way.split(">"))
        hold = self._holds[kind, way] = Hold(matcher(kind, sources, targets))
        self.world.network.holds.append(hold)

    def do_release(self, kind: str, way: str) -> None:
        self.world.network.release(self._holds.pop((kind, way)))

    def do_drop(self, kind: str, way: str) -> None:
        self.world.network.release(self._holds.pop((kind, way)), deliver=False)

    def do_pass(self, kind: str, way: str, number: str = "1") -> None:
        """One message that is held goes on, the hold stays."""
        stream, action, arguments = self._holds[kind, way].messages.pop(int(number) - 1)
        self.world.network.deliver(stream, action, arguments)

    def do_slow(self, broker: str, seconds: str) -> None:
        self.world.slow_disks[int(broker)] = float(seconds)

    def do_fast(self, broker: str) -> None:
        self.world.speed_up(int(broker))

    def do_sync(self, broker: str) -> None:
        """A flush by time or size, which `replicated` topics have too."""
        process = self.world.processes[int(broker)]
        for replica in process.replicas.values():
            process.dirty(replica)

    def do_controller(self, what: str) -> None:
        controllers = self.world.controllers
        controllers.crash() if what == "crash" else controllers.cut_off()

    def do_disk(self, broker: str, name: str, *epochs: str) -> None:
        disk = self.world.disks[int(broker)]
        log = disk.logs[name, 0] = PartitionLog(self._topic(name).topic_id)
        for text in epochs:
            epoch, count = text.removeprefix("e").split(":")
            for _ in range(int(count)):
                log.append((int(epoch), -1, log.end))
        log.sync_all()

    # ------------------------------------------------------------------ looking

    def do_show(self, name: str) -> None:
        topic = self._topic(name)
        for broker_id in topic.partitions[0].replicas:
            log = self.world.disks[broker_id].logs.get((name, 0))
            process = self.world.processes.get(broker_id)
            replica = None if process is None else process.replicas.get((topic.topic_id, 0))
            text = f"broker {broker_id}: {_epochs(log)}"
            if log is not None and log.synced_end < log.end:
                text += f" synced {log.synced_end}"
            if process is None:
                text += ", dead"
            elif replica is None:
                text += ", no role"
            else:
                machine = replica.machine
                role = "leader" if machine.is_leader else f"follower of {machine.leader}"
                text += f", {role} in epoch {machine.leader_epoch}, high watermark {machine.high_watermark}"
            self._output.append(text)

    def do_well(self) -> None:
        self._output += list(self.world.unwell()) or ["all is well"]

    def do_converge(self, seconds: str) -> None:
        check_liveness(self.world, [], float(seconds))
        self._output.append("all is well")

    def _topic(self, name: str) -> Topic:
        topic = self.world.controllers.image.topic_named(name)
        assert topic is not None, f"there is no topic {name}"
        return topic


def _alter(
    controller: Controller, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    return controller.incremental_alter_configs(request)


def _nodes(text: str) -> set[int]:
    return {node for part in text.split(",") for node in (NODES if part == "c" else (int(part),))}


def _epochs(log: PartitionLog | None) -> str:
    if log is None:
        return "no log"
    runs: list[list[int]] = []
    for offset in range(log.start, log.end):
        epoch = log.records[offset][0]
        if not runs or runs[-1][0] != epoch:
            runs.append([epoch, offset, offset])
        runs[-1][2] = offset + 1
    return " ".join(f"e{epoch}[{start},{end})" for epoch, start, end in runs) or f"empty at {log.end}"


def expectations(text: str) -> dict[str, str]:
    """The head of a script: rule → the finding it ends with when that rule is off."""
    found = {}
    for line in text.splitlines():
        if line.startswith("off "):
            rule, name = line.removeprefix("off ").split(": ")
            found[rule] = name
    return found


def run_script(text: str, rules: Rules = ALL_ON) -> tuple[str, InvariantError | None]:
    """The script with what happened written in, and the finding that ended it, if any."""
    script = Script(rules)
    written: list[str] = []
    commands: list[str] = []
    is_output = False
    for line in [*text.rstrip("\n").splitlines(), ""]:
        if is_output and line:
            continue
        if line == SEPARATOR:
            written.append(line)
            try:
                for command in commands:
                    written += script.run(command)
            except InvariantError as error:
                return "\n".join([*written, str(error)]) + "\n", error
            commands, is_output = [], True
            continue
        is_output = False
        if line and not line.startswith(("#", "off ")):
            commands.append(line)
        written.append(line)
    return "\n".join(written).rstrip("\n") + "\n", None


def main(paths: list[str]) -> None:
    """Write the expected output of these scripts anew."""
    for path in map(Path, paths):
        text, finding = run_script(path.read_text())
        path.write_text(text)
        print(f"{path}: {finding or 'written'}")


if __name__ == "__main__":
    main(sys.argv[1:])
