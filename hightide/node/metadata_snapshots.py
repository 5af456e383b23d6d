"""Snapshots of the metadata log, so that it need not grow for ever: taken, served, and the log below them let go.

Every node takes its own, of what is committed, when enough was committed since the last one or enough time passed. It
is written in short steps between the loop's other work; the image never changes, so no step sees another state. When
the file is on disk for good, and only then, the log may start at its end: the start is checkpointed, then segments and
older snapshots go (R18, R19). How much stays is `metadata.max.retention.*`: a follower that is behind by less fetches
records, one that is behind by more fetches the snapshot. A snapshot that somebody is loading stays with all that
follows, or a slow follower would never catch up.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from errno import EDQUOT, ENOSPC
from functools import partial
from typing import TYPE_CHECKING

from hightide.errors import ApiError, DiskFullError, ErrorCode, StorageError
from hightide.limits import MIB
from hightide.metadata.snapshot import snapshot_batches
from hightide.node.ports import Syncer, Timer
from hightide.replication.quorum_events import SnapshotTaken
from hightide.replication.snapshots import SnapshotId
from hightide.storage.directory import LogDirectory
from hightide.storage.files import Syncable
from hightide.storage.metadata_snapshots import SnapshotPart, SnapshotStore, SnapshotWriter, StoredSnapshot
from hightide.types import NO_TIMESTAMP

if TYPE_CHECKING:
    from hightide.metadata.image import Image
    from hightide.node.metadata_log import MetadataLog, StoredRecords
    from hightide.node.node import Node

log = logging.getLogger("hightide.metadata")

FULL_DISK = (ENOSPC, EDQUOT)
PAUSE_SECONDS = 60.0  # after a snapshot that found no room on the disk
LOADING_SECONDS = 60.0  # whoever has not gone on for so long after a piece of a snapshot has given it up
ROLL_BYTES = MIB  # a snapshot ends the active segment when that is larger, so that it can be deleted one day


class MetadataSnapshots:
    """What one node does about its snapshots. Loading those of others is `snapshot_loading`'s."""

    def __init__(self, node: "Node", metadata: "MetadataLog", store: SnapshotStore, syncer: Syncer) -> None:
        settings = node.settings
        self.store = store
        self._node = node
        self._metadata = metadata
        self._syncer = syncer
        self._bytes_max = settings.metadata_log_max_record_bytes_between_snapshots
        self._interval = settings.metadata_log_max_snapshot_interval_ms / 1000
        self._bytes = 0  # committed since the last snapshot
        self._timestamp = NO_TIMESTAMP if store.newest is None else store.newest.timestamp
        self._is_due = False
        self._is_taking = False
        self._not_before = float("-inf")
        self._loading: dict[int, tuple[SnapshotId, float]] = {}  # replica: what it asked for last, and when
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to count the time."""
        if self._interval and self._timer is None:
            self._timer = self._node.clock.call_later(self._interval, self._time_passed)

    def stop(self) -> None:
        """Begin no more; the one under way ends by itself, because the node is stopping."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_idle(self) -> bool:
        """Whether none is being taken."""
        return not self._is_taking

    # ------------------------------------------------------------------ when

    def noted(self, batch: "StoredRecords") -> None:
        """A committed batch is in the image."""
        self._bytes += batch.size
        self._timestamp = batch.timestamp

    def installed(self, snapshot: StoredSnapshot) -> None:
        """Another node's snapshot took the place of everything."""
        self._bytes, self._timestamp = 0, snapshot.timestamp

    def consider(self) -> None:
        """Something was committed or synced: is it time for a snapshot?"""
        if (self._bytes >= self._bytes_max or self._is_due) and not self._is_taking:
            self._begin()

    def _time_passed(self) -> None:
        self._timer = None
        self._is_due = True
        self.consider()
        if not self._is_taking:
            self.start()

    def _begin(self) -> None:
        """Take one of the newest image, if that is on this disk too: a log never ends below its snapshot."""
        node, metadata = self._node, self._metadata
        image = metadata.image
        end = image.offset + 1
        if node.is_stopping or node.clock.now() < self._not_before or metadata.log.synced_end < end:
            return
        if not metadata.quorum.machine.may_snapshot(end):
            return
        self._is_taking = True
        node.spawn(self._take(image, end))

    # ------------------------------------------------------------------ taking

    async def _take(self, image: "Image", end: int) -> None:
        counted, self._bytes = self._bytes, 0
        self._is_due = False
        try:
            self._roll()
            snapshot = await self._write(image, end)
            if snapshot is None:
                self._bytes += counted
            else:
                self.store.add(snapshot)
                self._metadata.quorum.tell(SnapshotTaken(SnapshotId(snapshot.end, snapshot.epoch)))
                log.info("took a snapshot of the metadata up to %d: %d bytes", end, snapshot.size)
                await self.retain()
        except (OSError, StorageError) as error:
            self._node.disk_failed(error)
        finally:
            self._is_taking = False
            self.start()

    def _roll(self) -> None:
        """Only whole segments can be deleted: end the one that the snapshot makes superfluous."""
        opened = self._metadata.log
        if opened.active_bytes >= min(ROLL_BYTES, self._bytes_max):
            try:
                opened.roll()
            except DiskFullError as error:
                log.warning("the metadata log keeps its segment: %s", error)
            self._node.commits.dirty(self._metadata)

    async def _write(self, image: "Image", end: int) -> StoredSnapshot | None:
        """None when there was no room for it, or the node stops: then the next one is as good."""
        part: SnapshotPart | None = None
        try:
            part = self.store.begin(end, image.epoch)
            writer = SnapshotWriter(part, self._timestamp)
            for values in snapshot_batches(image):
                writer.append(values)
                await asyncio.sleep(0)
                if self._node.is_stopping:
                    part.discard()
                    return None
            snapshot = writer.finish()
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
            log.warning("there is no room for a snapshot of the metadata: %s", error)
            self._not_before = self._node.clock.now() + PAUSE_SECONDS
            if part is not None:
                part.discard()
            return None
        await synced(self._syncer, [_Publication(part, self._node.directory)])
        return snapshot

    # ------------------------------------------------------------------ letting go

    async def retain(self) -> None:
        """Move the log's start up as far as the settings say, checkpoint it, then delete what is below."""
        node, opened = self._node, self._metadata.log
        start = self.plan_start()
        if start > opened.start:
            opened.advance_start(start)
            if not await node.checkpoints.write() or node.is_stopping:  # a deletion never precedes its checkpoint
                return
            node.directory.guarded(partial(opened.delete_old_segments, node.clock.wall_ms(), start))
            node.commits.dirty(self._metadata)
        self.store.remove_below(opened.start)

    def plan_start(self) -> int:
        """Where the log may start: at the end of a snapshot, or where it does."""
        settings, opened = self._node.settings, self._metadata.log
        retention_ms, retention_bytes = settings.metadata_max_retention_ms, settings.metadata_max_retention_bytes
        return planned_start(
            opened.start,
            self.store.snapshots,
            lambda start: opened.size_bytes - opened.bytes_below(start),
            oldest_ms=self._node.clock.wall_ms() - retention_ms if retention_ms >= 0 else NO_TIMESTAMP,
            bytes_max=retention_bytes if retention_bytes >= 0 else None,
            needed=self._needed(),
        )

    def _needed(self) -> int | None:
        """The end of the oldest snapshot that somebody is loading and has not gone on from yet."""
        progress, now = self._metadata.quorum.machine.progress, self._node.clock.now()
        for replica, (snapshot, at) in list(self._loading.items()):
            position = -1 if progress is None else progress.position_of(replica)
            if progress is None or position >= snapshot.end or at <= now - LOADING_SECONDS:
                del self._loading[replica]
        return min((snapshot.end for snapshot, _ in self._loading.values()), default=None)

    # ------------------------------------------------------------------ serving

    def piece(self, replica: int, wanted: SnapshotId, position: int, length: int) -> tuple[StoredSnapshot, bytes]:
        """A part of a snapshot for another node; ApiError as Kafka's when there is none, or no such position."""
        snapshot = self.store.find(wanted.end, wanted.epoch)
        if snapshot is None:
            raise ApiError(ErrorCode.SNAPSHOT_NOT_FOUND)
        if not 0 <= position < snapshot.size:
            raise ApiError(ErrorCode.POSITION_OUT_OF_RANGE)
        self._loading[replica] = (wanted, self._node.clock.now())
        try:
            return snapshot, self.store.read_piece(snapshot, position, length)
        except OSError as error:
            log.error("the snapshot %s can't be read: %s", snapshot.name, error)
            raise ApiError(ErrorCode.SNAPSHOT_NOT_FOUND) from error


