"""What a metadata log stands on when it is opened: the newest snapshot and the log agree, or the start is refused.

A log that begins above 0 stands on a snapshot that ends where it begins (I17). Of the snapshots beside it the newest
counts. It fits the log or it does not:

- It fits when the log holds the batch that the snapshot ends with, in the same epoch, and so the same records (I4).
  The log goes on after the snapshot. Should that one be unreadable, an older one and the log's own records tell the
  same.
- It does not when it was loaded from another node, and a crash came before the log had begun anew on it. That is
  done now. What the log holds instead was never committed, or is in the snapshot. Should this one be unreadable, nobody
  knows what this voter promised, and it does not start (R18).
"""

import logging
from typing import NamedTuple

from hightide.errors import CorruptionError, ProtocolError
from hightide.metadata.image import Image
from hightide.metadata.replay import MetadataError
from hightide.metadata.snapshot import SnapshotImage
from hightide.replication.snapshots import SnapshotId
from hightide.rules import Rules
from hightide.storage.directory import LogDirectory
from hightide.storage.log import Log
from hightide.storage.metadata_snapshots import SnapshotPart, SnapshotStore, StoredSnapshot
from hightide.types import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition

log = logging.getLogger("hightide.metadata")

KEY = TopicPartition(METADATA_TOPIC, 0)


class Foundation(NamedTuple):
    """What the log stands on: the image of `snapshot`, or the empty one at offset 0."""

    store: SnapshotStore
    image: Image
    snapshot: SnapshotId | None


def recover_snapshots(directory: LogDirectory, opened: Log, rules: Rules) -> Foundation:
    """Find the snapshot to begin with, and finish what a crash interrupted. CorruptionError when nothing fits."""
    store = SnapshotStore(directory.files, opened.directory, rules)
    store.open()
    newest = store.newest
    if newest is None or newest.end < opened.start:
        if opened.start > 0:
            raise CorruptionError(
                f"{opened.directory} begins at {opened.start}, but the snapshot of what was before is missing"
            )
        return Foundation(store, Image(), None)
    if _fits(newest, opened):
        image = _newest_readable(store, opened)
    else:
        image = load_image(store, newest)
        log.warning("the metadata log begins anew at %d, on a snapshot that was loaded before the stop", newest.end)
        begin_anew(directory, opened, newest.end)
    if opened.start > 0:
        if all(snapshot.end != opened.start for snapshot in store.snapshots):
            opened.advance_start(image.offset + 1)
        directory.remember_start(KEY, opened.start)
    store.remove_below(opened.start)
    used = store.newest
    return Foundation(store, image, None if used is None else SnapshotId(used.end, used.epoch))


def stand_on(
    directory: LogDirectory, opened: Log, store: SnapshotStore, part: SnapshotPart, new: StoredSnapshot
) -> None:
    """Let the log stand on a snapshot that was loaded: name it, then empty the log, then let the older ones go.

    Blocks for a few syncs, as a truncation does. From the moment the name is on disk, `recover_snapshots` would do the
    rest.
    """
    directory.guarded(part.publish)
    store.add(new)
    begin_anew(directory, opened, new.end)
    store.remove_below(new.end)


def begin_anew(directory: LogDirectory, opened: Log, end: int) -> None:
    """Empty the log and let it begin at `end`, where a snapshot ends that is on disk for good.

    R17: every promise is lowered first.
    """
    directory.lower(KEY, METADATA_TOPIC_ID, opened.truncation_generation + 1, 0)
    opened.truncate_fully(end)
    directory.remember_start(KEY, end)


def load_image(store: SnapshotStore, snapshot: StoredSnapshot) -> Image:
    """The image of a stored snapshot; CorruptionError when it is not one."""
    building = SnapshotImage()
    try:
        for values in store.batches(snapshot):
            building.add(values)
    except (ProtocolError, MetadataError) as error:
        raise CorruptionError(f"the snapshot {snapshot.name} can't be replayed: {error}") from error
    return building.finish(snapshot.end, snapshot.epoch)


def _fits(snapshot: StoredSnapshot, opened: Log) -> bool:
    """Whether the log goes on where the snapshot ends."""
    if snapshot.end == opened.start:
        return True
    return snapshot.end <= opened.end and opened.epochs.epoch_at(snapshot.end - 1) == snapshot.epoch


def _newest_readable(store: SnapshotStore, opened: Log) -> Image:
    """The log holds everything from its start on, so any snapshot that ends in it will do."""
    problem: CorruptionError | None = None
    for snapshot in reversed(store.snapshots):
        if snapshot.end < opened.start:
            break
        try:
            return load_image(store, snapshot)
        except CorruptionError as error:
            log.error("%s; an older snapshot and the log are used instead", error)
            problem = problem or error
            store.forget(snapshot)
    if opened.start > 0 and problem is not None:
        raise problem
    return Image()
