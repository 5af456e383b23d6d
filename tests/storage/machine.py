"""A machine with one log on a simulated disk, the promises it made, and the checks that hold it to them.

`Machine` does to a log what a node does, synchronously. Next to it runs `Promises`, which knows nothing of files: what
was reported synced, what was given up, what may at worst lie at an offset. `violations` compares the two after a crash
and names the invariant that broke, so that a test can show a rule's worth by turning it off.
"""

from struct import Struct
from typing import NamedTuple

from hightide.errors import CorruptionError
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.storage.directory import LogDirectory
from hightide.storage.log import Appended, Log
from hightide.storage.producers import ProducerStates
from hightide.storage.recovery import apply_batch
from hightide.storage.scanning import StoredBatch
from hightide.storage.settings import LogSettings
from hightide.storage.transaction_index import TransactionIndex
from hightide.types import PartitionKey, TopicPartition
from hightide.wire.batches import build_batch
from hightide.wire.records import ControlType, Record, control_key, iterate_headers, read_header

NOW = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)
ORDERS_ID = bytes(range(16))
DATA = "data"
SETTINGS = LogSettings(
    segment_bytes=1200, index_interval_bytes=150, file_delete_delay_ms=0, retention_ms=-1, segment_ms=10**9
)
_MARKER = Struct(">hi")


def token(length: int) -> bytes:
    return bytes(range(65, 65 + length))


class Aborted(NamedTuple):
    """An aborted transaction: where its first record and its marker are."""

    producer_id: int
    first_offset: int
    marker_offset: int


class Promises:
    """What a crash must leave, and what it may."""

    def __init__(self) -> None:
        self.start = 0
        self.durable_start = 0  # deletions up to here were reported: they never come back
        self.end = 0
        self.synced_end = 0
        self.written: dict[int, bytes] = {}  # base offset -> batch
        self.possible: dict[int, set[bytes]] = {}  # also what a truncation in progress is about to remove
        self.aborted: list[Aborted] = []

    def appended(self, base: int, batch: bytes) -> None:
        self.written[base] = batch
        self.possible.setdefault(base, set()).add(batch)
        self.end = read_header(batch).next_offset

    def truncating(self, offset: int) -> None:
        self.synced_end = min(self.synced_end, offset)

    def truncated(self, offset: int) -> None:
        for base in [base for base in self.written if base >= offset]:
            del self.written[base]
        for base in [base for base in self.possible if base >= offset]:
            del self.possible[base]
        self.aborted = [entry for entry in self.aborted if entry.marker_offset < offset]
        self.end = min(self.end, offset)


