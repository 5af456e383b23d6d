"""The controller quorum of the partition simulator: the real controller, a log that is always consistent, failovers.

How a quorum elects and commits is simulated elsewhere (`raft_*`); here it is a law: one log, of which a prefix is
committed, and one active controller per epoch. What matters to partitions is kept: commands are judged on the appended
image and answered when it is committed (R24), a failover may keep or drop what was not committed, and a controller that
was cut off goes on talking to brokers for a while without being able to commit anything (R16).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hightide.metadata.controller import Controller
from hightide.metadata.decision import Decision
from hightide.metadata.image import Delta, Image
from hightide.metadata.settings.broker_values import BrokerSettings
from hightide.wire.message import LogRecord
from hightide.wire.messages.alter_partition import AlterPartitionRequest
from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from hightide.wire.messages.broker_registration import BrokerRegistrationRequest
from hightide.wire.messages.metadata_log import NoOpRecord

if TYPE_CHECKING:
    from hightide.sim.level0.partitions import PartitionWorld

NODES = (101, 102, 103)
TICK_SECONDS = 0.5
METADATA_WAIT_SECONDS = 0.5
RESIGNS_AFTER_SECONDS = 3.0  # without a majority, as R9's check of its quorum
ELECTED_AFTER_SECONDS = 2.0  # the voters' fetch time-out

Answer = Callable[[Any], None]


class MetadataBatch(NamedTuple):
    """What one command appended, and the image it led to. Brokers share the images: replaying is deterministic."""

    records: list[LogRecord]
    image: Image
    delta: Delta


class ActiveController:
    """A controller that leads the quorum, or still believes so."""

    __slots__ = ("branch", "controller", "cut_at", "epoch", "known", "node", "waiting")

    def __init__(self, node: int, epoch: int, controller: Controller, branch: list[MetadataBatch]) -> None:
        self.node = node
        self.epoch = epoch
        self.controller = controller
        self.branch = branch
        """Its log, the uncommitted tail included."""
        self.cut_at: float | None = None
        """Since when nobody of its quorum hears it."""
        self.known: int | None = None
        """How much of the log it knew to be committed then."""
        self.waiting: list[tuple[int, Answer, Any]] = []


class Controllers:
    """The quorum as brokers see it."""

    def __init__(self, world: "PartitionWorld", settings: dict[str, str]) -> None:
        self._world = world
        self._kernel = world.kernel
        self._random = world.kernel.stream("controllers")
        self._settings = BrokerSettings(settings)
        self._epoch = 0
        self._metadata_waiters: list[tuple[int, Answer]] = []
        self._zombie: ActiveController | None = None
        self.log: list[MetadataBatch] = []
        """What is committed."""
        self.active: ActiveController | None = None
        self.failovers = 0
        self._activate(NODES[0], [])
        self._kernel.after(TICK_SECONDS, self._tick)

    @property
    def first_node(self) -> int:
        """Where a broker begins to look."""
        return NODES[0]

    @staticmethod
    def after(node: int) -> int:
        """Where it looks next."""
        return NODES[(NODES.index(node) + 1) % len(NODES)]

    @property
    def image(self) -> Image:
        """The committed image."""
        return self.log[-1].image if self.log else Image()

    # ------------------------------------------------------------------ requests

    def asked(self, node: int, request: Any, answer: Answer) -> None:
        """A broker's request reached a controller node; one that does not lead answers None."""
        leader = self._leader_at(node)
        if leader is None:
            answer(None)
        elif isinstance(request, int):
            self._metadata_asked(leader, request, answer)
        elif isinstance(request, BrokerHeartbeatRequest):
            age = 0.0 if leader.cut_at is None else self._kernel.now - leader.cut_at
            decision = leader.controller.heartbeat(request, self._kernel.now, age)
            self._append(leader, decision.records)
            answer(decision.reply)
        elif isinstance(request, BrokerRegistrationRequest):
            offset = leader.controller.image.offset + 1
            self._decided(leader, leader.controller.register_broker(request, offset, now=self._kernel.now), answer)
        elif isinstance(request, AlterPartitionRequest):
            self._decided(leader, leader.controller.alter_partition(request), answer)
        else:
            raise AssertionError(f"no controller is asked {request}")

    def command(self, decide: Callable[[Controller], Decision[Any]], answer: Answer = lambda _: None) -> bool:
        """An administrator's command, if there is a controller to take it."""
        if self.active is None or self.active.cut_at is not None:
            return False
        self._decided(self.active, decide(self.active.controller), answer)
        return True

    def _leader_at(self, node: int) -> ActiveController | None:
        for leader in (self.active, self._zombie):
            if leader is not None and leader.node == node:
                return leader
        return None

    def _metadata_asked(self, leader: ActiveController, applied: int, answer: Answer) -> None:
        """Committed batches, at once or when there are some; one that was cut off knows of no new ones."""
        known = len(self.log) if leader.known is None else leader.known
        if known > applied:
            answer(self.log[applied:known])
            return
        if leader.known is None:
            self._metadata_waiters.append((applied, answer))
        self._kernel.after(METADATA_WAIT_SECONDS, self._metadata_waited, applied, answer)

    def _metadata_waited(self, applied: int, answer: Answer) -> None:
        if (applied, answer) in self._metadata_waiters:
            self._metadata_waiters.remove((applied, answer))
        answer([])

    # ------------------------------------------------------------------ the log

    def _decided(self, leader: ActiveController, decision: Decision[Any], answer: Answer) -> None:
        """R24: a reply waits until everything it read or wrote is committed."""
        self._append(leader, decision.records)
        if len(self.log) >= len(leader.branch) and leader is self.active:
            answer(decision.reply)
        else:
            leader.waiting.append((len(leader.branch), answer, decision.reply))

    def _append(self, leader: ActiveController, records: list[LogRecord]) -> None:
        if not records:
            return
        image, delta = leader.controller.replay(records, leader.controller.image.offset + len(records), leader.epoch)
        leader.branch.append(MetadataBatch(records, image, delta))
        self._kernel.after(self._world.commit_seconds(), self._committed, leader, len(leader.branch))

    def _committed(self, leader: ActiveController, length: int) -> None:
        if leader is not self.active or leader.cut_at is not None or length <= len(self.log):
            return
        news = leader.branch[len(self.log) : length]
        for batch in news:
            self.log.append(batch)
            leader.controller.committed(batch.image)
            self._world.metadata_committed(batch)
        waiters, self._metadata_waiters = self._metadata_waiters, []
        for applied, answer in waiters:
            answer(self.log[applied:])
        waiting, leader.waiting = leader.waiting, []
        for entry in waiting:
            needed, answer, reply = entry
            if needed <= len(self.log):
                answer(reply)
            else:
                leader.waiting.append(entry)

    # ------------------------------------------------------------------ failover

    def crash(self) -> None:
        """The active controller dies; what it had not committed may survive on others, or not."""
        leader, self.active = self.active, None
        if leader is not None:
            self._world.network.kill(leader.node)
            self._elect_later(leader)

    def cut_off(self) -> None:
        """The active controller loses its quorum and does not know it yet."""
        leader = self.active
        if leader is not None and leader.cut_at is None and self._zombie is None:
            leader.cut_at, leader.known = self._kernel.now, len(self.log)
            self._zombie, self.active = leader, None
            self._elect_later(leader)
            self._kernel.after(RESIGNS_AFTER_SECONDS, self._resign, leader)

    def _resign(self, leader: ActiveController) -> None:
        """R9, R24: without a majority it steps down, and its tail and unanswered replies go."""
        leader.controller.deactivated()
        if self._zombie is leader:
            self._zombie = None

    def _elect_later(self, former: ActiveController) -> None:
        self.failovers += 1
        tail = former.branch[len(self.log) :]
        kept = self._random.randint(0, len(tail))
        delay = ELECTED_AFTER_SECONDS
        if not self._world.options.steady:
            # A voter that lost its connection stands at once; one that hears nothing waits for its time-out.
            delay += self._random.random() if former.cut_at is not None else -self._random.random()
        branch = [*self.log, *tail[:kept]]
        self._kernel.after(delay, self._activate, self.after(former.node), branch)

    def _activate(self, node: int, branch: list[MetadataBatch]) -> None:
        if self.active is not None:
            return
        self._epoch += 1
        image = branch[-1].image if branch else Image()
        controller = Controller(image, self._settings, rules=self._world.rules)
        controller.activated(self._kernel.now, self._epoch)
        self.active = ActiveController(node, self._epoch, controller, list(branch))
        self._append(self.active, [NoOpRecord()])

    def _tick(self) -> None:
        leader = self.active
        if leader is not None:
            self._append(leader, leader.controller.tick(self._kernel.now).records)
        self._kernel.after(TICK_SECONDS, self._tick)
