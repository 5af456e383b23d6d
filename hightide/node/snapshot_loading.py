"""Loading the leader's snapshot: what a node does that is too far behind for the records (KIP-630).

The pieces go to disk beside the log and, as they come, into an image: checked and replayed in short steps, each piece
proof that the leader lives. When all are there and synced, the quorum machine decides whether it is still wanted. Then
the file gets its name, the log begins anew at the snapshot's end, the image replaces the node's as a whole, and what
differs between the two is published like the delta of a batch. A crash at any point leaves the old state, or one that
`snapshot_recovery` completes.
"""

import asyncio
import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hightide import limits
from hightide.errors import ApiError, CorruptionError, ErrorCode, ProtocolError, StorageError
from hightide.metadata.difference import difference
from hightide.metadata.image import Delta, Image
from hightide.metadata.replay import MetadataError
from hightide.metadata.snapshot import SnapshotImage
from hightide.node.metadata_snapshots import FULL_DISK, MetadataSnapshots, synced
from hightide.node.ports import Syncer
from hightide.node.quorum import FETCHES
from hightide.node.snapshot_recovery import stand_on
from hightide.replication.events import LogTruncated
from hightide.replication.quorum_effects import InstallSnapshot, LoadSnapshot
from hightide.replication.quorum_events import SnapshotDownloaded, SnapshotFailed, SnapshotProgressed
from hightide.storage.metadata_snapshots import SnapshotPart, SnapshotReader, StoredSnapshot
from hightide.types import NO_BROKER, NO_EPOCH

if TYPE_CHECKING:
    from hightide.node.metadata_log import MetadataLog
    from hightide.node.node import Node
    from hightide.node.snapshot_messages import SnapshotPiece

log = logging.getLogger("hightide.metadata")

Result = TypeVar("Result")


class Loaded(NamedTuple):
    """A snapshot that is here, whole and synced, but counts for nothing yet."""

    part: SnapshotPart
    snapshot: StoredSnapshot
    image: Image
    delta: Delta


class RefusedError(Exception):
    """The leader did not give the snapshot; `leader` and `epoch` as it said, or -1."""

    def __init__(self, reason: str, leader: int = NO_BROKER, epoch: int = NO_EPOCH) -> None:
        super().__init__(reason)
        self.leader = leader
        self.epoch = epoch


