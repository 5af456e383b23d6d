"""Group commit: many appends, one fsync (R19), away from the loop.

At most one sync is under way per log directory; what is appended meanwhile goes into the next. A sync that fails is
never retried: its pages may look clean while they are not on disk (R10).
"""

from collections.abc import Callable
from typing import Protocol

from hightide.node.ports import Clock, Syncer
from hightide.rules import Rules
from hightide.storage.files import Syncable
from hightide.storage.log import Log, SyncPlan


class Committed(Protocol):
    """What is appended to and waits for its fsync: a partition or the metadata log."""

    log: Log

    def synced(self) -> None:
        """The log's synced end moved."""


class GroupCommit:
    """The fsync queue of one log directory."""

    def __init__(
        self,
        clock: Clock,
        syncer: Syncer,
        record: Callable[[list[Log]], None],
        failed: Callable[[Exception], None],
        rules: Rules,
    ) -> None:
        self._clock = clock
        self._syncer = syncer
        self._record = record
        self._failed = failed
        self._rules = rules
        self._dirty: dict[Committed, None] = {}
        self._busy = False
        self._stopped = False

    def dirty(self, member: Committed) -> None:
        """Its log has bytes to sync. Idempotent until the sync begins."""
        self._dirty[member] = None
        if not self._busy and not self._stopped:
            self._busy = True
            self._clock.call_soon(self._begin)

    def forget(self, member: Committed) -> None:
        """It is closed or deleted."""
        self._dirty.pop(member, None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for a sync."""
        return not self._busy

    def _begin(self) -> None:
        dirty, self._dirty = self._dirty, {}
        plans: list[tuple[Committed, SyncPlan]] = []
        files: list[Syncable] = []
        for member in dirty:
            plan = member.log.unsynced_files()
            plans.append((member, plan))
            files += plan.files
        self._syncer.sync(files, lambda error: self._done(plans, error))

    def _done(self, plans: list[tuple[Committed, SyncPlan]], error: Exception | None) -> None:
        if error is not None:
            self._sync_failed(plans, error)
            return
        logs: list[Log] = []
        for member, plan in plans:
            if member.log.synced(plan):
                logs.append(member.log)
        self._record(logs)
        for member, _ in plans:
            member.synced()
        if self._dirty:
            self._clock.call_soon(self._begin)
        else:
            self._busy = False

    def _sync_failed(self, plans: list[tuple[Committed, SyncPlan]], error: Exception) -> None:
        for member, plan in plans:
            member.log.synced(plan, error)
        if self._rules.r10_offline_on_failed_sync:
            self._stopped = True
            self._failed(error)
        else:
            self._dirty |= {member: None for member, _ in plans}
            self._clock.call_soon(self._begin)
