"""A machine whose log is compacted, and beside it a model in plain Python of what must survive.

The model knows records, batches and times, nothing of files. It is asked for the records before a round and after it;
a crash in between may leave the old up to some segment and the new behind it the other way round, never a mixture.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from hightide.storage.compaction import compact
from hightide.storage.compaction_plans import Cleaned, CompactionJob, Finished, LastBatch
from hightide.storage.compaction_rounds import finish_round, take_over
from hightide.storage.log import Log
from hightide.storage.settings import NEVER_COMPACTED, LogSettings
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.records import Record, iterate_records, read_header
from tests.storage.machine import NOW, ORDERS, ORDERS_ID, SETTINGS, Machine, read_all

COMPACTED = SETTINGS._replace(
    compact_policy=True, delete_policy=False, delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0
)
KEYS_MAX = 1000


class Kept(NamedTuple):
    """One record, wherever it lies."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Model:
    """Records by batch. `horizons`: when the tombstones of a batch (by its base) may go."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Kept]] = {}
        self.horizons: dict[int, int] = {}

    @property
    def records(self) -> list[Kept]:
        return [record for base in sorted(self.batches) for record in self.batches[base]]

    def after_round(self, dirty_start: int, end: int, now_ms: int, retention_ms: int, below: int) -> "Model":
        """What a round leaves that noted keys in [dirty_start, end) and wrote segments up to `below` again."""
        newest = {record.key: record.offset for record in self.records if dirty_start <= record.offset < end}
        after = Model()
        for base, records in sorted(self.batches.items()):
            horizon = self.horizons.get(base)
            is_due = horizon is not None and horizon <= now_ms
            kept = [
                record
                for record in records
                if record.offset >= end
                or (
                    record.key is not None
                    and record.offset >= newest.get(record.key, -1)
                    and not (record.value is None and is_due)
                )
            ]
            if kept:
                after.batches[base] = kept
                if horizon is not None:
                    after.horizons[base] = horizon
                elif base < below and any(record.value is None and record.offset < end for record in kept):
                    after.horizons[base] = now_ms + retention_ms
        return after

    def view(self) -> dict[bytes | None, bytes]:
        """The last value of every key that has one."""
        last = {record.key: record.value for record in self.records}
        return {key: value for key, value in last.items() if value is not None}


class CompactingMachine(Machine):
    """Does to a compacted log what a node does."""

    def __init__(
        self, disk: SimulatedDisk | None = None, rules: Rules = ALL_ON, settings: LogSettings = COMPACTED
    ) -> None:
        super().__init__(disk, rules, settings)
        self.model = Model()
        self.after: Model | None = None  # of the round that is under way
        self.jobs: list[CompactionJob] = []
        self.during: Callable[[str], None] = lambda _: None  # called between the steps of a round

    def boot(self, topic_id: bytes = ORDERS_ID) -> None:
        """As a node does: before anything can be missing, it is noted that something may be (R21)."""
        super().boot(topic_id)
        if self.settings.compact_policy and self.log.tombstone_horizon == NEVER_COMPACTED:
            self.directory.remember_horizon(ORDERS, 0)
            self.log.set_horizon(0)

    def put(
        self,
        *pairs: tuple[bytes | None, bytes | None],
        codec: Codec = Codec.NONE,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int = NOW,
        producer_id: int = 7,
        transactional: bool = False,
        append_time: int = -1,
    ) -> int:
        """One batch; its base offset."""
        records = [Record(timestamp=timestamp, key=key, value=value, headers=headers) for key, value in pairs]
        state = self.log.producers.get(producer_id)
        batch = build_batch(
            records, codec=codec, producer_id=producer_id, producer_epoch=0,
            base_sequence=0 if state is None else state.next_sequence, transactional=transactional,
            append_time=append_time,
        )  # fmt: skip
        if append_time >= 0:  # as only a broker writes it
            appended = self.log.append_own(memoryview(batch), self.epoch, NOW)
        else:
            appended = self.log.append_as_leader(memoryview(batch), self.epoch, NOW)
        self.model.batches[appended.base_offset] = list(kept_of({appended.base_offset: bytes(batch)}))
        return appended.base_offset

    def compact(
        self, now_ms: int = NOW, keys_max: int = KEYS_MAX, high_watermark: int | None = None
    ) -> Finished | None:
        """One round, if one is due and nothing makes it void."""
        log = self.log
        bound = log.synced_end if high_watermark is None else high_watermark
        cleanable = log.plan_compaction(now_ms, bound, self.directory.clean_end(ORDERS))
        if cleanable is None:
            return None
        job = log.compaction_job(cleanable, now_ms, keys_max, last_batches(log))
        self.jobs.append(job)
        generation = log.truncation_generation
        expected = self._expected(job, now_ms)
        for step in compact(self.disk, job):
            self.during(type(step).__name__)
            if isinstance(step, Cleaned) and not self.take_over(step, generation, now_ms):
                return None
            if isinstance(step, Finished):
                assert step == expected
                assert self.after is not None
                if not finish_round(log, self.directory, step, generation):
                    return None
                self.model, self.after = self.after, None
                self.directory.write_checkpoints()
                return step
        raise AssertionError("a job ends with Finished")

    def _expected(self, job: CompactionJob, now_ms: int) -> Finished:
        """Let the model do it first: the keys of whole batches, as long as there is room."""
        end, keys = job.dirty_start, set[bytes | None]()
        for base, batch in read_all(self.log).items():
            header = read_header(batch)
            if base >= job.segments[-1].end:
                break
            if header.next_offset <= job.dirty_start:
                continue
            if keys and len(keys) + header.record_count > job.keys_max:
                return self._model_round(job, end, now_ms)
            keys |= {record.key for record in self.model.batches.get(base, ())}
            end = header.next_offset
        return self._model_round(job, job.segments[-1].end, now_ms)

    def _model_round(self, job: CompactionJob, end: int, now_ms: int) -> Finished:
        below = next(segment.end for segment in job.segments if segment.end >= end)
        self.after = self.model.after_round(job.dirty_start, end, now_ms, job.delete_retention_ms, below)
        return Finished(end)

    def take_over(self, cleaned: Cleaned, generation: int, now_ms: int) -> bool:
        """What a node does with a group."""
        steps = take_over(self.log, self.directory, cleaned, generation, now_ms)
        while True:
            try:
                files = next(steps)
            except StopIteration as done:
                return bool(done.value)
            for file in files:
                file.sync()
            self.during("synced")

    def cut(self, offset: int) -> None:
        """Another leader's log ends there, which happens above the high watermark, or after an unclean election."""
        end = self.log.cut_point(offset)
        self.directory.lower(ORDERS, self.log.topic_id, self.log.truncation_generation + 1, end)
        self.log.truncate(offset, NOW)
        assert self.log.end == end
        for model in (self.model, self.after):
            if model is not None:
                model.batches = {base: batch for base, batch in model.batches.items() if base < end}
        self.new_epoch()

    def next_process(self) -> "CompactingMachine":
        """The process that will start on this disk."""
        again = CompactingMachine(self.disk, self.rules, self.settings)
        again.model, again.after, again.epoch = self.model, self.after, self.epoch
        return again

    def adopt_stored(self) -> None:
        """Whatever of a round is there, a next one begins with."""
        self.model, self.after = Model(), None
        for base, batch in read_all(self.log).items():
            records = kept_of({base: batch})
            if records:
                self.model.batches[base] = records
            horizon = read_header(batch).delete_horizon
            if horizon is not None:
                self.model.horizons[base] = horizon

    def difference(self) -> str | None:
        """How the open log differs from what the model allows; None when it does not."""
        found = stored_records(self.log)
        if self.after is None:
            return None if found == self.model.records else _compare(found, self.model.records)
        boundaries = [0, *(record.offset + 1 for record in self.model.records)]
        for boundary in boundaries:
            new = [record for record in self.after.records if record.offset < boundary]
            if found == new + [record for record in self.model.records if record.offset >= boundary]:
                return None
        return f"neither old nor new: {_compare(found, self.after.records)}"


def last_batches(log: Log) -> dict[int, LastBatch]:
    """What live producers need."""
    found = {producer_id: log.producers.last_batch(producer_id) for producer_id in log.producers.identifiers}
    return {producer_id: LastBatch(*last) for producer_id, last in found.items() if last is not None}


def kept_of(batches: dict[int, bytes]) -> list[Kept]:
    """The data records of these batches."""
    return [
        Kept(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for base in sorted(batches)
        if not read_header(batches[base]).is_control
        for record in iterate_records(batches[base], 0, read_header(batches[base]))
    ]


def stored_records(log: Log) -> list[Kept]:
    """Everything a consumer can read."""
    return kept_of(read_all(log))


def _compare(found: list[Kept], expected: list[Kept]) -> str:
    lost = [record for record in expected if record not in found]
    extra = [record for record in found if record not in expected]
    return f"missing {lost}, not expected {extra}"
