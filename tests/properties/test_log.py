"""A log behaves like a list, whatever is appended, truncated, deleted, synced, closed, killed or cut off from power."""

from random import Random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hightide.sim.disk import SimulatedDisk
from hightide.storage.index import OffsetIndex, TimeIndex
from hightide.storage.log import Log
from hightide.storage.settings import LogSettings, OpenFacts
from hightide.wire.records import iterate_headers, iterate_records
from tests.unit.storage.logs import NOW_MS, batch, contents, new_disk, open_log, sync

SETTINGS = LogSettings(segment_bytes=500, index_interval_bytes=120, file_delete_delay_ms=0)


class LogMachine(RuleBasedStateMachine):
    """The model is a dictionary from offset to (timestamp, value), and the ends."""

    disk: SimulatedDisk
    log: Log

    @initialize()
    def create(self) -> None:
        self.disk = new_disk()
        self.log = open_log(self.disk, SETTINGS)
        self.model: dict[int, tuple[int, bytes]] = {}
        self.bases: list[int] = []
        self.end = self.start = self.synced_end = self.recovery_point = 0
        self.epoch = 0
        self.written = 0

    # ------------------------------------------------------------------ what is done to it

    @rule(count=st.integers(1, 4), size=st.integers(0, 60), late=st.integers(-50, 50))
    def append(self, count: int, size: int, late: int) -> None:
        payload = [b"%d:" % (self.written + number) + b"x" * size for number in range(count)]
        self.written += count
        timestamp = NOW_MS + late
        appended = self.log.append_as_leader(memoryview(batch(*payload, timestamp=timestamp)), self.epoch, NOW_MS)
        assert appended.base_offset == self.end
        self.bases.append(self.end)
        for value in payload:
            self.model[self.end] = (timestamp, value)
            self.end += 1

    @rule()
    def lead_again(self) -> None:
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.end)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.end - back, self.start)
        if offset < self.end:
            # The batch that holds the offset goes whole; readers never had more than the start.
            offset = max(base for base in self.bases if base <= offset)
            assume(offset >= self.start)
        self.log.truncate(offset, NOW_MS)
        self.forget_from(offset)
        self.synced_end = min(self.synced_end, offset)
        self.recovery_point = min(self.recovery_point, offset)

    @rule(forward=st.integers(0, 12))
    def delete_records(self, forward: int) -> None:
        self.start = min(self.start + forward, self.end)
        self.log.advance_start(self.start)
        self.log.delete_old_segments(NOW_MS)
        self.model = {offset: record for offset, record in self.model.items() if offset >= self.start}

    @rule()
    def sync(self) -> None:
        assert sync(self.log)
        self.synced_end = self.end

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.write_checkpoints()

    @rule()
    def stop_and_start(self) -> None:
        self.log.close(clean=True)
        self.disk.kill()
        self.reopen(clean=True)
        assert self.log.end == self.end

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.reopen(clean=False)
        assert self.log.end == self.end

    @precondition(lambda self: self.end > 0)
    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed: int) -> None:
        self.disk.power_loss(Random(seed))
        self.reopen(clean=False)
        assert self.synced_end <= self.log.end <= self.end
        self.forget_from(self.log.end)

    def reopen(self, *, clean: bool) -> None:
        if clean:
            self.recovery_point = self.synced_end = self.end
        self.log = open_log(
            self.disk,
            SETTINGS,
            OpenFacts(
                clean=clean,
                recovery_point=self.recovery_point,
                recorded_synced_end=self.synced_end,
                log_start=self.start,
            ),
        )
        self.synced_end = self.log.synced_end
        assert self.synced_end == self.log.end

    def forget_from(self, offset: int) -> None:
        self.end = offset
        self.start = min(self.start, offset)
        self.model = {known: record for known, record in self.model.items() if known < offset}
        self.bases = [base for base in self.bases if base < offset]

    # ------------------------------------------------------------------ what must hold

    @invariant()
    def it_holds_the_list(self) -> None:
        assert (self.log.start, self.log.end, self.log.synced_end) == (self.start, self.end, self.synced_end)
        assert contents(self.log) == {offset: value for offset, (_, value) in self.model.items()}

    @invariant()
    def times_are_found_as_a_linear_scan_would(self) -> None:
        for late in (-50, -10, 0, 10, 50, 51):
            expected = [offset for offset, (time, _) in sorted(self.model.items()) if time >= NOW_MS + late]
            found = self.log.offset_for_timestamp(NOW_MS + late, self.end)
            assert (found[0] if found else None) == (expected[0] if expected else None)
        youngest = max(((time, -offset) for offset, (time, _) in self.model.items()), default=None)
        found = self.log.max_timestamp_offset(self.end)
        assert (found[:2] if found else None) == ((-youngest[1], youngest[0]) if youngest else None)


LogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLog = LogMachine.TestCase


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    offset=st.integers(0, 40),
    bound=st.integers(0, 41),
    max_bytes=st.integers(0, 2000),
    reopened=st.booleans(),
)
def test_a_read_is_a_run_of_whole_batches(
    sizes: list[int], offset: int, bound: int, max_bytes: int, reopened: bool
) -> None:
    """I32: the index finds what a linear scan finds."""
    disk = new_disk()
    log = open_log(disk, SETTINGS._replace(segment_bytes=2000))
    for size in sizes:
        log.append_as_leader(memoryview(batch(b"x" * size)), 0, NOW_MS)
    if reopened:
        log.close(clean=True)
        disk.kill()
        log = open_log(disk, SETTINGS, OpenFacts(clean=True, recovery_point=len(sizes)))
    offset %= len(sizes)
    bound = min(bound, len(sizes))
    read = log.read(offset, max_bytes, upper_bound=bound, min_one_batch=True)
    if offset >= bound:
        assert read is None
        return
    assert read is not None
    data = read.slice.read()
    headers = [header for _, header in iterate_headers(data)]
    assert sum(header.size for header in headers) == len(data)
    assert [header.base_offset for header in headers] == list(range(offset, offset + len(headers)))
    assert read.end == offset + len(headers) <= bound
    assert len(data) <= max_bytes or len(headers) == 1
    assert all(
        record.value == b"x" * sizes[record.offset]
        for position, header in iterate_headers(data)
        for record in iterate_records(data, position, header)
    )


rising = st.lists(st.integers(0, 2**31 - 1), unique=True).map(sorted)


@given(relatives=rising, probe=st.integers(0, 2**31 - 1))
def test_an_offset_lookup_equals_a_linear_scan(relatives: list[int], probe: int) -> None:
    index = OffsetIndex()
    for position, relative in enumerate(relatives):
        index.append(relative, position * 10)
    entries = [(relative, position * 10) for position, relative in enumerate(relatives)]
    assert OffsetIndex.decode(index.encode()).encode() == index.encode()
    assert index.at_or_before(probe) == max((entry for entry in entries if entry[0] <= probe), default=None)
    assert index.at_or_before_position(probe) == max((entry for entry in entries if entry[1] <= probe), default=None)


@given(times=st.lists(st.integers(-(2**63), 2**63 - 1)), probe=st.integers(-(2**63), 2**63 - 1))
def test_a_time_lookup_equals_a_linear_scan(times: list[int], probe: int) -> None:
    index = TimeIndex()
    maxima: list[tuple[int, int]] = []
    for relative, time in enumerate(times):
        index.append(time, relative)
        if not maxima or time > maxima[-1][0]:
            maxima.append((time, relative))
    assert TimeIndex.decode(index.encode()).encode() == index.encode()
    assert index.before(probe) == max((entry for entry in maxima if entry[0] < probe), default=None)
