"""A coordinator at work: one partition of `__consumer_offsets` that this node leads, and its groups in memory.

Loaded from the log when this node becomes the leader, dropped when it stops being so: nothing that was not committed
outlives the leadership (R14). In between, every decision goes the same way: append, apply, wait for the commit, answer.
A leader whose lease ended neither answers nor counts sessions, as another may coordinate the same groups by then.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from hightide import limits
from hightide.coordination.classic_group import Group
from hightide.coordination.coordinator import GroupCoordinator
from hightide.coordination.decisions import Decision, GroupRecord
from hightide.coordination.loading import Loading
from hightide.coordination.records import encode
from hightide.errors import ApiError, ErrorCode
from hightide.node.group_answers import Asked, Uncommitted, send, translated
from hightide.wire.batches import build_batch
from hightide.wire.records import Record, iterate_headers, iterate_records

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition
    from hightide.node.ports import Timer
    from hightide.wire.messages.heartbeat import HeartbeatRequest

log = logging.getLogger("hightide.groups")

CUT_OFF_SECONDS = 0.5  # how often a coordinator without a lease looks whether it has one again

Decide = Callable[[GroupCoordinator, float, int], Decision]


class GroupShard:
    """The groups of one partition, from its load to its end."""

    def __init__(self, node: "Node", partition: "Partition") -> None:
        self.partition = partition
        self.is_loaded = False
        self.is_dropped = False
        self.machine = GroupCoordinator(node.coordinators.settings, node.rules)
        self._node = node
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._was_cut_off = False
        self._refused: ErrorCode | None = None

    # ------------------------------------------------------------------ from load to end

    async def load(self) -> None:
        """Replay the log, all of it: what is not committed yet will be, this being its leader."""
        partition = self.partition
        end = partition.log.end if self._node.rules.r14_load_to_the_end else partition.high_watermark
        loading = Loading()
        await self._read(loading, partition.log.start, end)
        for number, (record, stored_end) in enumerate(loading.newest(), 1):
            self.machine.apply(record, stored_end)
            if number % limits.GROUP_LOAD_STEP == 0:
                await asyncio.sleep(0)
        for problem in loading.unreadable:
            log.error("%s: %s", partition, problem)
        if not self.is_dropped:
            self.machine.loaded(self._node.clock.now())
            self.is_loaded = True
            log.info("coordinating %d groups of %s", len(self.machine.groups), partition)
            self._arm()

    async def _read(self, loading: Loading, offset: int, end: int) -> None:
        number = 0
        while offset < end and not self.is_dropped:
            read = self.partition.read(offset, limits.GROUP_LOAD_BYTES, end, at_least_one=True)
            if read is None:
                return
            data = read.slice.read()
            read.slice.release()
            for position, header in iterate_headers(data):
                offset = header.next_offset
                if header.is_control:
                    continue
                for record in iterate_records(data, position, header):
                    loading.add(record.key, record.value, offset)
                    number += 1
                    if number % limits.GROUP_LOAD_STEP == 0:
                        await asyncio.sleep(0)

    def drop(self) -> None:
        """Leadership is over: everybody who waits looks for the next coordinator."""
        self.is_dropped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for caller in list(self.machine.waiting()):
            assert isinstance(caller, Asked)
            caller.fail(ErrorCode.NOT_COORDINATOR)

    def check(self) -> None:
        """ApiError when this node can't speak for the groups now."""
        now = self._node.clock.now()
        if self.partition.offline_reason is not None or not self.partition.replica.may_append(now):
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not self.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    # ------------------------------------------------------------------ decisions

    def decide(self, decide: Decide) -> None:
        """Evaluate a request on the newest appended state, and carry out what was decided."""
        clock = self._node.clock
        self._heal()
        self.carry_out(decide(self.machine, clock.now(), clock.wall_ms()))

    def heartbeat(self, request: "HeartbeatRequest") -> ErrorCode:
        """A member lives: nothing is stored."""
        self._heal()
        code = self.machine.classic.heartbeat(request, self._node.clock.now())
        self._arm()
        return code

    def carry_out(self, decision: Decision) -> None:
        """Append, apply, and answer when it is committed."""
        rests_on = decision.rests_on
        if decision.records:
            try:
                rests_on = self.append(decision.records)
            except ApiError as error:
                self._complain(error)
                send(decision.answers, error.code)
                self._arm()
                return
        if decision.then is not None:
            decision.then()
        if decision.answers:
            self.when_committed(rests_on, partial(send, decision.answers))
        self._arm()

    def append(self, records: list[GroupRecord]) -> int:
        """Append and apply; the log's end that must be committed. ApiError when the log refuses."""
        now_ms = self._node.clock.wall_ms()
        stored = [Record(index, now_ms, *encode(record), []) for index, record in enumerate(records)]
        appended = self.partition.append(memoryview(build_batch(stored)), -1, now_ms, internal=True)
        end = appended.last_offset + 1
        for record in records:
            self.machine.apply(record, end)
        self._refused = None
        return end

    def _complain(self, error: ApiError) -> None:
        """Say once why nothing can be stored, however many ask meanwhile."""
        if self._refused is not error.code:
            self._refused = error.code
            log.warning("%s: groups can't be stored: %s", self.partition, error)

    def is_committed(self, end: int) -> bool:
        """Whether what rests on the log up to here may be told."""
        return self.partition.high_watermark >= end or not self._node.rules.r14_answer_after_commit

    def when_committed(self, end: int, done: Callable[[ErrorCode], None]) -> None:
        """Tell when everything below `end` is committed, or that nobody will know."""
        if self.is_committed(end):
            done(ErrorCode.NONE)
        else:
            seconds = self._node.settings.offsets_commit_timeout_ms / 1000
            self.partition.wait_for(end, Uncommitted(self._node.deadlines, seconds, done), 0)

    async def committed(self, end: int) -> None:
        """The same for who can wait; ApiError when nobody will know."""
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.when_committed(end, lambda code: None if done.done() else done.set_result(code))
        code = await done
        if code is not ErrorCode.NONE:
            raise ApiError(translated(code))

    # ------------------------------------------------------------------ time

    def _arm(self) -> None:
        due = self.machine.next_deadline
        if due is None or self.is_dropped or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._node.clock.call_later(max(0.0, due - self._node.clock.now()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        clock = self._node.clock
        now = clock.now()
        if not self.partition.replica.may_append(now):
            self._was_cut_off = True
            self._timer_at = now + CUT_OFF_SECONDS
            self._timer = clock.call_later(CUT_OFF_SECONDS, self._tick)
            return
        self._heal()
        while not self.is_dropped:
            decision = self.machine.classic.time_passed(now, clock.wall_ms())
            if decision is None:
                break
            self.carry_out(decision)
        self._arm()

    def _heal(self) -> None:
        """After a time without a lease, nobody is blamed for silence."""
        if self._was_cut_off:
            self._was_cut_off = False
            self.machine.classic.refresh(self._node.clock.now())

    # ------------------------------------------------------------------ chores

    async def sweep(self, forgotten: Callable[[Group], Iterator[GroupRecord]]) -> None:
        """Append tombstones for what may be forgotten of each group, a step at a time.

        Each step is judged and appended in one go, so that nothing that was committed meanwhile goes with it. What
        can't be appended now is found again at the next look.
        """
        for number, group_id in enumerate(list(self.machine.groups), 1):
            while not self.is_dropped and (group := self.machine.groups.get(group_id)) is not None:
                records = list(islice(forgotten(group), limits.GROUP_SWEEP_STEP))
                if not records:
                    break
                try:
                    self.append(records)
                except ApiError as error:
                    log.info("%s: nothing is forgotten now: %s", self.partition, error)
                    return
                await asyncio.sleep(0)
            if number % limits.GROUP_SWEEP_STEP == 0:
                await asyncio.sleep(0)
