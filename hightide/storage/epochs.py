"""Which leader epoch wrote which offsets: the memory by which replicas find where they diverged (R1, R3).

The law: epochs and start offsets both rise strictly from entry to entry. The file is Kafka's
`leader-epoch-checkpoint`. It is written lazily (`write`), at the latest before the recovery point passes an entry;
what it misses, recovery rebuilds from the batches, each of which carries its epoch.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple, Self

from hightide.errors import CorruptionError
from hightide.rules import ALL_ON, Rules
from hightide.storage.checkpoints import format_lines, parse_lines, read_file, write_atomically
from hightide.storage.files import Files
from hightide.types import NO_EPOCH, NO_OFFSET

EPOCHS_FILE: Final = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """From `start` on, batches were written by the leader of `epoch`."""

    epoch: int
    start: int


class EpochHistory:
    """The entries of one log, in memory and (after `write`) on disk."""

    __slots__ = ("_directory", "_epochs", "_files", "_rules", "_starts", "latest", "unwritten")

    latest: int
    """The newest epoch, or -1. Read on every append, so a plain attribute."""
    unwritten: bool
    """Whether the file lags behind memory."""

    def __init__(self, files: Files, directory: str, entries: Iterable[EpochEntry] = (), rules: Rules = ALL_ON) -> None:
        self._files = files
        self._directory = directory
        self._rules = rules
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        for epoch, start in entries:
            self.assign(epoch, start)
        self.unwritten = False

    @classmethod
    def load(cls, files: Files, directory: str, rules: Rules = ALL_ON) -> Self:
        """What the file says; empty without a file.

        CorruptionError when it is unreadable: the log then starts with an empty history, rebuilt from all its batches.
        """
        path = f"{directory}/{EPOCHS_FILE}"
        try:
            lines = parse_lines(read_file(files, path), path)
        except FileNotFoundError:
            return cls(files, directory, rules=rules)
        try:
            entries = [EpochEntry(int(epoch), int(start)) for epoch, start in lines]
        except ValueError as error:
            raise CorruptionError(f"{path} can't be read: an entry is not 'epoch start-offset'") from error
        if any(later.epoch <= earlier.epoch or later.start <= earlier.start for earlier, later in pairwise(entries)):
            raise CorruptionError(f"{path} can't be read: its entries do not rise")
        return cls(files, directory, entries, rules)

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, oldest first."""
        return list(map(EpochEntry, self._epochs, self._starts))

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on, `epoch` writes. Entries that contradict it go: (6, 100) replaces (5, 100).

        The newest epoch again, at or above its start, changes nothing.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset} can't be")
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.latest = epoch
        self.unwritten = True

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest own epoch ≤ `epoch` and where it ends (KIP-101, KIP-279), by which R1 cuts.

        (-1, -1) when nothing is known. An epoch older than all own ones answers itself with the start of the oldest, so
        that cutting there drops the log. One newer than all answers the newest and the end of the log; a leader that is
        asked about an epoch it never heard of (`epoch > latest`) must say so instead, as Kafka does.
        """
        epochs = self._epochs
        if epoch == NO_EPOCH or not epochs:
            return NO_EPOCH, NO_OFFSET
        if epoch >= epochs[-1]:
            return epochs[-1], log_end
        after = bisect_right(epochs, epoch)
        return (epochs[after - 1] if after else epoch), self._starts[after]

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote (or, at the end, will write) this offset; -1 below the oldest entry."""
        after = bisect_right(self._starts, offset)
        return self._epochs[after - 1] if after else NO_EPOCH

    def truncate_from_end(self, offset: int) -> None:
        """Forget entries that start at or above `offset`: the log now ends there."""
        starts = self._starts
        if not starts or starts[-1] < offset:
            return
        while starts and starts[-1] >= offset:
            starts.pop()
            self._epochs.pop()
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.unwritten = True

    def truncate_from_start(self, offset: int) -> None:
        """Forget entries wholly below `offset`: the log now starts there, and so does the epoch that covers it."""
        starts = self._starts
        keep = bisect_right(starts, offset) - 1
        if keep < 0 or (starts[keep] == offset and keep == 0):
            return
        del starts[:keep], self._epochs[:keep]
        starts[0] = offset
        self.unwritten = True

    def clear(self) -> None:
        """Forget everything: the log starts anew."""
        self._epochs.clear()
        self._starts.clear()
        self.latest = NO_EPOCH
        self.unwritten = True

    def write(self) -> None:
        """Make the file say what memory says, durably when this returns; nothing to do when it does already."""
        if not self.unwritten:
            return
        data = format_lines(f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True))
        write_atomically(self._files, f"{self._directory}/{EPOCHS_FILE}", data, self._rules)
        self.unwritten = False
