"""One log directory: whose it is, how it was left, what it remembers of its logs, and whether it may be written.

Opened before any log, in this order: identity checked (R22), state and checkpoints read, the new boot id stored, the
clean mark removed (R8), the reserve taken. What it remembers of a log (`facts`) is what recovery must not fall below
(R17). Closed after every log: checkpoints, then, as the very last thing, the clean mark (R19). Files that a formatted
directory must have and lacks, or that can't be read, stop the start by name: nothing is guessed (R18).
"""

import errno
from collections.abc import Callable, Mapping
from typing import Self, TypeVar

from hightide.errors import CorruptionError, DiskFullError, StorageError
from hightide.limits import RESERVE_BYTES
from hightide.rules import ALL_ON, Rules
from hightide.storage.checkpoints import (
    OffsetCheckpoint,
    format_lines,
    make_directory_durably,
    read_file,
    write_atomically,
    write_in_place,
)
from hightide.storage.files import Files
from hightide.storage.identity import (
    META_FILE,
    Identity,
    State,
    check_identity,
    read_identity,
    read_state,
    write_identity,
    write_state,
)
from hightide.storage.partition_directories import PartitionDirectories
from hightide.storage.recovery import FULL_DISK, NO_DESCRIPTORS
from hightide.storage.settings import NEVER_COMPACTED, OpenFacts
from hightide.storage.space import Condition, Space
from hightide.storage.synced_ends import SyncedEnds, create_synced_ends
from hightide.types import PartitionKey, TopicPartition, format_uuid

RECOVERY_POINTS_FILE = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS_FILE = "replication-offset-checkpoint"
LOG_STARTS_FILE = "log-start-offset-checkpoint"
CLEAN_ENDS_FILE = "cleaner-offset-checkpoint"
TOMBSTONE_HORIZONS_FILE = "tombstone-horizon-checkpoint"
SYNCED_ENDS_FILE = "synced-ends"
CLEAN_MARK_FILE = ".kafka_cleanshutdown"

NOT_THE_DISK = (errno.ENOENT, *NO_DESCRIPTORS)

Token = Callable[[int], bytes]
T = TypeVar("T")


