"""What a simulated disk holds: of every file and directory what a process sees, what is synced, what lies between."""

from collections.abc import Iterator
from random import Random

SECTOR_BYTES = 512
LOST, KEPT, TORN = "lost", "kept", "torn"
OUTCOMES = (LOST, KEPT, TORN)


class Content:
    """The bytes of a file. A pending change is (position, data), or (size, None) for a truncation."""

    __slots__ = ("modified_ms", "pending", "reserved", "seen", "synced")

    def __init__(self) -> None:
        self.seen = bytearray()
        self.synced = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        self.reserved = 0  # bytes that count against the capacity
        self.modified_ms = 0

    def sync(self) -> None:
        for position, data in self.pending:
            change(self.synced, position, data)
        self.pending.clear()

    def forget_writes(self) -> None:
        """A sync failed: the pages look clean now, so a later one returns and has written nothing (R19).

        A truncation is metadata, which stays in the journal until it is written.
        """
        self.pending = [(position, data) for position, data in self.pending if data is None]

    def lose_power(self, rng: Random, outcomes: tuple[str, ...]) -> None:
        for position, data in self.pending:
            outcome = rng.choice(outcomes)
            if outcome == TORN and data:
                _tear(self.synced, position, data, rng)
            elif outcome == KEPT:
                change(self.synced, position, data)
        self.pending.clear()
        self.seen[:] = self.synced
        self.reserved = len(self.seen)


class Directory:
    """The names in a directory. A pending change maps names to what they mean then, None for nothing."""

    __slots__ = ("pending", "seen", "synced")

    def __init__(self) -> None:
        self.seen: dict[str, Content | Directory] = {}
        self.synced: dict[str, Content | Directory] = {}
        self.pending: list[dict[str, Content | Directory | None]] = []

    def change(self, names: "dict[str, Content | Directory | None]") -> None:
        _rename(self.seen, names)
        self.pending.append(names)

    def sync(self) -> None:
        self.synced = dict(self.seen)
        self.pending.clear()

    def lose_power(self, rng: Random, outcomes: tuple[str, ...]) -> None:
        # File systems with a journal keep a prefix of the changes; POSIX promises no order at all.
        journalled = rng.random() < 0.5
        for names in self.pending:
            if rng.choice(outcomes) != LOST:
                _rename(self.synced, names)
            elif journalled:
                break
        self.pending.clear()
        self.seen = dict(self.synced)
        for name in sorted(self.seen):
            self.seen[name].lose_power(rng, outcomes)


def _rename(names: dict[str, Content | Directory], changes: dict[str, Content | Directory | None]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def change(image: bytearray, position: int, data: bytes | None) -> None:
    """Write `data` at `position`, or cut or zero-extend to `position` when there is none."""
    if data is None:
        if position < len(image):
            del image[position:]
        else:
            image.extend(bytes(position - len(image)))
        return
    if position > len(image):
        image.extend(bytes(position - len(image)))
    image[position : position + len(data)] = data


def _tear(image: bytearray, position: int, data: bytes, rng: Random) -> None:
    kind = rng.randrange(3)
    if kind == 0:
        change(image, position, data[: rng.randrange(len(data))])
    elif kind == 1:
        for start, end in _sectors(position, len(data)):
            if rng.random() < 0.5:
                change(image, position + start, data[start:end])
    elif position + len(data) > len(image):
        change(image, position + len(data), None)


def _sectors(position: int, length: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < length:
        end = min(length, start + SECTOR_BYTES - (position + start) % SECTOR_BYTES)
        yield start, end
        start = end


def walk(directory: Directory, prefix: str) -> Iterator[tuple[str, Content]]:
    """Every file below a directory with its path, in the order of names."""
    for name in sorted(directory.seen):
        node = directory.seen[name]
        if isinstance(node, Directory):
            yield from walk(node, f"{prefix}{name}/")
        else:
            yield prefix + name, node
