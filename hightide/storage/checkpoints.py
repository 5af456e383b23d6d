"""Small files that are replaced as a whole: never half old and half new, never guessed (R18).

A checkpoint is written beside its place, synced, renamed over it, and the directory synced. The text formats are
Kafka's (a version, a count, one entry per line), in which Kafka leaves no room for a checksum. Ours hides in plain
sight: 32 blanks behind the last entry, a space for each 0 and a tab for each 1 of a CRC-32C over everything before
them. Kafka splits lines at blanks and drops the empty rest, so it still reads our files; a file whose seal is missing
or does not fit is refused here.
"""

from collections.abc import Iterable

from hightide.errors import CorruptionError
from hightide.rules import ALL_ON, Rules
from hightide.storage.files import Files
from hightide.types import TopicPartition
from hightide.wire.checksum import crc32c

TEXT_VERSION = 0
TEMPORARY_SUFFIX = ".tmp"
_SEAL_BITS = 32
_TO_BLANKS = str.maketrans("01", " \t")
_TO_BITS = str.maketrans(" \t", "01")


def parent_of(path: str) -> str:
    """The directory that holds this name."""
    head, slash, _ = path.rpartition("/")
    return head or (slash or ".")


def make_directory_durably(files: Files, path: str) -> None:
    """Create a directory and its parents, each of which lasts only when the one above it was synced."""
    missing = []
    while not files.exists(path):
        missing.append(path)
        path = parent_of(path)
    if missing:
        files.make_directory(missing[0])
    for made in missing:
        files.sync_directory(parent_of(made))


def read_file(files: Files, path: str) -> bytes:
    """Everything in a file; FileNotFoundError when there is none."""
    file = files.open(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def write_atomically(files: Files, path: str, data: bytes, rules: Rules = ALL_ON) -> None:
    """Replace a file so that after any crash it is either the old or the new one, and the new one once this returns."""
    if not rules.r18_atomic_checkpoints:
        write_in_place(files, path, data, sync=False)
        return
    temporary = path + TEMPORARY_SUFFIX
    write_in_place(files, temporary, data)
    files.rename(temporary, path)
    files.sync_directory(parent_of(path))


def write_in_place(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
    """Fill a file that nobody needs yet; a crash may leave any part of it."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.write_at(data, 0)
        if sync:
            file.sync()
    finally:
        file.close()


def format_lines(lines: Iterable[str]) -> bytes:
    """Kafka's checkpoint text for these entries, sealed."""
    entries = list(lines)
    text = "\n".join([str(TEXT_VERSION), str(len(entries)), *entries])
    if entries:
        text += f"{crc32c(text.encode()):032b}".translate(_TO_BLANKS)
    return text.encode() + b"\n"


def parse_lines(data: bytes, path: str) -> list[list[str]]:
    """The fields of every entry; CorruptionError when the file is not exactly what `format_lines` wrote."""
    try:
        text = data.decode("ascii")
        if not text.endswith("\n"):
            raise ValueError("its last line is cut off")
        version, count, *entries = text[:-1].split("\n")
        if version != str(TEXT_VERSION):
            raise ValueError(f"it has version {version[:20]!r}, this release reads {TEXT_VERSION}")
        if count != str(len(entries)):
            raise ValueError(f"it announces {count[:20]!r} entries and has {len(entries)}")
        if entries:
            _check_seal(text[:-1])
    except ValueError as error:
        raise CorruptionError(f"{path} can't be read: {error}") from error
    return [entry.split() for entry in entries]


def _check_seal(text: str) -> None:
    body, blanks = text[:-_SEAL_BITS], text[-_SEAL_BITS:]
    if blanks.strip(" \t") or int(blanks.translate(_TO_BITS), 2) != crc32c(body.encode()):
        raise ValueError("its checksum (the blanks behind its last entry) does not fit")


class OffsetCheckpoint:
    """One offset per partition, in Kafka's `*-offset-checkpoint` text: recovery points, high watermarks, log starts.

    `offsets` is what to remember, `write` makes the file say so. An unreadable file raises CorruptionError, which stops
    the start with the file's name: nobody guesses where synced data ends (R18).
    """

    __slots__ = ("_files", "_rules", "_written", "offsets", "path")

    def __init__(self, files: Files, path: str, rules: Rules = ALL_ON) -> None:
        self._files = files
        self._rules = rules
        self._written: dict[TopicPartition, int] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.path = path

    def load(self) -> None:
        """Take over what the file says; FileNotFoundError when there is none."""
        try:
            self._written = {
                TopicPartition(topic, int(partition)): int(offset)
                for topic, partition, offset in parse_lines(read_file(self._files, self.path), self.path)
            }
        except ValueError as error:
            raise CorruptionError(f"{self.path} can't be read: an entry is not 'topic partition offset'") from error
        self.offsets = dict(self._written)

    def names(self, partition: TopicPartition) -> bool:
        """Whether the file has an entry for it, forgotten or not."""
        return partition in self._written

    def is_written(self, partition: TopicPartition) -> bool:
        """Whether the file says of it what memory says."""
        return self._written.get(partition) == self.offsets.get(partition)

    def write(self) -> None:
        """Make the file say what memory says, durably when this returns; nothing to do when it does already."""
        offsets = dict(self.offsets)
        if offsets == self._written:
            return
        lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
        write_atomically(self._files, self.path, format_lines(lines), self._rules)
        self._written = offsets