def planned_start(
    start: int,
    snapshots: Sequence[StoredSnapshot],
    log_bytes: Callable[[int], int],
    *,
    oldest_ms: int,
    bytes_max: int | None,
    needed: int | None,
) -> int:
    """The end of the last snapshot whose records are all older than `oldest_ms`, or of the first with which log and
    snapshots from there on have `bytes_max`; never behind the newest snapshot, and never behind `needed`."""
    planned = start
    for snapshot in snapshots:
        if snapshot.end <= start:
            continue
        if needed is not None and snapshot.end > needed:
            break
        kept = log_bytes(planned) + sum(other.size for other in snapshots if other.end >= planned)
        is_large = bytes_max is not None and kept > bytes_max
        if snapshot.timestamp >= oldest_ms and not is_large:
            break
        planned = snapshot.end
    return planned


class _Publication:
    """A snapshot on its way to its name, as something a Syncer takes."""

    def __init__(self, part: SnapshotPart, directory: LogDirectory) -> None:
        self._part = part
        self._directory = directory

    def sync(self) -> None:
        """Bytes, then the name, then the directory."""
        self._part.sync()
        self._directory.guarded(self._part.publish)


async def synced(syncer: Syncer, files: Sequence[Syncable]) -> None:
    """Wait for the syncer; what it could not do raises."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def report(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    syncer.sync(files, report)
    await done
