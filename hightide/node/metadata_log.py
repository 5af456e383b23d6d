"""The metadata log `__cluster_metadata`: what the cluster agreed on, replayed, and the controller that writes it.

Everything the cluster agreed on is a record here: topics, partitions, settings, brokers, producer ids. Every node
replays what the quorum commits into an immutable image. The node that the quorum elected is the active controller: it
evaluates a command on the newest *appended* image, appends the records, and replies when they are committed (R24); a
controller that loses its seat drops what it appended and answers NOT_CONTROLLER. A single broker is a quorum of one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from errno import ENOSPC
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from hightide import limits
from hightide.errors import ApiError, DiskFullError, ErrorCode, StorageError
from hightide.metadata.controller import Controller
from hightide.metadata.decision import Decision, Reply
from hightide.metadata.image import Delta, Image
from hightide.metadata.records import decode_record, encode_record
from hightide.metadata.settings.broker_values import BrokerSettings
from hightide.node.commits import GroupCommit
from hightide.node.ports import Clock, Timer
from hightide.node.quorum import Quorum
from hightide.rules import Rules
from hightide.storage.log import Log
from hightide.storage.settings import LogSettings
from hightide.storage.space import Space
from hightide.wire.batches import build_batch
from hightide.wire.message import LogRecord
from hightide.wire.messages.control_records import LeaderChangeMessage, LeaderChangeMessageVoter
from hightide.wire.records import ControlType, Record, control_key, iterate_headers, iterate_records

if TYPE_CHECKING:
    from hightide.node.metadata_snapshots import MetadataSnapshots

log = logging.getLogger("hightide.metadata")

Records = list[LogRecord]
SETTINGS = LogSettings(max_message_bytes=limits.METADATA_BATCH_BYTES_MAX, retention_ms=-1, file_delete_delay_ms=0)
TICK_SECONDS = 0.5  # C12: how often the active controller looks for silent brokers
TICK_SECONDS_MIN = 0.01  # the moment when a session ends is met this closely


class StoredRecords(NamedTuple):
    """One batch of the log; control batches have no records."""

    end: int
    epoch: int
    records: Records
    size: int
    timestamp: int


class MetadataLog:
    """The replayed log, and while this node is elected, the controller.

    `image` is what the log stands on. `quorum` and `snapshots` are set right after construction.
    """

    quorum: Quorum
    snapshots: "MetadataSnapshots"

    def __init__(
        self,
        opened: Log,
        image: Image,
        settings: BrokerSettings,
        clock: Clock,
        commits: GroupCommit,
        space: Space,
        publish: Callable[[Image, Delta], None],
        disk_failed: Callable[[Exception], None],
        rules: Rules,
    ) -> None:
        self.log = opened
        self.image = image
        self.controller: Controller | None = None
        self._settings = settings
        self._clock = clock
        self._commits = commits
        self._space = space
        self._publish = publish
        self._disk_failed = disk_failed
        self._rules = rules
        self._applied = image.offset + 1
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._watchers: list[asyncio.Future[None]] = []
        self._sequence = 0
        self._timer: Timer | None = None

    @property
    def high_watermark(self) -> int:
        """Below it everything is committed."""
        return self.quorum.machine.high_watermark

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self.controller is not None

    def replay(self) -> None:
        """Read what is known to be committed into the image, at start and without telling anybody."""
        for batch in stored_batches(self.log, self._applied, self.high_watermark):
            self._apply(batch)

    def _apply(self, batch: StoredRecords) -> Delta:
        self._applied = batch.end
        self.image, delta = self.image.apply(batch.records, batch.end - 1, batch.epoch)
        self.snapshots.noted(batch)
        return delta

    # ------------------------------------------------------------------ what the quorum tells

    def committed(self) -> None:
        """The high watermark moved: apply and publish, then let the replies go."""
        for batch in stored_batches(self.log, self._applied, self.high_watermark):
            delta = self._apply(batch)
            self._publish(self.image, delta)
        if self.controller is not None:
            self.controller.committed(self.image)
        while self._waiters and self._waiters[0][0] <= self.high_watermark:
            _resolve(heappop(self._waiters)[2])
        self.wake()
        self.snapshots.consider()

    def install(self, image: Image, delta: Delta) -> None:
        """A snapshot replaced everything; the log begins at its end."""
        self.image, self._applied = image, image.offset + 1
        self._publish(image, delta)

    def led(self, epoch: int) -> None:
        """Become the active controller, on everything this log holds: committed or not, it will be (R24)."""
        controller = Controller(self.image, self._settings, rules=self._rules)
        for batch in stored_batches(self.log, self._applied, self.log.end):
            controller.replay(batch.records, batch.end - 1, batch.epoch)
        controller.activated(self._clock.now(), epoch)
        self.controller = controller
        log.info("active controller in epoch %d", epoch)
        self._tick()

    def lost(self) -> None:
        """Nothing appended and not committed is promised to anybody any more."""
        if self.controller is not None:
            self.controller.deactivated()
            self.controller = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.fail(ApiError(ErrorCode.NOT_CONTROLLER, "this node is the active controller no more"))
        self.wake()

    def append_leader_change(self, epoch: int, voters: tuple[int, ...]) -> None:
        """R9: the record whose commit is the first of the epoch."""
        everyone = [LeaderChangeMessageVoter(voter_id=voter) for voter in voters]
        leader = self.quorum.machine.node_id
        change = LeaderChangeMessage(version=0, leader_id=leader, voters=everyone, granting_voters=everyone)
        record = Record(0, self._clock.wall_ms(), control_key(ControlType.LEADER_CHANGE), change.encode(0), [])
        self._append_batch(build_batch([record], leader_epoch=epoch, control=True), epoch)

    def synced(self) -> None:
        """A group commit reached this log."""
        self.quorum.advanced()
        self.snapshots.consider()

    def fail(self, error: ApiError) -> None:
        """Nothing that waits here will be committed by this node."""
        waiters, self._waiters = self._waiters, []
        for _, _, future in waiters:
            if not future.done():
                future.set_exception(error)

    def stop(self) -> None:
        """Act no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.snapshots.stop()
        self.quorum.stop()

    # ------------------------------------------------------------------ commands

    async def propose(self, decide: Callable[[Controller], Decision[Reply]]) -> Reply:
        """Evaluate a command, append its records, and give its reply when everything it rests on is committed."""
        controller = self.controller
        if controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        decision = decide(controller)
        if decision.records:
            try:
                self.append(decision.records)
            except StorageError as error:
                self._disk_failed(error)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        await self.wait_committed(self.log.end)
        return decision.reply

    def append(self, records: Records) -> None:
        """Append records that the controller decided on; its image has them at once."""
        assert self.controller is not None
        now_ms, epoch = self._clock.wall_ms(), self.quorum.machine.epoch
        batch = build_batch(
            [Record(index, now_ms, None, encode_record(record), []) for index, record in enumerate(records)],
            leader_epoch=epoch,
        )
        self._append_batch(batch, epoch)
        self.controller.replay(records, self.log.end - 1, epoch)
        self.quorum.advanced()

    def _append_batch(self, batch: bytearray, epoch: int) -> None:
        now_ms = self._clock.wall_ms()
        try:
            self.log.append_own(memoryview(batch), epoch, now_ms)
        except DiskFullError as error:
            self._space.write_failed(OSError(ENOSPC, str(error)))  # gives up the reserve, which is for us
            self.log.append_own(memoryview(batch), epoch, now_ms)
        self._commits.dirty(self)
        self.wake()

    async def progressed(self, high_watermark: int, timeout: float) -> None:
        """Return when something was appended or the high watermark is above this one, or after a while."""
        if self.high_watermark > high_watermark or timeout <= 0:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append(future)
        timer = self._clock.call_later(timeout, _resolve, future)
        try:
            await future
        finally:
            timer.cancel()

    def wake(self) -> None:
        """Let everybody who waits for something to happen look again."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            _resolve(watcher)

    async def wait_committed(self, offset: int) -> None:
        """Return when everything below `offset` is committed; ApiError when this node can't tell any more."""
        if self.high_watermark >= offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heappush(self._waiters, (offset, self._sequence, future))
        await future

    def _tick(self) -> None:
        """Fence silent brokers, balance leaders: whatever the controller does without being asked."""
        self._timer = None
        if self.controller is None:
            return
        decision = self.controller.tick(self._clock.now())
        if decision.records:
            try:
                self.append(decision.records)
            except StorageError as error:
                self._disk_failed(error)
                return
        ends_at = decision.reply.session_ends_at
        left = TICK_SECONDS if ends_at is None else ends_at - self._clock.now()
        self._timer = self._clock.call_later(min(max(left, TICK_SECONDS_MIN), TICK_SECONDS), self._tick)


def stored_batches(opened: Log, start: int, end: int) -> Iterator[StoredRecords]:
    """Each stored batch in [start, end)."""
    offset = start
    while offset < end:
        read = opened.read(offset, limits.METADATA_BATCH_BYTES_MAX, upper_bound=end, min_one_batch=True)
        if read is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log has a gap at offset {offset}")
        data = read.slice.read()
        read.slice.release()
        for position, header in iterate_headers(data):
            offset = header.next_offset
            records: Records = []
            if not header.is_control:
                records = [decode_record(record.value or b"") for record in iterate_records(data, position, header)]
            yield StoredRecords(offset, header.partition_leader_epoch, records, header.size, header.max_timestamp)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
