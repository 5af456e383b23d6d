"""Small files that are replaced as a whole: never half old and half new, never guessed (R18).

A checkpoint is written beside its place, synced, renamed over it, and the directory synced. The text formats are
Kafka's (a version, a count, one entry per line), in which Kafka leaves no room for a checksum. Ours hides in plain
sight: 32 blanks behind the last entry, a space for each 0 and a tab for each 1 of a CRC-32C over everything before
them. Kafka splits lines at blanks and drops the empty rest, so it still reads our files; a file whose seal is missing
or does not fit is refused here.
"""

from collections.abc import Iterable, Mapping

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
    return path.rpartition("/")[0] or "."


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
        _overwrite(files, path, data, sync=False)
        return
    temporary = path + TEMPORARY_SUFFIX
    _overwrite(files, temporary, data, sync=True)
    files.rename(temporary, path)
    files.sync_directory(parent_of(path))


def _overwrite(files: Files, path: str, data: bytes, *, sync: bool) -> None:
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

    A missing file means no entries: a new directory. An unreadable one raises CorruptionError, which stops the start
    with the file's name: nobody guesses where synced data ends (R18).
    """

    def __init__(self, files: Files, path: str, rules: Rules = ALL_ON) -> None:
        self._files = files
        self._rules = rules
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """What was last written."""
        try:
            data = read_file(self._files, self.path)
        except FileNotFoundError:
            return {}
        try:
            return {
                TopicPartition(topic, int(partition)): int(offset)
                for topic, partition, offset in parse_lines(data, self.path)
            }
        except ValueError as error:
            raise CorruptionError(f"{self.path} can't be read: an entry is not 'topic partition offset'") from error

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace it, durably when this returns."""
        lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
        write_atomically(self._files, self.path, format_lines(lines), self._rules)
