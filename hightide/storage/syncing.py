"""What one group commit of a log has to sync, and what it proves when it is done (R19)."""

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
