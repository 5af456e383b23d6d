"""The metadata log `__cluster_metadata` and the controller that writes it.

Everything the cluster agreed on is a record here: topics, partitions, settings, brokers, producer ids. A command is
evaluated on the newest *appended* image, its records are appended, and its reply waits until they are committed (R24).
Brokers see committed images only. The quorum has one voter here: this node. Its commit is the majority rule all the
same, so that a larger quorum changes how entries commit and nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from errno import ENOSPC
from heapq import heappop, heappush

from hightide import limits
from hightide.errors import ApiError, DiskFullError, ErrorCode, StorageError
from hightide.metadata.controller import Controller
from hightide.metadata.decision import Decision, Reply
from hightide.metadata.image import Delta, Image
from hightide.metadata.records import decode_record, encode_record
from hightide.node.commits import GroupCommit
from hightide.node.ports import Clock
from hightide.node.quorum_state import QuorumState, load_quorum_state, store_quorum_state
from hightide.replication.effects import AppendLeaderChange, StartEpoch
from hightide.replication.events import ElectionWon
from hightide.replication.replica import CommitRule, Replica
from hightide.rules import Rules
from hightide.storage.files import Files
from hightide.storage.log import Log
from hightide.storage.settings import LogSettings
from hightide.storage.space import Space
from hightide.wire.batches import build_batch
from hightide.wire.message import LogRecord
from hightide.wire.messages.control_records import LeaderChangeMessage, LeaderChangeMessageVoter
from hightide.wire.records import ControlType, Record, control_key, iterate_headers, iterate_records

Records = list[LogRecord]
SETTINGS = LogSettings(max_message_bytes=limits.METADATA_BATCH_BYTES_MAX, retention_ms=-1)


class MetadataLog:
    """The log, its replica machine and its controller. `commits` syncs it with the data."""

    def __init__(
        self,
        log: Log,
        controller: Controller,
        node_id: int,
        files: Files,
        clock: Clock,
        commits: GroupCommit,
        space: Space,
        publish: Callable[[Image, Delta], None],
        disk_failed: Callable[[Exception], None],
        rules: Rules,
    ) -> None:
        self.log = log
        self.controller = controller
        self.image = controller.image
        self._node_id = node_id
        self._files = files
        self._clock = clock
        self._commits = commits
        self._space = space
        self._publish = publish
        self._disk_failed = disk_failed
        self._rules = rules
        self._unpublished: deque[tuple[int, Image, Delta]] = deque()
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._sequence = 0
        self.replica = Replica(
            node_id,
            CommitRule.MAJORITY,
            end=log.end,
            synced_end=log.synced_end,
            high_watermark=log.start,
            synced_only=True,
            rules=rules,
        )

    @property
    def high_watermark(self) -> int:
        """Below it everything is committed."""
        return self.replica.high_watermark

    def replay(self) -> None:
        """Read the whole log into the controller's image: the state before this process life."""
        for last_offset, epoch, records in _stored_batches(self.log):
            self.controller.replay(records, last_offset, epoch)
        self.image = self.controller.image

    def lead(self) -> None:
        """Begin a new epoch as the only voter; a leader never resumes its epoch after a restart (R9)."""
        state = load_quorum_state(self._files, self.log.directory)
        epoch = max(state.epoch, self.log.epochs.latest) + 1
        store_quorum_state(
            self._files, self.log.directory, QuorumState(epoch, self._node_id, self._node_id), self._rules
        )
        for effect in self.replica.handle(ElectionWon(epoch, (self._node_id,))):
            match effect:
                case StartEpoch(started, start):
                    self.log.epochs.assign(started, start)
                case AppendLeaderChange(started, voters):
                    self._append_leader_change(started, voters)
                case _:
                    raise AssertionError(f"winning an election does not ask for {effect}")

    def _append_leader_change(self, epoch: int, voters: tuple[int, ...]) -> None:
        everyone = [LeaderChangeMessageVoter(voter_id=voter) for voter in voters]
        change = LeaderChangeMessage(version=0, leader_id=self._node_id, voters=everyone, granting_voters=everyone)
        record = Record(0, self._clock.wall_ms(), control_key(ControlType.LEADER_CHANGE), change.encode(0), [])
        self._append_batch(build_batch([record], leader_epoch=epoch, control=True))

    def _append_batch(self, batch: bytearray) -> None:
        now_ms = self._clock.wall_ms()
        try:
            self.log.append_as_leader(memoryview(batch), self.replica.leader_epoch, now_ms, internal=True)
        except DiskFullError as error:
            self._space.write_failed(OSError(ENOSPC, str(error)))  # gives up the reserve, which is for us
            self.log.append_as_leader(memoryview(batch), self.replica.leader_epoch, now_ms, internal=True)
        self._commits.dirty(self)

    # ------------------------------------------------------------------ commands

    async def propose(self, decide: Callable[[Controller], Decision[Reply]]) -> Reply:
        """Evaluate a command, append its records, and give its reply when everything it rests on is committed."""
        decision = decide(self.controller)
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
        now_ms = self._clock.wall_ms()
        batch = build_batch(
            [Record(index, now_ms, None, encode_record(record), []) for index, record in enumerate(records)],
            leader_epoch=self.replica.leader_epoch,
        )
        self._append_batch(batch)
        image, delta = self.controller.replay(records, self.log.end - 1, self.replica.leader_epoch)
        self._unpublished.append((self.log.end, image, delta))
        self.synced()

    async def wait_committed(self, offset: int) -> None:
        """Return when everything below `offset` is committed."""
        if self.high_watermark >= offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heappush(self._waiters, (offset, self._sequence, future))
        await future

    def synced(self) -> None:
        """The log moved: publish what is committed now, then let the replies go."""
        self.replica.log_advanced(self.log.end, self.log.synced_end)
        high_watermark = self.high_watermark
        while self._unpublished and self._unpublished[0][0] <= high_watermark:
            _, self.image, delta = self._unpublished.popleft()
            self._publish(self.image, delta)
        while self._waiters and self._waiters[0][0] <= high_watermark:
            future = heappop(self._waiters)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: ApiError) -> None:
        """The disk is gone: nothing more will be committed in this process life."""
        waiters, self._waiters = self._waiters, []
        for _, _, future in waiters:
            if not future.done():
                future.set_exception(error)


def _stored_batches(log: Log) -> Iterator[tuple[int, int, Records]]:
    """Last offset, epoch and decoded records of each stored batch without control batches."""
    offset = log.start
    while offset < log.end:
        read = log.read(offset, limits.METADATA_BATCH_BYTES_MAX, upper_bound=log.end, min_one_batch=True)
        if read is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log has a gap at offset {offset}")
        data = read.slice.read()
        read.slice.release()
        for position, header in iterate_headers(data):
            offset = header.next_offset
            if not header.is_control:
                records = [decode_record(record.value or b"") for record in iterate_records(data, position, header)]
                yield header.last_offset, header.partition_leader_epoch, records
