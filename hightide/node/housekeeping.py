"""Chores: laggards, retention, compaction, expired producers, free space, idle connections.

Each step is short; long lists are split up.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hightide.errors import ApiError, DiskFullError, StorageError
from hightide.node.compactions import Compactions, synced_away
from hightide.node.ports import Timer
from hightide.node.scrubbing import Scrubbing
from hightide.storage.retention import RetentionClock
from hightide.storage.space import Condition

if TYPE_CHECKING:
    from hightide.node.node import Node

log = logging.getLogger("hightide.housekeeping")

SPACE_SECONDS = 1.0
LAG_SECONDS = 0.5
FLUSH_SECONDS = 1.0
EXPIRY_SECONDS = 600.0  # Kafka's producer.id.expiration.check.interval.ms


class Housekeeping:
    """Repeats each chore at its own pace until the node stops."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._clock = RetentionClock(node.clock.wall_ms(), node.clock.now())
        self.compactions = Compactions(node, node.compactor, node.syncer, self.believed_ms)
        self.scrubbing = Scrubbing(node)
        self._timers: dict[Callable[[], None], Timer] = {}
        self._is_stopped = False

    def start(self) -> None:
        """Begin."""
        settings = self._node.settings
        self._every(SPACE_SECONDS, self.look_at_space)
        self._every(LAG_SECONDS, self._look_after_followers)
        self._every(FLUSH_SECONDS, self._flush)
        self._every(EXPIRY_SECONDS, self._expire_producers)
        self._every(settings.log_retention_check_interval_ms / 1000, self._retain)
        self.compactions.start()
        self.scrubbing.start()
        self._every(settings.offsets_retention_check_interval_ms / 1000, self._expire_offsets)
        if settings.connections_max_idle_ms > 0:
            self._every(max(1.0, settings.connections_max_idle_ms / 4000), self.close_idle)

    def stop(self) -> None:
        """No more chores."""
        self._is_stopped = True
        self.compactions.stop()
        self.scrubbing.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _every(self, seconds: float, chore: Callable[[], None]) -> None:
        def run() -> None:
            if not self._is_stopped:
                chore()
                self._timers[chore] = self._node.clock.call_later(seconds, run)

        self._timers[chore] = self._node.clock.call_later(seconds, run)

    def look_at_space(self) -> None:
        """Refuse records before the disk is full, accept them when there is room again, end when it failed."""
        space = self._node.directory.space
        space.check()
        if space.condition is Condition.OFFLINE and not self._node.failed.is_set():
            self._node.disk_failed(StorageError(space.reason))
        self._node.assignments.open_unready()

    def _look_after_followers(self) -> None:
        """Time makes laggards leave the in-sync set (T4), and proposals that got lost are sent again (R6)."""
        now = self._node.clock.now()
        for partition in self._node.assignments:
            deadline = partition.replica.next_deadline
            if deadline is not None and deadline <= now and partition.offline_reason is None:
                partition.time_passed(now)

    def _flush(self) -> None:
        """`flush.ms`: sync logs whose oldest unsynced batch has waited that long."""
        now_ms = self._node.clock.wall_ms()
        for partition in self._node.assignments:
            log = partition.log
            if 0 <= log.unsynced_since_ms <= now_ms - log.settings.flush_ms:
                self._node.commits.dirty(partition)

    def _expire_producers(self) -> None:
        now_ms = self._node.clock.wall_ms()
        for partition in self._node.assignments:
            partition.log.producers.expire(now_ms, self._node.settings.producer_id_expiration_ms)

    def believed_ms(self) -> int:
        """The wall clock, unless that jumped forward."""
        return self._clock.now_ms(self._node.clock.wall_ms(), self._node.clock.now())

    def _expire_offsets(self) -> None:
        node = self._node
        node.coordinators.expire(self._clock.now_ms(node.clock.wall_ms(), node.clock.now()))

    def _retain(self) -> None:
        self._node.spawn(self.retain())

    async def retain(self) -> None:
        """Move starts up, checkpoint them, then delete: a half-done deletion is never a gap after a crash."""
        node = self._node
        now_ms = self.believed_ms()
        partitions = [partition for partition in node.assignments if partition.offline_reason is None]
        for partition in partitions:
            start = partition.log.plan_retention(now_ms, partition.high_watermark)
            if start > partition.log.start:
                self._guarded(partial(partition.log.apply_retention, start))
            await asyncio.sleep(0)
        starts = [partition.log.start for partition in partitions]
        if not await node.checkpoints.write():
            return
        for partition, start in zip(partitions, starts, strict=True):
            if removals := partition.log.due_removals(node.clock.wall_ms()):
                error = await synced_away(node.syncer, removals)
                if error is not None:
                    node.disk_failed(error)
                    return
            if partition.offline_reason is None:
                # Not further than what was checkpointed: DeleteRecords may have moved the start on meanwhile.
                self._guarded(partial(partition.log.delete_old_segments, node.clock.wall_ms(), start))
            await asyncio.sleep(0)

    def _guarded(self, step: Callable[[], object]) -> None:
        """Making room may use the reserve, and one log that can't be cut does not keep others from being (R10)."""
        try:
            self._node.directory.guarded(step)
        except (ApiError, DiskFullError) as error:
            log.warning("retention has to wait: %s", error)
        except (OSError, StorageError) as error:
            self._node.disk_failed(error)

    def close_idle(self) -> None:
        """Close connections that asked nothing for longer than `connections.max.idle.ms`, unless they wait for us."""
        now = self._node.clock.now()
        oldest = now - self._node.settings.connections_max_idle_ms / 1000
        for session in self._node.sessions:
            if session.is_used:  # since the last look: asking the clock for every request would cost more
                session.is_used = False
                session.last_used = now
            elif session.is_idle and session.last_used < oldest:
                session.connection.close()
