"""A broker that may coordinate, at level 0: its copy of the coordinator's log, and while it leads, the real machine.

What `node.group_shards` does with a partition is done here with a list of batches: append, apply, wait for the high
watermark, answer. Replication is told in a few lines, because other simulations have it as their subject: followers
fetch, the high watermark is the lowest position of the in-sync set, a new leader is one of that set.
"""

from typing import TYPE_CHECKING, NamedTuple

from hightide.coordination.coordinator import GroupCoordinator
from hightide.coordination.decisions import Answer, Decision
from hightide.coordination.loading import Loading
from hightide.coordination.records import encode
from hightide.coordination.settings import GroupSettings
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.messages.offset_commit import OffsetCommitResponse

if TYPE_CHECKING:
    from hightide.sim.level0.group_member import Call
    from hightide.sim.level0.group_world import GroupWorld

SETTINGS = GroupSettings(initial_rebalance_delay=1.0)
GROUP = "g"
MIN_IN_SYNC = 2
COMMIT_SECONDS = 5.0


class Batch(NamedTuple):
    """What one decision appended."""

    epoch: int
    records: tuple[tuple[bytes, bytes | None], ...]


class Waiting(NamedTuple):
    """Answers that rest on the log up to here, and until when they wait."""

    end: int
    until: float
    answers: list[Answer]


