"""Looking after compacted topics: which log needs it most, a helper to do it, and taking over what the helper made.

One log at a time. The helper works on files only, in a process of its own (`ports.Compactor`), and the loop takes over
group by group, each in three short steps with a sync away from the loop in between (`storage.compaction_rounds`). The
log may be cut, deleted or closed at any of those points: then the round ends, nothing of it counts, and another begins
later. The same after a helper that died, a full disk, or a stop.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hightide.errors import CorruptionError, HelperError, StorageError
from hightide.limits import COMPACTION_KEY_BYTES, COMPACTION_LOGS_PER_TURN, COMPACTION_PRODUCERS_PER_TURN
from hightide.storage.compaction_plans import Cleanable, Cleaned, CompactionJob, Finished, LastBatch
from hightide.storage.compaction_rounds import finish_round, take_over
from hightide.storage.files import Syncable
from hightide.storage.log import Log
from hightide.storage.recovery import FULL_DISK, NO_DESCRIPTORS
from hightide.types import TopicPartition

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition
    from hightide.node.ports import Compactor, Syncer, Timer

log = logging.getLogger("hightide.compaction")


class Compactions:
    """Compacts the logs of a node, one after the other, until it stops."""

    def __init__(self, node: "Node", compactor: "Compactor", syncer: "Syncer", believed_ms: Callable[[], int]) -> None:
        self._node = node
        self._compactor = compactor
        self._syncer = syncer
        self._believed_ms = believed_ms
        """The time of retention, which does not jump: a wrong clock must not drop tombstones."""
        self._failed: set[tuple[bytes, int]] = set()
        self._timer: Timer | None = None
        self._is_busy = self._is_stopped = False
        self.rounds = 0
        """How many logs were compacted."""

    def start(self) -> None:
        """Begin to look."""
        self._later()

    def stop(self) -> None:
        """Compact no more; what is under way is void."""
        self._is_stopped = True
        self._compactor.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_stopped and self._node.settings.log_cleaner_enable:
            seconds = self._node.settings.log_cleaner_backoff_ms / 1000
            self._timer = self._node.clock.call_later(seconds, self._look)

    def _look(self) -> None:
        self._node.spawn(self.compact_all())

    async def compact_all(self) -> None:
        """Compact every log that is due, the dirtiest first; then look again after a while."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while not self._is_stopped and (found := await self._dirtiest()) is not None:
                if not await self._compact(*found):
                    self._failed.add((found[0].topic_id, found[0].index))
        finally:
            self._is_busy = False
            self._failed.clear()
            self._later()

    # ------------------------------------------------------------------ one log

    async def _dirtiest(self) -> "tuple[Partition, Cleanable] | None":
        if not self._node.directory.space.accepts_records:
            return None  # a copy needs room; what retention deletes makes some
        now_ms = self._believed_ms()
        best: tuple[Partition, Cleanable] | None = None
        for number, partition in enumerate(list(self._node.assignments), 1):
            if number % COMPACTION_LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
            opened = partition.log
            if not opened.settings.compact_policy or partition.offline_reason is not None:
                continue
            if (partition.topic_id, partition.index) in self._failed:
                continue
            clean_end = self._node.directory.clean_end(_key(opened))
            cleanable = opened.plan_compaction(now_ms, partition.high_watermark, clean_end)
            if cleanable is not None and (best is None or cleanable.dirty_ratio > best[1].dirty_ratio):
                best = partition, cleanable
        return best

    async def _compact(self, partition: "Partition", cleanable: Cleanable) -> bool:
        """One round; whether it was carried through."""
        opened = partition.log
        generation = opened.truncation_generation
        producers = await self._live_producers(opened, cleanable.segments[-1].end)
        if not self._is_current(partition, opened):
            return False
        keys_max = self._node.settings.log_cleaner_dedupe_buffer_size // COMPACTION_KEY_BYTES
        job = opened.compaction_job(cleanable, self._believed_ms(), keys_max, producers)
        try:
            return await self._carry_through(partition, opened, job, generation)
        except CorruptionError as error:
            if self._is_current(partition, opened):
                partition.quarantine(error)
        except HelperError as error:
            log.warning("%s: %s, compaction begins again later", partition, error)
        except (OSError, StorageError) as error:
            self._disk_refused(partition, opened, error)
        finally:
            self._compactor.cancel()
        return False

    async def _carry_through(self, partition: "Partition", opened: Log, job: CompactionJob, generation: int) -> bool:
        steps: asyncio.Queue[Cleaned | Finished | Exception] = asyncio.Queue()
        rate = self._node.settings.log_cleaner_io_max_bytes_per_second
        self._compactor.compact(job, rate, steps.put_nowait)
        before = after = 0
        while True:
            step = await steps.get()
            if isinstance(step, Exception):
                raise step
            if not self._is_current(partition, opened):
                return False
            if isinstance(step, Finished):
                if not finish_round(opened, self._node.directory, step, generation):
                    return False
                self._node.checkpoints.soon()
                self.rounds += 1
                log.info("%s: compacted up to %d, %d records of %d are left", partition, step.clean_end, after, before)
                return True
            if not await self._take_over(partition, opened, step, generation):
                log.info("%s: it changed while it was compacted, which begins again later", partition)
                return False
            before, after = before + step.records_before, after + step.records_after

    async def _take_over(self, partition: "Partition", opened: Log, cleaned: Cleaned, generation: int) -> bool:
        steps = take_over(opened, self._node.directory, cleaned, generation, self._node.clock.wall_ms())
        while self._is_current(partition, opened):
            try:
                files = next(steps)
            except StopIteration as done:
                return bool(done.value)
            error = await synced_away(self._syncer, files)
            if error is not None:
                raise error
        steps.close()
        return False

    def _is_current(self, partition: "Partition", opened: Log) -> bool:
        """Whether this is still the log of the partition, and the partition still one of this node's."""
        table = self._node.assignments.by_topic.get(partition.topic_id, {})
        return (
            not self._is_stopped
            and partition.log is opened
            and partition.offline_reason is None
            and table.get(partition.index) is partition
        )

    async def _live_producers(self, opened: Log, end: int) -> dict[int, LastBatch]:
        """The last batches of live producers below `end`, a few at a time: there may be a hundred thousand."""
        found: dict[int, LastBatch] = {}
        for number, producer_id in enumerate(opened.producers.identifiers, 1):
            last = opened.producers.last_batch(producer_id)
            if last is not None and last[0] < end:
                found[producer_id] = LastBatch(*last)
            if number % COMPACTION_PRODUCERS_PER_TURN == 0:
                await asyncio.sleep(0)
        return found

    def _disk_refused(self, partition: "Partition", opened: Log, error: Exception) -> None:
        """A full disk, and files that went with their log, mean waiting; everything else is the disk's end (R10)."""
        if isinstance(error, FileNotFoundError) or (
            isinstance(error, OSError) and error.errno in (*FULL_DISK, *NO_DESCRIPTORS)
        ):
            log.warning("%s: compaction has to wait: %s", partition, error)
        elif self._is_current(partition, opened):
            self._node.disk_failed(error)


async def synced_away(syncer: "Syncer", files: Sequence[Syncable]) -> Exception | None:
    """Let a Syncer do it, and wait; what went wrong, if anything did."""
    done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    syncer.sync(files, lambda error: None if done.done() else done.set_result(error))
    return await done


def _key(opened: Log) -> TopicPartition:
    return TopicPartition(opened.topic, opened.partition)
