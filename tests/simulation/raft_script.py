"""Scripts for the elected quorum, in the way of etcd's: a command, `----`, and the log that it must produce.

The world is the level-0 simulator without chance: time stands still, disks and messages wait until they are told to
move, and the invariants watch. `python -m tests.simulation.raft_script FILE…` writes the expected logs anew.

| command                     | what happens                                                                    |
|-----------------------------|---------------------------------------------------------------------------------|
| quorum VOTERS [OBSERVERS]   | nodes 1, 2, … that are not running yet                                           |
| start N…                    | processes begin on what their disks hold                                         |
| kill N…, power-loss N…      | processes end; the second way, with everything that was not synced              |
| expire N…                   | their patience ends, nothing else yet                                            |
| elect N                     | N's patience ends, and everything happens that follows                          |
| win N A…                    | N is elected by the votes of A…, and nobody has heard of it yet                  |
| stabilize [N…]              | disks and messages (among these) move until nothing is left                      |
| deliver A B                 | the oldest message from A to B arrives                                           |
| drop N…                     | everything that these sent and that is still under way is lost                   |
| append N VALUE [RECORDS]    | the client asks N, which leads                                                   |
| cut N… / block A B / heal   | these nodes and the others, or those two, hear nothing of each other / all do     |
| hold-disk N / release-disk N| syncs of N take for ever / complete                                              |
| wait SECONDS / tick N…      | the clocks move / these notice                                                   |
| poll N                      | N's long polls end empty                                                         |
| resign N, snapshot N END    | N stops leading; N keeps the state after END and cuts its log                    |
| lose-synced N BATCHES       | N's disk, not running, lost its last batches although they were synced; doubtful |
| doubt N                     | N's disk, not running, had a hole in what was never synced                       |
| wipe N, stale-disk N OFFSET | another, empty disk; the same disk as it was when it ended at OFFSET             |
| show [N…]                   | role, epoch, log and high watermark                                              |
| verbose / brief / quiet     | log every event and effect / what decides (from the start) / nothing             |
| fetch-size BATCHES          | so many batches in an answer                                                     |
| led-throughout N            | fails (liveness) if N ever lost its leadership                                   |
| converged N…                | fails (liveness) unless these have all that is committed and the newest epoch    |

A block may hold several commands; its log is that of all of them.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hightide.replication.effects import HighWatermarkMoved, TruncateTo
from hightide.replication.events import TimePassed
from hightide.replication.quorum_effects import (
    AnswerVote,
    BecameLeader,
    EndDoubt,
    InstallSnapshot,
    LoadSnapshot,
    LostLeadership,
    PersistVote,
    SendEndEpoch,
    SendVote,
    StopFatally,
)
from hightide.replication.quorum_events import QuorumEvent
from hightide.rules import ALL_ON, Rules
from hightide.sim.level0.kernel import InvariantError, Kernel
from hightide.sim.level0.raft_log import LEADER_CHANGE, SimulatedLog
from hightide.sim.level0.raft_node import RaftNode
from hightide.sim.level0.raft_world import Message, RaftWorld, directory_id
from hightide.types import NO_BROKER

DECIDES = (
    PersistVote, SendVote, AnswerVote, BecameLeader, LostLeadership, SendEndEpoch, TruncateTo, HighWatermarkMoved,
    LoadSnapshot, InstallSnapshot, EndDoubt, StopFatally,
)  # fmt: skip
UNSAID = ("now", "request", "number", "answered_at", "voters")
DELIVERIES_MAX = 10_000
ROUNDS_MAX = 3


def described(thing: Any) -> str:
    """An event or effect as one line: its name and what it says beyond the defaults."""
    words = [type(thing).__name__]
    for name, value in thing._asdict().items():
        if name in UNSAID or "directory" in name or value is None or value is False or (name == "error" and not value):
            continue
        if value is True:
            words.append(name)
        elif name == "error":
            words.append(value.name)
        elif isinstance(value, tuple) and hasattr(value, "_asdict"):
            words.append(f"{name}=({', '.join(f'{key}={part}' for key, part in value._asdict().items())})")
        else:
            words.append(f"{name}={value}")
    return " ".join(words)


class ScriptedKernel(Kernel):
    """Nothing happens by itself."""

    def at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        """A timer: only the script lets time pass."""

    def after(self, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        """The same."""


class ScriptedNode(RaftNode):
    """Says what it is told and what it does."""

    world: "ScriptedWorld"

    def __init__(self, world: "ScriptedWorld", node_id: int, directory: bytes) -> None:
        super().__init__(world, node_id, directory)
        self._do = {kind: self._said(action) for kind, action in self._do.items()}
        self.was_deposed = False

    def _said(self, action: Callable[[Any], None]) -> Callable[[Any], None]:
        def act(effect: Any) -> None:
            if self.world.is_verbose or (not self.world.is_quiet and isinstance(effect, DECIDES)):
                self.world.print(f"{self.id}   {described(effect)}")
            self.was_deposed |= isinstance(effect, LostLeadership)
            if isinstance(effect, StopFatally):
                self.kill()
            else:
                action(effect)

        return act

    def handle(self, event: QuorumEvent) -> None:
        if self.world.is_verbose:
            self.world.print(f"{self.id} {described(event)}")
        super().handle(event)

    @property
    def leads(self) -> bool:
        return self.machine is not None and self.machine.is_leader


class SteadyChance:
    """No surprises: the middle of every range, and the whole of what may be lost."""

    def random(self) -> float:
        return 0.5

    def randint(self, _low: int, high: int) -> int:
        return high


class ScriptedWorld(RaftWorld):
    """Messages and syncs wait in queues."""

    def __init__(self, voters: int, observers: int, rules: Rules) -> None:
        super().__init__(0, voters=voters, rules=rules)
        self.kernel = ScriptedKernel(0)
        self.draws = self.faults = SteadyChance()  # type: ignore[assignment]
        numbers = range(1, voters + observers + 1)
        self.members = {number: ScriptedNode(self, number, directory_id(number, 1)) for number in numbers}
        self.nodes = dict(self.members)
        self.is_verbose = False
        self.is_quiet = False
        self.held: set[int] = set()
        self.lines: list[str] = []
        self._messages: list[tuple[int, int, int | None, Message]] = []
        self._syncs: list[tuple[ScriptedNode, Callable[..., None], tuple[object, ...]]] = []

    def print(self, line: str) -> None:
        self.lines.append(line)

    def send(self, source: RaftNode, target: int, life: int | None, message: Message) -> None:
        self._messages.append((source.id, target, life, message))

    def after_syncs(self, node: RaftNode, count: int, action: Callable[..., None], *arguments: object) -> None:
        self._syncs.append((self.members[node.id], action, arguments))

    def sync(self, among: set[int]) -> bool:
        """Let disks finish; whether any had something to do."""
        ready = [sync for sync in self._syncs if sync[0].id in among and sync[0].id not in self.held]
        self._syncs = [sync for sync in self._syncs if sync not in ready]
        for _, action, arguments in ready:
            action(*arguments)
        return bool(ready)

    def deliver(self, sources: set[int], targets: set[int]) -> bool:
        """The oldest message between these arrives, or is lost if nobody is there; whether there was one."""
        for index, (source, target, life, message) in enumerate(self._messages):
            if source in sources and target in targets:
                del self._messages[index]
                self._arrive(source, target, life, message)
                return True
        return False

    def drop(self, sources: set[int]) -> None:
        self._messages = [message for message in self._messages if message[0] not in sources]

    def stabilize(self, among: set[int]) -> None:
        for _ in range(DELIVERIES_MAX):
            moved = self.sync(among)
            if not self.deliver(among, among) and not moved:
                return
        raise AssertionError("the quorum does not come to rest")


class Script:
    """Runs one script with some rules; `violation` is the invariant that stopped it."""

    def __init__(self, rules: Rules = ALL_ON) -> None:
        self._rules = rules
        self._world: ScriptedWorld | None = None
        self.violation: InvariantError | None = None

    @property
    def world(self) -> ScriptedWorld:
        assert self._world is not None, "a script begins with `quorum`"
        return self._world

    def run(self, blocks: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Each block with the log it really produced, up to a violation."""
        done = []
        for block, _ in blocks:
            output: list[str] = []
            for command in block.splitlines():
                if not command.startswith("#"):
                    output += self._watched(command)
            done.append((block, "\n".join(output)))
            if self.violation is not None:
                break
        return done

    def _watched(self, command: str) -> list[str]:
        if self.violation is not None:
            return []
        try:
            return self._execute(command)
        except InvariantError as error:
            self.violation = error
            return [*self.world.lines, f"!!! {error}"]

    def _execute(self, command: str) -> list[str]:
        name, *words = command.split()
        if name == "quorum":
            voters, observers = int(words[0]), int(words[1]) if len(words) > 1 else 0
            self._world = ScriptedWorld(voters, observers, self._rules)
            return []
        self.world.lines = []
        getattr(self, "_" + name.replace("-", "_"))(*words)
        return self.world.lines

    def _some(self, words: tuple[str, ...]) -> list[ScriptedNode]:
        return [self.world.members[int(word)] for word in words] if words else list(self.world.members.values())

    # ------------------------------------------------------------------ processes, time, network

    def _start(self, *words: str) -> None:
        for node in self._some(words):
            node.start()

    def _kill(self, *words: str) -> None:
        for node in self._some(words):
            node.kill()

    def _power_loss(self, *words: str) -> None:
        for node in self._some(words):
            node.lose_power()

    def _expire(self, *words: str) -> None:
        for node in self._some(words):
            assert node.machine is not None
            deadline = node.machine.next_deadline
            assert deadline is not None
            self.world.kernel.now = max(self.world.kernel.now, deadline)
            node.handle(TimePassed(self.world.kernel.now))

    def _elect(self, word: str) -> None:
        self._expire(word)
        self._stabilize()

    def _win(self, word: str, *words: str) -> None:
        (candidate,), granting = self._some((word,)), self._some(words)
        for node in granting:
            if node.machine is not None and node.machine.leader != NO_BROKER:
                self._expire(str(node.id))
        everybody = {candidate.id, *(node.id for node in granting)}
        self.world.drop(everybody)
        for _ in range(ROUNDS_MAX):  # in the first it may only learn which epoch it is
            self._expire(word)
            while not candidate.leads and self.world.sync(everybody) | self.world.deliver(everybody, everybody):
                pass
            if candidate.leads:
                break
        assert candidate.leads, f"{word} is not elected"
        self.world.drop(everybody)

    def _stabilize(self, *words: str) -> None:
        self.world.stabilize({node.id for node in self._some(words)})

    def _deliver(self, source: str, target: str) -> None:
        found = self.world.deliver({int(source)}, {int(target)})
        assert found, f"nothing is under way from {source} to {target}"

    def _drop(self, *words: str) -> None:
        self.world.drop({int(word) for word in words})

    def _wait(self, seconds: str) -> None:
        self.world.kernel.now += float(seconds)

    def _tick(self, *words: str) -> None:
        for node in self._some(words):
            node.handle(TimePassed(self.world.kernel.now))

    def _poll(self, word: str) -> None:
        self._some((word,))[0].serving.end_polls(float("inf"))

    def _cut(self, *words: str) -> None:
        apart = {int(word) for word in words}
        for node in apart:
            for other in self.world.nodes.keys() - apart:
                self.world.blocked |= {(node, other), (other, node)}

    def _block(self, one: str, other: str) -> None:
        self.world.blocked |= {(int(one), int(other)), (int(other), int(one))}

    def _heal(self) -> None:
        self.world.blocked.clear()

    # ------------------------------------------------------------------ logs and disks

    def _append(self, word: str, value: str, records: str = "1") -> None:
        (node,) = self._some((word,))
        assert node.leads, f"{word} does not lead"
        node.append(int(value), int(records))

    def _hold_disk(self, word: str) -> None:
        self.world.held.add(int(word))

    def _release_disk(self, word: str) -> None:
        self.world.held.discard(int(word))

    def _resign(self, word: str) -> None:
        self.world.resign(self._some((word,))[0])

    def _snapshot(self, word: str, end: str) -> None:
        self._some((word,))[0].take_snapshot(int(end))

    def _lose_synced(self, word: str, batches: str) -> None:
        (node,) = self._some((word,))
        node.log.truncate(node.log.batches[-int(batches)].base)
        self._doubt(word)

    def _doubt(self, word: str) -> None:
        (node,) = self._some((word,))
        node.checkpointed = min(node.checkpointed, node.log.end)
        node.is_doubtful = True

    def _wipe(self, word: str) -> None:
        (node,) = self._some((word,))
        node.directory_id = directory_id(node.id, node.directory_id[1] + 1)
        node.log = SimulatedLog()
        node.snapshot = None
        node.stored_epoch, node.stored_vote, node.checkpointed = 0, -1, 0

    def _stale_disk(self, word: str, offset: str) -> None:
        (node,) = self._some((word,))
        self.world.invariants.trusts_disks = False
        node.log.truncate(int(offset))
        node.checkpointed = min(node.checkpointed, int(offset))

    # ------------------------------------------------------------------ looking

    def _show(self, *words: str) -> None:
        for node in self._some(words):
            self.world.print(self._state(node))

    def _state(self, node: ScriptedNode) -> str:
        log = node.log
        values = [f"{batch.epoch}:{'-' if batch.value == LEADER_CHANGE else batch.value}" for batch in log.batches]
        ends = f"{log.start}..{log.end}" + (f" synced {log.synced_end}" if log.synced_end < log.end else "")
        text = f"log {ends} [{' '.join(values)}]"
        machine = node.machine
        if machine is None:
            return f"{node.id} down, vote {node.stored_epoch}/{node.stored_vote}, {text}"
        role = machine.role.value + (" doubtful" if machine.doubtful else "")
        return f"{node.id} {role} epoch {machine.epoch} leader {machine.leader}, {text} hw {machine.high_watermark}"

    def _led_throughout(self, word: str) -> None:
        (node,) = self._some((word,))
        if node.was_deposed:
            raise InvariantError("liveness", f"{word} was deposed although a majority heard it")

    def _converged(self, *words: str) -> None:
        newest = max(node.machine.epoch for node in self.world.members.values() if node.machine is not None)
        for node in self._some(words):
            machine, committed = node.machine, self.world.invariants.committed_end
            if machine is None or (machine.epoch, machine.high_watermark) != (newest, committed):
                raise InvariantError("liveness", f"{node.id} does not reach epoch {newest} and {committed}")

    def _fetch_size(self, batches: str) -> None:
        for node in self.world.members.values():
            node.batches_per_fetch = int(batches)

    def _verbose(self) -> None:
        self.world.is_verbose, self.world.is_quiet = True, False

    def _brief(self) -> None:
        self.world.is_verbose = self.world.is_quiet = False

    def _quiet(self) -> None:
        self.world.is_verbose, self.world.is_quiet = False, True


# ---------------------------------------------------------------------- files


def parse(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The comment at the top, and (commands with their comments, expected log) for each block."""
    blocks: list[tuple[str, str]] = []
    head: list[str] = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        if "----" not in lines:
            head += lines
            continue
        mark = lines.index("----")
        blocks.append(("\n".join(lines[:mark]), "\n".join(lines[mark + 1 :])))
    return head, blocks


def rewrite(path: Path) -> None:
    """Put the real logs into a script."""
    head, blocks = parse(path.read_text())
    results = Script().run(blocks)
    parts = ["\n".join(head)] if head else []
    parts += [
        f"{block}\n----" + (f"\n{output}" if output else "")
        for (block, _), (_, output) in zip(blocks, results, strict=False)
    ]
    path.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