class LogDirectory:
    """An opened log directory. Opening, closing, `lower` and `write_checkpoints` sync in the caller's thread."""

    identity: Identity
    state: State
    synced_ends: SyncedEnds
    clean: bool
    """Whether the clean mark was there: every log is whole and synced."""

    def __init__(self, files: Files, path: str, rules: Rules = ALL_ON, reserve_bytes: int = RESERVE_BYTES) -> None:
        self.files = files
        self.path = path
        self.clean = False
        self.space = Space(files, path, reserve_bytes, rules)
        self.partitions = PartitionDirectories(files, path, rules)
        self._rules = rules
        self._recovery_points = OffsetCheckpoint(files, f"{path}/{RECOVERY_POINTS_FILE}", rules)
        self._high_watermarks = OffsetCheckpoint(files, f"{path}/{HIGH_WATERMARKS_FILE}", rules)
        self._log_starts = OffsetCheckpoint(files, f"{path}/{LOG_STARTS_FILE}", rules)
        self._clean_ends = OffsetCheckpoint(files, f"{path}/{CLEAN_ENDS_FILE}", rules)
        self._tombstone_horizons = OffsetCheckpoint(files, f"{path}/{TOMBSTONE_HORIZONS_FILE}", rules)
        self._of_compaction = (self._clean_ends, self._tombstone_horizons)
        self._checkpoints = (self._recovery_points, self._high_watermarks, self._log_starts, *self._of_compaction)
        self._mutex = files.mutex()

    # The life of a directory.

    @classmethod
    def open(
        cls,
        files: Files,
        path: str,
        *,
        node_id: int,
        token: Token,
        cluster_id: str | None = None,
        rules: Rules = ALL_ON,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> Self:
        """Open it, or make it this node's when it is new; `token` gives random bytes for the ids of a new one.

        StorageError (CorruptionError for unreadable files) with a sentence for the operator when it may not be used.
        """
        directory = cls(files, path, rules, reserve_bytes)
        stored = read_identity(files, path)
        if stored is None:
            stored = directory._format(node_id, cluster_id or _new_id(token), token)
        check_identity(path, stored, node_id, cluster_id)
        directory.identity = stored
        directory._load()
        directory.space.open()
        return directory

    def _format(self, node_id: int, cluster_id: str, token: Token) -> Identity:
        """Everything a directory must have, the identity last: an interrupted start begins again."""
        make_directory_durably(self.files, self.path)
        partitions = self.partitions.list()
        if partitions:
            raise StorageError(f"{self.path} has partitions ({partitions[0].name}), but its {META_FILE} is missing")
        for checkpoint in self._checkpoints:
            write_in_place(self.files, checkpoint.path, format_lines(()))
        create_synced_ends(self.files, f"{self.path}/{SYNCED_ENDS_FILE}")
        write_state(self.files, self.path, State(self.files.boot_id()), self._rules)
        identity = Identity(cluster_id, node_id, _new_uuid(token))
        write_identity(self.files, self.path, identity, self._rules)
        return identity

    def _load(self) -> None:
        state = read_state(self.files, self.path)
        try:
            for checkpoint in self._checkpoints:
                # Directories of versions without compaction have none of it.
                if checkpoint not in self._of_compaction or self.files.exists(checkpoint.path):
                    checkpoint.load()
            self.synced_ends = self.guarded(self._open_synced_ends)
        except FileNotFoundError as error:
            raise CorruptionError(
                f"{error.filename} is missing: without it nobody knows which records are there for good. Restore it"
            ) from error
        self.clean = self._has_clean_mark(state)
        boot_id = self.files.boot_id()
        is_rebooted = not boot_id or boot_id != state.boot_id
        # A crash between these two leaves a mark that still tells the truth: no log was opened yet.
        self.state = state
        was_unclean = state.is_unclean and self._rules.r8_uncleanness_stays
        self._store(State(boot_id, state.broker_epoch, was_unclean or (is_rebooted and not self.clean)))
        self.guarded(self._remove_clean_mark)
        if not self.clean:  # once for all partitions: what a crash left of their names lasts from now on (R19)
            self.guarded(lambda: self.files.sync_directory(self.path))

    def _open_synced_ends(self) -> SyncedEnds:
        return SyncedEnds.open(self.files, f"{self.path}/{SYNCED_ENDS_FILE}", self._rules)

    def close(self, *, clean: bool) -> None:
        """The logs are closed. `clean`: all of them are synced, and their offsets were written."""
        if clean and self.space.condition is not Condition.OFFLINE:
            self.guarded(self.synced_ends.sync)
            self.guarded(self._write_clean_mark)
        self.synced_ends.close()

    # The clean mark, in Kafka's form (KIP-966).

    def _has_clean_mark(self, state: State) -> bool:
        """A mark of another broker epoch, or an unreadable one, says nothing."""
        try:
            return read_file(self.files, f"{self.path}/{CLEAN_MARK_FILE}") == _clean_mark(state.broker_epoch)
        except FileNotFoundError:
            return False

    def _write_clean_mark(self) -> None:
        mark = _clean_mark(self.state.broker_epoch)
        write_atomically(self.files, f"{self.path}/{CLEAN_MARK_FILE}", mark, self._rules)

    def _remove_clean_mark(self) -> None:
        path = f"{self.path}/{CLEAN_MARK_FILE}"
        if self.files.exists(path):
            self.files.remove(path)
            self.files.sync_directory(self.path)

    # What is remembered between lives.

    @property
    def is_unclean(self) -> bool:
        """An unclean stop that the controller has not acknowledged yet (R8)."""
        return self.state.is_unclean

    def acknowledge_unclean(self) -> None:
        """The controller knows."""
        self._store(self.state._replace(is_unclean=False))

    def store_broker_epoch(self, broker_epoch: int) -> None:
        """Durable before the broker asks to be unfenced (R8)."""
        self._store(self.state._replace(broker_epoch=broker_epoch))

    def _store(self, state: State) -> None:
        if state != self.state:
            self.guarded(lambda: write_state(self.files, self.path, state, self._rules))
            self.state = state

    def facts(self, partition: TopicPartition, topic_id: bytes) -> OpenFacts:
        """What a log's recovery is told."""
        return OpenFacts(
            clean=self.clean,
            recovery_point=self._recovery_points.offsets.get(partition, 0),
            recorded_synced_end=self.synced_ends.end(PartitionKey(topic_id, partition.partition)),
            high_watermark=self._high_watermarks.offsets.get(partition, 0),
            log_start=self._log_starts.offsets.get(partition, 0),
            tombstone_horizon=self._tombstone_horizons.offsets.get(partition, NEVER_COMPACTED),
            entered=True,
        )

    def clean_end(self, partition: TopicPartition) -> int:
        """Up to where compaction has been."""
        return self._clean_ends.offsets.get(partition, 0)

    def remember(
        self,
        *,
        recovery_points: Mapping[TopicPartition, int] | None = None,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
        log_starts: Mapping[TopicPartition, int] | None = None,
        clean_ends: Mapping[TopicPartition, int] | None = None,
        tombstone_horizons: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """What `write_checkpoints` will write; logs that are not named keep theirs.

        A recovery point is never above what is synced with its epoch history; a high watermark is min(HW, own synced
        end).
        """
        told = (recovery_points, high_watermarks, log_starts, clean_ends, tombstone_horizons)
        for checkpoint, offsets in zip(self._checkpoints, told, strict=True):
            if offsets is not None:
                checkpoint.offsets.update(offsets)

    def write_synced_ends(self) -> None:
        """Give the recorded synced ends to the operating system, with the reserve's bytes if need be."""
        self.guarded(self.synced_ends.write)

    def write_checkpoints(self) -> None:
        """Make the files say what is remembered now, durably. The one thing here that any thread may do.

        It writes what is remembered when it runs, never what was when it was asked for: a truncation or deletion
        since then has the last word.
        """
        with self._mutex:
            for checkpoint in self._checkpoints:
                self.guarded(checkpoint.write)

    def lower(self, partition: TopicPartition, topic_id: bytes, generation: int, offset: int) -> None:
        """Before a truncation to `offset`: nothing remembered promises more, durably when this returns (R17).

        `generation` is the truncation generation that the truncation begins.
        """
        key = PartitionKey(topic_id, partition.partition)
        self.guarded(lambda: self.synced_ends.lower(key, generation, offset))
        lowered = False
        for checkpoint in self._checkpoints:
            if checkpoint.offsets.get(partition, 0) > offset:
                checkpoint.offsets[partition] = offset
                lowered = True
        if lowered:
            self.write_checkpoints()

    def remember_start(self, partition: TopicPartition, start: int) -> None:
        """A log began anew at `start`: durable when this returns, and nothing is written when it is so already.

        Before a synced end of it is recorded: a log that begins behind its remembered start and was synced further
        looks like one that lost its first segment.
        """
        self._log_starts.offsets[partition] = start
        with self._mutex:
            self.guarded(self._log_starts.write)

    def remember_horizon(self, partition: TopicPartition, horizon: int) -> None:
        """A log is or was compacted, and tombstones below `horizon` may be missing in it: durable when this returns."""
        self._tombstone_horizons.offsets[partition] = horizon
        self.store_horizon(partition)

    def store_horizon(self, partition: TopicPartition) -> None:
        """Make what is remembered of that durable, if it is not: before the first offset is missing (R21)."""
        if not self.has_stored_horizon(partition):
            with self._mutex:
                self.guarded(self._tombstone_horizons.write)

    def has_stored_horizon(self, partition: TopicPartition) -> bool:
        """Whether what is remembered of that is on disk."""
        return self._tombstone_horizons.is_written(partition)

    def open_partition(self, partition: TopicPartition, topic_id: bytes, token: Token) -> str:
        """The path of a partition's directory, for `Log.open`; a new one begins without memories of a namesake.

        CorruptionError when it is not there but was, or when nothing tells whose it is (R17).
        """
        stored = self.partitions.topic_id(partition)
        if stored != topic_id:
            # Both before anything remembered of it is forgotten.
            if stored is None:
                self.partitions.check_unclaimed(partition)
            self._check_not_lost(partition, topic_id)
            self.forget(partition, topic_id)
            with self._mutex:
                for checkpoint in self._checkpoints:
                    if checkpoint.names(partition):
                        self.guarded(checkpoint.write)
        return self.guarded(lambda: self.partitions.open(partition, topic_id, token(16).hex()))

    def _check_not_lost(self, partition: TopicPartition, topic_id: bytes) -> None:
        synced_end = self.synced_ends.end(PartitionKey(topic_id, partition.partition))
        if synced_end and self._rules.r17_quarantine_synced_corruption:
            raise CorruptionError(f"{self.path}/{partition} is gone, but was synced up to {synced_end}")

    def forget(self, partition: TopicPartition, topic_id: bytes) -> None:
        """The log is deleted; the files follow with the next checkpoint."""
        self.synced_ends.forget(PartitionKey(topic_id, partition.partition))
        for checkpoint in self._checkpoints:
            checkpoint.offsets.pop(partition, None)

    def set_aside(self, partition: TopicPartition, topic_id: bytes, token: Token) -> str:
        """No topic of this cluster owns that directory any more: it keeps its files under the name returned (R22)."""
        self.forget(partition, topic_id)
        return self.guarded(lambda: self.partitions.set_aside(str(partition), token(16).hex()))

    def quarantine(self, partition: TopicPartition, topic_id: bytes, token: Token) -> None:
        """The log is bad and will be fetched again: its files are kept aside, and nothing is promised of it (R17).

        In this order: a crash in between leaves a log that is gone and was synced, which is as bad as it was.
        """
        self.guarded(lambda: self.partitions.quarantine(partition, topic_id, token(16).hex()))
        self.lower(partition, topic_id, 0, 0)

    # Writing what may use the reserve.

    def guarded(self, write: Callable[[], T]) -> T:
        """Write what must be written: on a full disk with the reserve's bytes; any failure ends the directory (R10).

        `write` can be done again after it met a full disk. OSError only for what says nothing about the disk: a missing
        file, or a process that has as many files open as it may.
        """
        if self.space.condition is Condition.OFFLINE:
            raise StorageError(self.space.reason)
        try:
            return write()
        except DiskFullError as error:
            if self.space.condition is not Condition.ONLINE:
                raise
            self.space.write_failed(OSError(errno.ENOSPC, str(error)))
            return self.guarded(write)
        except OSError as error:
            if error.errno in NOT_THE_DISK:
                raise
            if error.errno in FULL_DISK and self.space.condition is Condition.ONLINE:
                self.space.write_failed(error)
                return self.guarded(write)
            self.space.take_offline(f"{self.path} failed: {error}")
            raise StorageError(self.space.reason) from error


def _clean_mark(broker_epoch: int) -> bytes:
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def _new_uuid(token: Token) -> bytes:
    """Random, and never one that starts with a dash when printed: command lines would take it for an option."""
    while True:
        value = token(16)
        if not format_uuid(value).startswith("-"):
            return value


def _new_id(token: Token) -> str:
    return format_uuid(_new_uuid(token))