class Machine:
    """A disk, the process on it, and what it promised."""

    def __init__(
        self, disk: SimulatedDisk | None = None, rules: Rules = ALL_ON, settings: LogSettings = SETTINGS
    ) -> None:
        self.disk = disk or SimulatedDisk(now_ms=lambda: NOW)
        self.rules = rules
        self.settings = settings
        self.promises = Promises()
        self.epoch = 0
        self.sequence = 0
        self.value = 0
        self.directory: LogDirectory
        self.log: Log

    # What a node does.

    def boot(self, topic_id: bytes = ORDERS_ID) -> None:
        """Start a process: open the directory and recover the log."""
        self.directory = LogDirectory.open(
            self.disk, DATA, node_id=1, cluster_id="c", token=token, rules=self.rules, reserve_bytes=4096
        )
        path = self.directory.open_partition(ORDERS, topic_id, token)
        facts = self.directory.facts(ORDERS, topic_id)
        self.log = Log.open(
            self.disk, path, ORDERS.topic, 0, topic_id, self.settings, facts=facts, now_ms=NOW, rules=self.rules
        )
        self.epoch = max(self.epoch, self.log.epochs.latest) + 1
        self.log.epochs.assign(self.epoch, self.log.end)

    def append(self, records: int = 1, *, producer_id: int = 7, transactional: bool = False) -> Appended:
        """A client's batch with the next sequence; what is in the file is what the promises know."""
        batch = self.batch(records, producer_id=producer_id, transactional=transactional)
        try:
            appended = self.log.append_as_leader(memoryview(batch), self.epoch, NOW)
        except SimulatedCrash:
            self.promises.possible.setdefault(read_header(batch).base_offset, set()).add(bytes(batch))
            raise
        if not appended.duplicate:
            self.promises.appended(appended.base_offset, bytes(batch))
        if producer_id == 7:
            self.sequence += records
        return appended

    def batch(self, records: int = 1, *, producer_id: int = 7, transactional: bool = False) -> bytearray:
        values = [f"value {self.value + number}".encode().ljust(60, b".") for number in range(records)]
        self.value += records
        return build_batch(
            [Record(timestamp=NOW + self.value, key=b"k", value=value) for value in values],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequence if producer_id == 7 else 0,
            transactional=transactional,
        )

    def abort(self, producer_id: int) -> None:
        """The coordinator's marker for a transaction that begins where its producer's last batch is."""
        state = self.log.producers.get(producer_id)
        assert state is not None
        first = state.transaction_start
        marker = Record(timestamp=NOW, key=control_key(ControlType.ABORT), value=_MARKER.pack(0, 3))
        batch = build_batch([marker], producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
        self.promises.possible.setdefault(self.log.end, set())
        try:
            appended = self.log.append_own(memoryview(batch), self.epoch, NOW)
        except SimulatedCrash:
            self.promises.possible[read_header(batch).base_offset].add(bytes(batch))
            raise
        self.promises.appended(appended.base_offset, bytes(batch))
        self.promises.aborted.append(Aborted(producer_id, first, appended.base_offset))

    def commit(self) -> bool:
        """One group commit. Whether everything written is promised now."""
        plan = self.log.unsynced_files()
        error: OSError | None = None
        for file in plan.files:
            try:
                file.sync()
            except OSError as caught:
                error = error or caught
        return self.committed(plan, error)

    def committed(self, plan: object, error: OSError | None = None) -> bool:
        """The outcome of a group commit arrives at the node."""
        done = self.log.synced(plan, error)  # type: ignore[arg-type]
        if error is not None:
            self.directory.space.sync_failed(error)
        if done:
            self.promises.synced_end = self.log.synced_end
            self.directory.synced_ends.record(
                PartitionKey(self.log.topic_id, 0), self.log.truncation_generation, self.log.synced_end
            )
            self.directory.synced_ends.write()
        return done

    def sync_record(self) -> None:
        """What happens within 10 ms of a group commit."""
        for target in self.directory.synced_ends.unsynced():
            target.sync()
        self.directory.synced_ends.synced()

    def checkpoint(self) -> None:
        """What happens every few seconds."""
        point = self.log.write_checkpoints()
        start = self.log.start
        self.directory.remember(
            recovery_points={ORDERS: point}, high_watermarks={ORDERS: self.log.synced_end}, log_starts={ORDERS: start}
        )
        self.directory.write_checkpoints()
        self.promises.durable_start = start

    def truncate(self, offset: int) -> None:
        """What a follower does that diverged. `offset` is a batch boundary."""
        self.promises.truncating(offset)
        self.directory.lower(ORDERS, self.log.topic_id, self.log.truncation_generation + 1, offset)
        self.log.truncate(offset, NOW)
        self.promises.truncated(offset)

    def new_epoch(self) -> None:
        """Another leader."""
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.log.end)

    def delete_records(self, offset: int) -> None:
        """DeleteRecords or retention: the new start is durable before files go."""
        self.promises.start = offset
        self.log.advance_start(offset)
        self.checkpoint()
        self.log.delete_old_segments(NOW)

    def stop(self) -> None:
        """A clean stop."""
        self.log.close(clean=True)
        self.promises.synced_end = self.log.end
        self.checkpoint()
        self.directory.close(clean=True)

    def restart(self) -> None:
        """The process is gone and another one starts."""
        self.disk.kill()
        self.boot()

    def rewind(self) -> None:
        """The producer continues where the log says."""
        state = self.log.producers.get(7)
        self.sequence = 0 if state is None else state.next_sequence

    def next_process(self) -> "Machine":
        """The process that will start on this disk, bound by the same promises."""
        again = Machine(self.disk, self.rules, self.settings)
        again.promises = self.promises
        again.epoch = self.epoch  # the controller's, so it never falls (I11)
        again.value = self.value
        return again

    def rebase(self) -> None:
        """What was recovered is promised from now on, and nothing else."""
        stored = read_all(self.log)
        promises = self.promises
        promises.written = stored
        promises.possible = {base: {batch} for base, batch in stored.items()}
        promises.start = self.log.start
        promises.end = promises.synced_end = self.log.end
        promises.aborted = [entry for entry in promises.aborted if entry.marker_offset < self.log.end]
        self.rewind()

    # What must hold.

    def violations(self) -> list[str]:
        """Every broken invariant of the log that is open now, after whatever happened to the disk."""
        log, promises = self.log, self.promises
        found = []
        if not promises.durable_start <= log.start <= promises.start:
            found.append(f"I10: the log starts at {log.start}, not in [{promises.durable_start}, {promises.start}]")
        if log.end < promises.synced_end:
            found.append(f"I29: the log ends at {log.end}, synced was {promises.synced_end}")
        if log.synced_end != log.end:
            found.append(f"R19: an opened log is synced to {log.synced_end} of {log.end}")
        try:
            stored = read_all(log)
        except CorruptionError as error:
            return [*found, f"I29: {error}"]
        for base, batch in promises.written.items():
            following = read_header(batch).next_offset
            if log.start < following <= promises.synced_end and stored.get(base) != batch:
                found.append(f"I29: the synced batch at {base} is gone or changed")
        for base, batch in stored.items():
            if batch not in promises.possible.get(base, ()):
                found.append(f"I31: the batch at {base} was never written there")
        return found + _broken_epochs(log, stored) + _broken_producers(log, stored) + self._broken_aborts()

    def _broken_aborts(self) -> list[str]:
        log = self.log
        # Each has one batch; when that is deleted there is nothing left to hide.
        expected = {entry for entry in self.promises.aborted if log.start <= entry.first_offset < log.end}
        expected = {entry for entry in expected if entry.marker_offset < log.end}
        known = set(log.aborted_transactions(log.start, log.end))
        return [
            f"I25: the aborted transaction {entry} is shown to readers"
            for entry in sorted(expected)
            if (entry.producer_id, entry.first_offset) not in known
        ]


