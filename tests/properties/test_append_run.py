"""Batches that are appended together are appended as if each had come alone, whatever they are."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.errors import ApiError
from hightide.sim.disk import SimulatedDisk
from hightide.storage.log import Appended, Log
from hightide.storage.settings import LogSettings
from tests.unit.storage.logs import DIRECTORY, NOW_MS, batch, contents, new_disk, open_log

EPOCH = 3
HOUR_MS = 3_600_000
SETTINGS = LogSettings(segment_bytes=900, segment_ms=HOUR_MS // 4, index_interval_bytes=150, file_delete_delay_ms=0)


class Sent(NamedTuple):
    """A batch of a client, bad in some way or not."""

    records: int
    size: int
    producer: int
    sequence: int
    late_ms: int
    is_damaged: bool

    @property
    def data(self) -> bytes:
        values = [b"%d:" % number + b"x" * self.size for number in range(self.records)]
        data = batch(*values, timestamp=NOW_MS + self.late_ms, producer=self.producer, sequence=self.sequence)
        if self.is_damaged:
            data[-1] ^= 1
        return bytes(data)


a_batch = st.builds(
    Sent,
    records=st.integers(1, 3),
    size=st.sampled_from((0, 10, 60, 1000)),
    producer=st.sampled_from((-1, -1, 7, 8)),
    sequence=st.integers(0, 4),
    late_ms=st.sampled_from((0, 0, 0, 5, -5, HOUR_MS // 2, HOUR_MS + 1)),
    is_damaged=st.sampled_from((False, False, False, False, True)),
)

Outcome = tuple[int, int, int, int, bool] | tuple[int, str]


def told(result: Appended | ApiError) -> Outcome:
    if isinstance(result, ApiError):
        return int(result.code), str(result)
    return result.base_offset, result.last_offset, result.append_time, result.log_start, result.duplicate


def alone(log: Log, data: bytes) -> Outcome:
    try:
        return told(log.append_as_leader(data, EPOCH, NOW_MS))
    except ApiError as error:
        return told(error)


def together(log: Log, batches: list[bytes]) -> list[Outcome]:
    """As partitions do it: what can't go with the others goes alone."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(batches):
        outcomes += [told(each) for each in log.append_run(list(batches), len(outcomes), EPOCH, NOW_MS)]
        if len(outcomes) < len(batches):
            outcomes.append(alone(log, batches[len(outcomes)]))
    return outcomes


def written(disk: SimulatedDisk, log: Log) -> dict[str, bytes]:
    """All files, indexes and producers included."""
    log.close(clean=True)
    return {name: disk.open(f"{DIRECTORY}/{name}").read_at(0, 1 << 20) for name in disk.list(DIRECTORY)}


@settings(max_examples=300, deadline=None)
@given(groups=st.lists(st.lists(a_batch, min_size=1, max_size=8), min_size=1, max_size=5), append_time=st.booleans())
def test_together_is_as_alone(groups: list[list[Sent]], append_time: bool) -> None:
    chosen = SETTINGS._replace(log_append_time=append_time)
    one_disk, run_disk = new_disk(), new_disk()
    one, run = open_log(one_disk, chosen), open_log(run_disk, chosen)
    for group in groups:
        batches = [sent.data for sent in group]
        assert together(run, batches) == [alone(one, data) for data in batches]
        assert (run.end, contents(run)) == (one.end, contents(one))
        assert run.unsynced_since_ms == one.unsynced_since_ms
        for producer in (7, 8):
            assert run.producers.last_batch(producer) == one.producers.last_batch(producer)
    assert written(run_disk, run) == written(one_disk, one)
