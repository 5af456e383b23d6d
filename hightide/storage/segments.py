"""The segments of one log in order: the last one is active, all others are sealed."""

from bisect import bisect_right
from collections.abc import Iterator

from hightide.storage.files import Files
from hightide.storage.segment import Segment


class Segments:
    """Finds segments and lets them come and go. Invariant: there is at least one, and bases strictly rise."""

    __slots__ = ("_bases", "_condemned", "_directory", "_files", "_loaded", "_segments", "active")

    active: Segment
    """The one that is appended to; its indexes are in memory."""

    def __init__(self, files: Files, directory: str, segments: list[Segment]) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._loaded: Segment | None = None
        self._condemned: list[tuple[int, list[str]]] = []
        self._activate_last()

    def _activate_last(self) -> None:
        self.active = self._segments[-1]
        self.active.load()

    def __len__(self) -> int:
        return len(self._segments)

    def __bool__(self) -> bool:
        return bool(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __reversed__(self) -> Iterator[Segment]:
        return reversed(self._segments)

    @property
    def first_base(self) -> int:
        """Where the oldest segment begins."""
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    def find(self, offset: int) -> Segment:
        """The segment to read this offset from. The indexes of one sealed segment are kept in memory at a time."""
        found = bisect_right(self._bases, offset) - 1
        segment = self._segments[found]
        if offset >= segment.end and segment is not self.active:  # compaction left a gap
            segment = self._segments[found + 1]
        loaded = self._loaded
        if segment is not loaded and segment is not self.active:
            if loaded is not None:
                loaded.unload()
            self._loaded = segment
        return segment

    def unload_idle(self) -> None:
        """Forget the indexes that a walk over all segments loaded."""
        for segment in self._segments:
            if segment is not self.active and segment is not self._loaded:
                segment.unload()

    def beginning_with(self, offset: int) -> list[Segment]:
        """The segment that holds this offset and all after it."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def append(self, segment: Segment) -> None:
        """A new active segment; the one before is sealed."""
        self.active.unload()
        self._segments.append(segment)
        self._bases.append(segment.base)
        self.active = segment

    def remove_from_end(self, offset: int) -> None:
        """Remove segments that begin at `offset` or later, but the first; the last goes first, so that a crash leaves
        no gap (R19)."""
        self._loaded = None
        while len(self._segments) > 1 and self._bases[-1] >= offset:
            self._segments.pop().remove()
            self._bases.pop()
            self._files.sync_directory(self._directory)
        self._activate_last()

    def replace_all(self, base: int, *, gaps: bool) -> None:
        """Drop everything and begin anew with an empty segment; the last goes first here too."""
        self._loaded = None
        while self._segments:
            self._segments.pop().remove()
            self._bases.pop()
            self._files.sync_directory(self._directory)
        segment = Segment.open(self._files, self._directory, base, create=True)
        segment.gaps = gaps
        self._segments.append(segment)
        self._bases.append(base)
        self._activate_last()

    def condemn_below(self, offset: int, remove_at_ms: int) -> int:
        """Take sealed segments wholly below `offset` out; their files go at `remove_at_ms`. Returns how many."""
        count = 0
        while len(self._segments) > 1 and self._segments[0].end <= offset:
            segment = self._segments.pop(0)
            del self._bases[0]
            if segment is self._loaded:
                self._loaded = None
            self._condemned.append((remove_at_ms, segment.condemn()))
            count += 1
        return count

    def exchange(self, replaced: list[Segment], fresh: Segment, remove_at_ms: int) -> None:
        """Put one segment into the place of several that follow each other; their files go at `remove_at_ms`."""
        at = self._segments.index(replaced[0])
        self._segments[at : at + len(replaced)] = [fresh]
        self._bases[at : at + len(replaced)] = [fresh.base]
        for segment in replaced:
            if segment is self._loaded:
                self._loaded = None
            self._condemned.append((remove_at_ms, segment.condemn()))
        if self.active in replaced:
            self._activate_last()

    def take_due(self, now_ms: int) -> list[str]:
        """The files of condemned segments that are due; whoever takes them removes them."""
        due = [path for remove_at_ms, paths in self._condemned if remove_at_ms <= now_ms for path in paths]
        self._condemned = [entry for entry in self._condemned if entry[0] > now_ms]
        return due

    def retire(self) -> None:
        """Close all files, each once nobody reads from it any more."""
        for segment in self._segments:
            segment.retire()