def read_all(log: Log, max_bytes: int = 1 << 20) -> dict[int, bytes]:
    """Every batch that a consumer can read, by base offset."""
    found: dict[int, bytes] = {}
    offset = log.start
    while offset < log.end:
        read = log.read(offset, max_bytes, upper_bound=log.end, min_one_batch=True)
        assert read is not None, f"nothing at {offset} of [{log.start}, {log.end})"
        data = read.slice.read()
        read.slice.release()
        for position, header in iterate_headers(data):
            found[header.base_offset] = data[position : position + header.size]
        assert read.end > offset
        offset = read.end
    return found


def _broken_epochs(log: Log, stored: dict[int, bytes]) -> list[str]:
    found = []
    for base, batch in stored.items():
        epoch = read_header(batch).partition_leader_epoch
        if base >= log.start and log.epochs.epoch_at(base) != epoch:
            found.append(f"R3: the history says {log.epochs.epoch_at(base)} wrote {base}, its batch says {epoch}")
    return found


def _broken_producers(log: Log, stored: dict[int, bytes]) -> list[str]:
    """Producers as the log tells them; those whose batches were deleted may be known besides."""
    disk = SimulatedDisk()
    disk.make_directory("p")
    replayed = ProducerStates(disk, "p")
    for base in sorted(stored):
        header = read_header(stored[base])
        if header.producer_id >= 0:
            apply_batch(StoredBatch(0, header, stored[base], 0), replayed, TransactionIndex())
    found = []
    for state in replayed.active:
        known = log.producers.get(state.producer_id)
        if known is None:
            found.append(f"I23: producer {state.producer_id} is forgotten")
        elif state.batches and (known.epoch, known.next_sequence) != (state.epoch, state.next_sequence):
            found.append(
                f"I23: producer {state.producer_id} should go on at {state.next_sequence}, not {known.next_sequence}"
            )
        elif state.batches and known.batches[-1][:4] != state.batches[-1][:4]:
            # Without the timestamp: Kafka's snapshots have one per producer, a later marker's if there is one.
            found.append(f"I23: the last batch of producer {state.producer_id} is not where it is")
        elif known.transaction_start != state.transaction_start and known.transaction_start >= log.start:
            found.append(f"I26: producer {state.producer_id} has a transaction from {known.transaction_start} on")
    return found
