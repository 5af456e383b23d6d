"""Group commit, seen from one log: what is not synced yet, and what a finished sync proves (R19)."""

from collections.abc import Iterable

from hightide.rules import Rules
from hightide.storage.checkpoints import parent_of
from hightide.storage.files import File, Files, Syncable
from hightide.storage.segment import Segment


class DirectoryEntries:
    """The names in a directory, as something that a Syncer can make last."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def sync(self) -> None:
        """fsync the directory."""
        self._files.sync_directory(self.path)


class Removal:
    """Files to unlink, as something that a Syncer can do: freeing the blocks of a large file takes its time."""

    __slots__ = ("_files", "paths")

    def __init__(self, files: Files, paths: list[str]) -> None:
        self._files = files
        self.paths = paths

    def sync(self) -> None:
        """Remove them."""
        for path in self.paths:
            try:
                self._files.remove(path)
            except FileNotFoundError:  # compacted twice within the delay: the second took the first one's name
                continue


class DirectoryRemoval:
    """A directory to remove with everything in it, as something that a Syncer can do: it may hold many large files."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def sync(self) -> None:
        """Remove it."""
        self._files.remove_directory(self.path)


class SyncPlan:
    """When all of `files` are synced, every offset below `end` lasts, unless the log was truncated meanwhile.

    The segments stay pinned until the log hears of the outcome, so that no descriptor is closed under a sync.
    """

    __slots__ = ("directory_changes", "end", "files", "indexes", "segments", "truncation_generation")

    def __init__(
        self,
        segments: list[Segment],
        indexes: list[File],
        directories: list[Syncable],
        *,
        end: int,
        truncation_generation: int,
        directory_changes: int,
    ) -> None:
        self.files: list[Syncable] = [*(segment.file for segment in segments), *indexes, *directories]
        self.segments = segments
        self.indexes = indexes
        self.end = end
        self.truncation_generation = truncation_generation
        self.directory_changes = directory_changes
        for segment in segments:
            segment.pins += 1

    def release(self) -> None:
        """Nobody syncs these files any more."""
        for file in self.indexes:
            file.close()
        for segment in self.segments:
            segment.pins -= 1
            if segment.pins == 0:
                segment.on_unpinned()
        self.segments = []
        self.indexes = []


class Unsynced:
    """What a log has written besides batches since its last sync: index files, and names in directories."""

    __slots__ = ("_changes", "_directory", "_files", "_parent_changed", "_rules", "_synced_changes", "indexes")

    def __init__(self, files: Files, directory: str, rules: Rules, *, is_new: bool) -> None:
        self._files = files
        self._directory = directory
        self._rules = rules
        self._changes = int(is_new)  # names created, renamed or removed so far
        self._synced_changes = 0
        self._parent_changed = is_new
        self.indexes: list[File] = []

    def directory_changed(self) -> None:
        """A name in the log's directory came or went."""
        self._changes += 1

    def plan(self, segments: Iterable[Segment], end: int, truncation_generation: int) -> SyncPlan:
        """Everything that must be synced with these segments."""
        directories: list[Syncable] = []
        if self._changes != self._synced_changes and self._rules.r19_sync_directory_entries:
            directories.append(DirectoryEntries(self._files, self._directory))
            if self._parent_changed:
                directories.append(DirectoryEntries(self._files, parent_of(self._directory)))
        indexes, self.indexes = self.indexes, []
        return SyncPlan(
            list(segments),
            indexes,
            directories,
            end=end,
            truncation_generation=truncation_generation,
            directory_changes=self._changes,
        )

    def synced(self, plan: SyncPlan) -> None:
        """A plan was carried out; what changed since is still to do."""
        self._synced_changes = max(self._synced_changes, plan.directory_changes)
        self._parent_changed = False

    def close(self) -> None:
        """Forget it all."""
        for file in self.indexes:
            file.close()
        self.indexes = []