class SnapshotLoading:
    """`node.quorum.Snapshots`: carries out LoadSnapshot and InstallSnapshot. One is loaded at a time."""

    def __init__(self, node: "Node", metadata: "MetadataLog", snapshots: MetadataSnapshots, syncer: Syncer) -> None:
        self._node = node
        self._metadata = metadata
        self._snapshots = snapshots
        self._syncer = syncer
        self._current: LoadSnapshot | None = None
        self._loaded: Loaded | None = None

    def load(self, effect: LoadSnapshot) -> None:
        """Begin to load; the same again goes on, another one ends it."""
        if effect != self._current:
            self._current = effect
            self._node.spawn(self._load(effect))

    async def _load(self, load: LoadSnapshot) -> None:
        log.info("loading the metadata up to %d from node %d", load.snapshot.end, load.leader)
        failed = SnapshotFailed(load, 0.0)
        part: SnapshotPart | None = None
        try:
            part = self._snapshots.store.begin(*load.snapshot)
            loaded = await self._download(load, part)
        except RefusedError as refused:
            failed = SnapshotFailed(load, 0.0, refused.leader, refused.epoch)
            log.info("the snapshot could not be had: %s", refused)
        except (CorruptionError, MetadataError) as error:
            log.error("node %d sent a snapshot that can't be used: %s", load.leader, error)
            await self._pause()
        except (OSError, StorageError) as error:
            if not isinstance(error, OSError) or error.errno not in FULL_DISK:
                self._node.disk_failed(error)
                return
            log.warning("there is no room for the snapshot of node %d: %s", load.leader, error)
            await self._pause()
        else:
            self._finish(load, loaded)
            return
        if part is not None:
            part.discard()
        if self._current is load:
            self._current = None
            self._metadata.quorum.tell(failed._replace(now=self._node.clock.now()))

    def _finish(self, load: LoadSnapshot, loaded: Loaded) -> None:
        """Offer it to the machine, which installs it unless it has changed its mind meanwhile."""
        self._loaded = loaded
        if self._current is load:
            self._current = None
            self._metadata.quorum.tell(SnapshotDownloaded(load, self._node.clock.now()))
        if self._loaded is loaded:
            self._loaded = None
            loaded.part.discard()

    async def _download(self, load: LoadSnapshot, part: SnapshotPart) -> Loaded:
        node, quorum = self._node, self._metadata.quorum
        reader = SnapshotReader(*load.snapshot, f"the snapshot of node {load.leader}")
        building = SnapshotImage()
        size = limits.SNAPSHOT_BYTES_MAX
        while reader.size < size:
            piece = await self._piece(load, reader.size)
            if reader.size and piece.size != size:
                raise CorruptionError(f"the snapshot of node {load.leader} changed its size")
            size = piece.size
            part.write(piece.data)
            try:
                for values in reader.feed(piece.data):
                    building.add(values)
                    await asyncio.sleep(0)
            except ProtocolError as error:
                raise CorruptionError(f"a record is malformed: {error}") from error
            quorum.tell(SnapshotProgressed(load, node.clock.now()))
        snapshot = reader.finish()
        await synced(self._syncer, [part])
        image = building.finish(snapshot.end, snapshot.epoch)
        return Loaded(part, snapshot, image, await self._compare(image))

    async def _compare(self, image: Image) -> Delta:
        """What changes for this node, whose own image hardly moves while it loads another."""
        while True:
            before = self._metadata.image
            delta = await in_steps(difference(before, image))
            if before is self._metadata.image:
                return delta

    async def _piece(self, load: LoadSnapshot, position: int) -> "SnapshotPiece":
        from hightide.node import snapshot_messages as messages
        from hightide.wire.messages.fetch_snapshot import FetchSnapshotResponse

        node, machine = self._node, self._metadata.quorum.machine
        request = messages.snapshot_request(
            load, position, machine.node_id, machine.directory_id, node.directory.identity.cluster_id
        )
        try:
            reply = await node.controller_peers.call(load.leader, FETCHES, request, FetchSnapshotResponse)
            piece = messages.snapshot_piece(reply)
        except (ApiError, ProtocolError) as error:
            raise RefusedError(str(error)) from error
        if self._current is not load:
            raise RefusedError("another one is wanted")
        if piece.error:
            raise RefusedError(ErrorCode(piece.error).name, piece.leader, piece.leader_epoch)
        if piece.snapshot != load.snapshot or piece.position != position or not piece.data:
            raise CorruptionError(f"the answer is not the piece at {position} of {load.snapshot}")
        if not position + len(piece.data) <= piece.size <= limits.SNAPSHOT_BYTES_MAX:
            raise CorruptionError(f"a snapshot of {piece.size} bytes can't be")
        return piece

    async def _pause(self) -> None:
        """What failed on its content or for want of room fails again if it is tried at once."""
        moment = asyncio.get_running_loop().create_future()
        self._node.clock.call_later(limits.SNAPSHOT_RETRY_SECONDS, moment.set_result, None)
        await moment

    def install(self, effect: InstallSnapshot) -> None:
        """The machine wants it: from now on the log stands on it, and the metadata are those of it."""
        node, metadata = self._node, self._metadata
        loaded, self._loaded = self._loaded, None
        assert loaded is not None
        assert (loaded.snapshot.end, loaded.snapshot.epoch) == effect.snapshot
        try:
            stand_on(node.directory, metadata.log, self._snapshots.store, loaded.part, loaded.snapshot)
        except (OSError, StorageError) as error:
            node.disk_failed(error)
            return
        self._snapshots.installed(loaded.snapshot)
        metadata.install(loaded.image, loaded.delta)
        log.info("the metadata log begins anew at %d, on the snapshot of the controller", loaded.snapshot.end)
        metadata.quorum.tell(LogTruncated(metadata.log.end, metadata.log.synced_end))


async def in_steps(work: Generator[None, None, Result]) -> Result:
    """Carry out a generator with the loop's other work in between; its result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result
        await asyncio.sleep(0)