class GroupBroker:
    """One broker. `epoch` is that of its leadership, -1 while it follows; `log` survives a crash."""

    def __init__(self, world: "GroupWorld", broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.log: list[Batch] = []
        self.high_watermark = 0
        self.is_up = True
        self.is_cut_off = False
        self.epoch = -1
        self.in_sync: set[int] = set()
        self.positions: dict[int, int] = {}
        self.machine: GroupCoordinator | None = None
        self.is_loaded = False
        self.lease_until = float("inf")
        self.dies_after_answer = False
        """A fault: the next answer to a commit is the last thing it does."""
        self._waiting: list[Waiting] = []
        self._armed_at = float("inf")
        self._was_cut_off = False

    # ------------------------------------------------------------------ leadership

    def lead(self, epoch: int, in_sync: set[int]) -> None:
        """Become the leader of the log, and load it."""
        self.epoch, self.in_sync, self.positions = epoch, set(in_sync), {}
        keeps = not self.world.rules.r14_state_ends_with_leadership
        if self.machine is None or not keeps:
            self.machine = GroupCoordinator(SETTINGS, self.world.rules)
            self.world.kernel.after(max(0.0, self.world.network.uniform(-0.3, 0.5)), self._load, epoch)

    def _load(self, epoch: int) -> None:
        if self.epoch != epoch or not self.is_up or self.machine is None:
            return
        end = len(self.log) if self.world.rules.r14_load_to_the_end else self.high_watermark
        loading = Loading()
        for number, batch in enumerate(self.log[:end], 1):
            for key, value in batch.records:
                loading.add(key, value, number)
        for record, stored_end in loading.newest():
            self.machine.apply(record, stored_end)
        self.machine.loaded(self.world.kernel.now)
        self.is_loaded = True
        self._arm()

    def resign(self) -> None:
        """Follow again: everything that was not committed is nobody's."""
        if self.epoch < 0:
            return
        self.epoch = -1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._fail(each.answers, ErrorCode.NOT_COORDINATOR)
        if self.machine is not None and self.world.rules.r14_state_ends_with_leadership:
            for caller in list(self.machine.waiting()):
                self.world.reply(caller, ErrorCode.NOT_COORDINATOR)
            self.machine, self.is_loaded = None, False

    def crash(self) -> None:
        """The process is gone, and with it everything but the log."""
        self.is_up, self.epoch, self.machine, self.is_loaded = False, -1, None, False
        self._waiting = []

    # ------------------------------------------------------------------ the log

    def append(self, records: list[tuple[bytes, bytes | None]]) -> int:
        """The log's end after it."""
        if len(self.in_sync) < MIN_IN_SYNC:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.log.append(Batch(self.epoch, tuple(records)))
        return len(self.log)

    def advance(self) -> None:
        """The high watermark goes as far as every member of the in-sync set is, and answers go with it."""
        ends = [len(self.log) if each == self.broker_id else self.positions.get(each, 0) for each in self.in_sync]
        if len(ends) >= MIN_IN_SYNC:
            self.high_watermark = max(self.high_watermark, min(ends))
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.end <= self.high_watermark:
                self._send(each.answers)
            elif each.until <= self.world.kernel.now:
                self._fail(each.answers, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self._waiting.append(each)

    def follow(self, leader: "GroupBroker") -> None:
        """One fetch: drop what the leader does not have, tell the position, take what is new."""
        same = min(len(self.log), len(leader.log))
        while same and self.log[same - 1].epoch != leader.log[same - 1].epoch:
            same -= 1  # the same epoch at an offset is the same log up to there
        del self.log[same:]
        leader.positions[self.broker_id] = same
        leader.advance()
        self.log += leader.log[same:]
        self.high_watermark = max(self.high_watermark, min(leader.high_watermark, same))

    # ------------------------------------------------------------------ requests

    def handle(self, call: "Call") -> None:
        """A request arrives."""
        machine = self.machine
        now = self.world.kernel.now
        if machine is None or self.epoch < 0 or now >= self.lease_until:
            self.world.reply(call, ErrorCode.NOT_COORDINATOR)
            return
        if not self.is_loaded:
            self.world.reply(call, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._heal()
        now_ms = int(now * 1000)
        match call.kind:
            case "join":
                assert call.joiner is not None
                self._carry_out(machine.classic.join(call.request, call.joiner, now, now_ms))
            case "sync":
                self._carry_out(machine.classic.sync(call.request, call, now, now_ms))
            case "heartbeat":
                self.world.reply(call, machine.classic.heartbeat(call.request, now))
            case "leave":
                self._carry_out(machine.classic.leave(call.request, call, now, now_ms))
            case "commit":
                self._carry_out(machine.offsets.commit(call.request, call, now, now_ms))
            case "fetch":
                found = {
                    place: -1 if (offset := machine.offsets.fetch(GROUP, place)) is None else offset.offset
                    for place in call.request
                }
                self._when_committed(machine.offsets.rests_on(GROUP), [Answer(call, found)])  # type: ignore[arg-type]
        self._arm()

    def _carry_out(self, decision: Decision) -> None:
        assert self.machine is not None
        rests_on = decision.rests_on
        if decision.records:
            try:
                rests_on = self.append([encode(record) for record in decision.records])
            except ApiError as error:
                self._fail(decision.answers, error.code)
                return
            for record in decision.records:
                self.machine.apply(record, rests_on)
        if decision.then is not None:
            decision.then()
        self._when_committed(rests_on, decision.answers)

    def _when_committed(self, end: int, answers: list[Answer]) -> None:
        if end <= self.high_watermark or not self.world.rules.r14_answer_after_commit:
            self._send(answers)
        elif answers:
            self._waiting.append(Waiting(end, self.world.kernel.now + COMMIT_SECONDS, answers))

    def _send(self, answers: list[Answer]) -> None:
        for caller, message in answers:
            self.world.reply(caller, message)
            if self.dies_after_answer and isinstance(message, OffsetCommitResponse):
                self.dies_after_answer = False
                self.world.kernel.after(0.0, self.world.crash_if_possible, self)

    def _fail(self, answers: list[Answer], code: ErrorCode) -> None:
        for caller, _ in answers:
            self.world.reply(caller, code)

    # ------------------------------------------------------------------ time

    def _arm(self) -> None:
        due = None if self.machine is None else self.machine.next_deadline
        if due is not None and due < self._armed_at:
            self._armed_at = due
            self.world.kernel.at(due, self._tick, due)

    def _tick(self, armed_at: float) -> None:
        if armed_at != self._armed_at:
            return
        self._armed_at = float("inf")
        now = self.world.kernel.now
        if self.machine is None or self.epoch < 0:
            return
        if now >= self.lease_until:
            self._was_cut_off = True
            self._armed_at = now + 0.5
            self.world.kernel.at(self._armed_at, self._tick, self._armed_at)
            return
        self._heal()
        while (decision := self.machine.classic.time_passed(now, int(now * 1000))) is not None:
            self._carry_out(decision)
        self._arm()

    def _heal(self) -> None:
        if self._was_cut_off and self.machine is not None:
            self._was_cut_off = False
            self.machine.classic.refresh(self.world.kernel.now)

    def committed(self, place: TopicPartition) -> int:
        """What this coordinator says was committed."""
        assert self.machine is not None
        found = self.machine.offsets.fetch(GROUP, place)
        return -1 if found is None else found.offset
