"""Putting a compacted segment into the place of those it was made of (R20), so that a crash leaves the old or the new.

| step       | what happens to names                      | then                    | a crash before that leaves     |
|------------|--------------------------------------------|-------------------------|--------------------------------|
| a helper   | writes and syncs `N.*.cleaned`             |                         | the old; `.cleaned` is removed |
| `begin`    | `.cleaned` → `.swap`, the log last         | the directory is synced | the old or the new             |
| `exchange` | the old → `.deleted`; readers see the new  | the directory is synced | the new: `finish_swaps`        |
| `settle`   | `.swap` → the final names                  | with the next sync      | the new                        |

`N.log.swap` decides: where it is found, it counts, and the segments it covers do not. A compacted segment ends exactly
where the last one of its group ended, so its range is in its batches. Old files stay readable while slices pin them.
"""

from collections.abc import Sequence

from hightide.errors import CorruptionError
from hightide.storage.compaction_plans import StoredSegment
from hightide.storage.files import Files
from hightide.storage.scanning import Chain, verified_from
from hightide.storage.segment import (
    CLEANED_SUFFIX,
    DERIVED_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    Segment,
    segment_name,
)
from hightide.storage.segments import Segments
from hightide.types import NO_EPOCH


class Swaps:
    """The one swap of a log that may be under way."""

    __slots__ = ("_directory", "_files", "_fresh", "_is_exchanged", "_replaced", "_segments")

    def __init__(self, files: Files, directory: str, segments: Segments) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._fresh: Segment | None = None
        self._replaced: list[Segment] = []
        self._is_exchanged = False

    def fits(self, group: Sequence[StoredSegment]) -> bool:
        """Whether the log still has exactly these segments."""
        return bool(self._find(group))

    def begin(self, group: Sequence[StoredSegment]) -> None:
        """Let the new segment count after a crash. Sync the directory before `exchange`."""
        fresh = Segment.open(self._files, self._directory, group[0].base, tail=CLEANED_SUFFIX)
        seal = fresh.read_seal()
        if seal is None or seal.end != group[-1].end:
            fresh.file.close()
            raise CorruptionError(f"{fresh.file.path} is not what was made of the segments up to {group[-1].end}")
        fresh.trust(seal)
        fresh.gaps = True
        fresh.rename(SWAP_SUFFIX)
        self._fresh, self._replaced, self._is_exchanged = fresh, self._find(group), False

    def exchange(self, remove_at_ms: int) -> bool:
        """Let readers see the new segment. False when it was abandoned meanwhile. Sync before `settle`."""
        if self._fresh is None or self._is_exchanged:
            return False
        self._segments.exchange(self._replaced, self._fresh, remove_at_ms)
        self._replaced = []
        self._is_exchanged = True
        return True

    def settle(self) -> None:
        """Give the new files their names; nothing to do when that happened already."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.rename("")

    def abandon(self) -> None:
        """The log is about to be cut or closed: end what is under way, durably. Blocks for a sync or two."""
        if self._fresh is None:
            return
        if self._is_exchanged:
            self._files.sync_directory(self._directory)
            self.settle()
        else:
            fresh, self._fresh = self._fresh, None
            fresh.remove()
        self._files.sync_directory(self._directory)

    def forget(self) -> None:
        """The log's directory goes as a whole."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None and not self._is_exchanged:
            fresh.retire()

    def _find(self, group: Sequence[StoredSegment]) -> list[Segment]:
        bases = {each.base for each in group}
        found = [segment for segment in self._segments if segment.base in bases]
        stored = [StoredSegment(each.base, each.end, each.size) for each in found]
        return found if stored == list(group) else []


def finish_swaps(files: Files, directory: str) -> list[str]:
    """At open: put every segment with a `.swap` log into its place; the names of files that are worth nothing.

    CorruptionError when such a log is damaged: nothing is removed then (R17).
    """
    names = files.list(directory)
    bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if _is_log(name))
    for name in names:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _finish(
                files, directory, Segment.open(files, directory, int(name.partition(".")[0]), tail=SWAP_SUFFIX), bases
            )
    left = files.list(directory)
    return [f"{directory}/{name}" for name in left if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]


def _finish(files: Files, directory: str, fresh: Segment, bases: Sequence[int]) -> None:
    try:
        end = _end_of(fresh)
        if not any(base == end for base in bases):
            raise CorruptionError(f"{fresh.file.path} ends at {end}, where no segment begins")
        files.sync_directory(directory)  # before anything goes, the new one must last
        for base in bases:
            if fresh.base <= base < end:
                _remove(files, directory, base)
        files.sync_directory(directory)
        fresh.rename("")
        files.sync_directory(directory)
    finally:
        fresh.file.close()


def _end_of(fresh: Segment) -> int:
    chain = Chain(fresh.base, NO_EPOCH, gaps=True)
    for batch in verified_from(fresh.file, 0, fresh.file.size()):
        reason = chain.admit(batch.header)
        if reason is not None:
            raise CorruptionError(f"{fresh.file.path}: the batch at byte {batch.position} {reason}")
    return chain.following


def _remove(files: Files, directory: str, base: int) -> None:
    for suffix in (*DERIVED_SUFFIXES, LOG_SUFFIX):
        path = f"{directory}/{segment_name(base, suffix)}"
        if files.exists(path):
            files.remove(path)


def _is_log(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdecimal()
