"""The directories of partitions: `topic-N`, each with the id of its topic inside before anything else (R22).

A topic that is deleted and created again has a new id, so a directory with another id is not ours to open: it is set
aside as `topic-N.<token>-stray` and a new one made. One that has bytes but no readable id is refused: to set it aside
would quietly replace acknowledged records by an empty log. A corrupt log that is fetched again from its leader is kept
meanwhile as `topic-N.<token>-quarantine` (R17). Kafka reads our `partition.metadata`: it looks at two lines,
the checksum is in a third.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hightide.errors import CorruptionError
from hightide.rules import ALL_ON, Rules
from hightide.storage.checkpoints import TEMPORARY_SUFFIX, make_directory_durably, read_file, write_atomically
from hightide.storage.files import Files
from hightide.types import PartitionKey, TopicPartition, format_uuid, parse_uuid
from hightide.wire.checksum import crc32c

PARTITION_METADATA_FILE = "partition.metadata"
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
QUARANTINE_SUFFIX = "-quarantine"


class PartitionDirectory(NamedTuple):
    """A partition found on disk. `topic_id` is None when its directory holds nothing readable that says it."""

    name: str
    partition: TopicPartition
    topic_id: bytes | None


class PartitionDirectories:
    """All partition directories below one log directory."""

    def __init__(self, files: Files, directory: str, rules: Rules = ALL_ON) -> None:
        self._files = files
        self._directory = directory
        self._rules = rules

    def list(self) -> list[PartitionDirectory]:
        """Every `topic-N`, without those set aside or being deleted."""
        found = []
        for name in self._files.list(self._directory):
            partition = parse_name(name)
            if partition is not None and self._files.is_directory(f"{self._directory}/{name}"):
                found.append(PartitionDirectory(name, partition, self.topic_id(partition)))
        return found

    def open(self, partition: TopicPartition, topic_id: bytes, token: str) -> str:
        """The path of a partition's directory, made when it is new.

        Another topic's directory of that name is set aside; CorruptionError when nothing tells whose it is. `token`
        makes the name of what is set aside unique.
        """
        name = str(partition)
        path = f"{self._directory}/{name}"
        if self._files.is_directory(path):
            if not self._rules.r22_topic_id_before_first_byte:
                return path
            stored = self.topic_id(partition)
            if stored == topic_id:
                return path
            if stored is not None:
                self.set_aside(name, token)
            else:
                self.check_unclaimed(partition)
        make_directory_durably(self._files, path)
        write_atomically(self._files, f"{path}/{PARTITION_METADATA_FILE}", format_metadata(topic_id), self._rules)
        return path

    def check_unclaimed(self, partition: TopicPartition) -> None:
        """CorruptionError when there are files that nothing says the owner of: they might be acknowledged records."""
        path = f"{self._directory}/{partition}"
        if not self._files.is_directory(path) or not self._rules.r22_topic_id_before_first_byte:
            return
        if set(self._files.list(path)) - {PARTITION_METADATA_FILE + TEMPORARY_SUFFIX}:
            raise CorruptionError(
                f"{path} has files, but no readable {PARTITION_METADATA_FILE} that says which topic they belong to"
            )

    def set_aside(self, name: str, token: str) -> str:
        """Rename a directory that no topic of this cluster owns; nothing in it is touched. Returns its new name."""
        stray = f"{name}.{token}{STRAY_SUFFIX}"
        self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{stray}")
        self._files.sync_directory(self._directory)
        return stray

    def strays(self) -> Sequence[str]:
        """The names of what was set aside, for people to look at and remove."""
        return [name for name in self._files.list(self._directory) if name.endswith(STRAY_SUFFIX)]

    def quarantine(self, partition: TopicPartition, topic_id: bytes, token: str) -> None:
        """Keep whatever there is of a bad log under another name, which also says that it was bad (R17)."""
        path, kept = f"{self._directory}/{partition}", f"{self._directory}/{partition}.{token}{QUARANTINE_SUFFIX}"
        if self._files.is_directory(path):
            self._files.rename(path, kept)
            self._files.sync_directory(self._directory)
        else:
            make_directory_durably(self._files, kept)
        if self._topic_id_in(kept) != topic_id:
            write_atomically(self._files, f"{kept}/{PARTITION_METADATA_FILE}", format_metadata(topic_id), self._rules)

    def quarantined(self) -> dict[PartitionKey, str]:
        """The partitions of which bad logs are kept, and the name of one such directory."""
        found = {}
        for name in self._files.list(self._directory):
            partition = parse_name(name.rpartition(".")[0]) if name.endswith(QUARANTINE_SUFFIX) else None
            topic_id = None if partition is None else self._topic_id_in(f"{self._directory}/{name}")
            if partition is not None and topic_id is not None:
                found[PartitionKey(topic_id, partition.partition)] = name
        return found

    def remove_quarantined(self, key: PartitionKey) -> None:
        """Delete all that is kept of a partition's bad logs."""
        while (name := self.quarantined().get(key)) is not None:
            self._files.remove_directory(f"{self._directory}/{name}")

    def remove_deleted(self) -> None:
        """Finish deletions that a stop interrupted."""
        for name in self._files.list(self._directory):
            path = f"{self._directory}/{name}"
            if name.endswith(DELETED_SUFFIX) and self._files.is_directory(path):
                self._files.remove_directory(path)

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        """The topic whose bytes a partition's directory holds; None when nothing readable says it."""
        return self._topic_id_in(f"{self._directory}/{partition}")

    def _topic_id_in(self, directory: str) -> bytes | None:
        path = f"{directory}/{PARTITION_METADATA_FILE}"
        try:
            return parse_metadata(read_file(self._files, path), path)
        except (FileNotFoundError, CorruptionError):
            return None


def parse_name(name: str) -> TopicPartition | None:
    """The partition that a directory of this name holds; None when it is no partition's."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdecimal() or not number.isascii() or str(int(number)) != number:
        return None
    return TopicPartition(topic, int(number))


def format_metadata(topic_id: bytes) -> bytes:
    """Kafka's `partition.metadata`, version 0."""
    body = f"version: 0\ntopic_id: {format_uuid(topic_id)}\n"
    return f"{body}crc32c: {crc32c(body.encode()):08x}\n".encode()


def parse_metadata(data: bytes, path: str) -> bytes:
    """The topic id; CorruptionError when the file is not exactly what `format_metadata` wrote."""
    try:
        topic_id = parse_uuid(data.decode("ascii").split("\n")[1].removeprefix("topic_id: "))
    except (ValueError, IndexError) as error:
        raise CorruptionError(f"{path} can't be read: {error}") from error
    if data != format_metadata(topic_id):
        raise CorruptionError(f"{path} can't be read: its checksum does not fit")
    return topic_id
