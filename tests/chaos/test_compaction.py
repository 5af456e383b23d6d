"""kill -9 of a broker and of its helper while they compact: the helper goes with its broker, and nothing is lost."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from hightide.wire.batches import build_batch
from hightide.wire.records import Record, iterate_headers
from tests.chaos.processes import BrokerProcess
from tests.chaos.raw_client import RawClient
from tests.requests import create_topic, fetch, produce_batch, records_in

NOW = 1_700_000_000_000
ROUNDS, KEYS = 60, 20
SLOW = "200000"  # bytes in a second: some ten seconds for this log
COMPACTED = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0"}
Lookup = Callable[[], int | None]


def wait_for(question: Lookup) -> int:
    deadline = time.monotonic() + 30
    while (answer := question()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def helper_of(pid: int) -> int | None:
    """The process id of a broker's helper, while there is one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next((int(child) for child in children if "compaction_helper" in _command(child)), None)


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def fill(broker: BrokerProcess) -> dict[bytes | None, bytes | None]:
    with RawClient(broker.port) as client:
        assert client.call(create_topic("t", **COMPACTED), 7).topics[0].error_code == 0  # type: ignore[arg-type]
        for number in range(ROUNDS):
            timestamp = NOW + 10 * number
            batch = build_batch(
                [Record(timestamp=timestamp, key=b"%d" % key, value=b"%d." % number * 500) for key in range(KEYS)]
            )
            answer = client.call(produce_batch("t", bytes(batch)), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return {b"%d" % key: b"%d." % (ROUNDS - 1) * 500 for key in range(KEYS)}


def read(broker: BrokerProcess) -> list[Record]:
    found: list[Record] = []
    offset = 0
    with RawClient(broker.port) as client:
        while True:
            data = client.call(fetch("t", offset), 12).responses[0].partitions[0].records
            if not data:
                return found
            found += records_in(data)
            offset = max(header.next_offset for _, header in iterate_headers(data))


def test_a_broker_and_its_helpers_are_killed(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, log_cleaner_backoff_ms="50", log_cleaner_io_max_bytes_per_second=SLOW)
    with broker:
        view = fill(broker)
        first = wait_for(lambda: helper_of(broker.pid))
        os.kill(first, signal.SIGKILL)
        second = wait_for(lambda: None if (found := helper_of(broker.pid)) == first else found)
        assert {record.key: record.value for record in read(broker)} == view
        broker.kill()
        wait_for(lambda: 1 if is_gone(second) else None)
        broker.start()
        assert {record.key: record.value for record in read(broker)} == view
        third = wait_for(lambda: helper_of(broker.pid))
        assert broker.terminate() == 0
        wait_for(lambda: 1 if is_gone(third) else None)
    properties = tmp_path / "server.properties"
    properties.write_text(properties.read_text().replace(f"second={SLOW}", "second=1e300"))
    with broker:
        # All but the active segment, which holds the last round, and the emptied batches around it.
        wait_for(lambda: 1 if len(read(broker)) <= 2 * KEYS else None)
        assert {record.key: record.value for record in read(broker)} == view
        assert broker.unexpected() == []
