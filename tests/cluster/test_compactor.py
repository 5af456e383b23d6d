"""The helper process that compacts: it works on real files, dies, is replaced, and never outlives its broker."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hightide.errors import CorruptionError, HelperError
from hightide.runtime.compaction_helper import decode_job, encode_job
from hightide.runtime.compactor import MODULE, ProcessCompactor
from hightide.runtime.files import OsFiles
from hightide.storage.compaction_plans import Cleaned, CompactionJob, Finished, LastBatch
from hightide.storage.log import Log
from hightide.storage.settings import LogSettings, OpenFacts
from hightide.storage.transaction_index import AbortedTransaction
from hightide.wire.batches import build_batch
from hightide.wire.records import Record

NOW = 1_700_000_000_000
SETTINGS = LogSettings(segment_bytes=10_000, compact_policy=True, min_cleanable_dirty_ratio=0.0)
UNLIMITED = 1e300


def log_of(directory: Path, batches: int = 200) -> Log:
    log = Log.open(OsFiles(), f"{directory}/t-0", "t", 0, bytes(16), SETTINGS, facts=OpenFacts(), now_ms=NOW)
    for number in range(batches):
        batch = build_batch([Record(timestamp=NOW, key=b"%d" % (number % 7), value=b"v" * 200)])
        log.append_as_leader(memoryview(batch), 0, NOW)
    plan = log.unsynced_files()
    for file in plan.files:
        file.sync()
    log.synced(plan)
    return log


def job_of(log: Log) -> CompactionJob:
    cleanable = log.plan_compaction(NOW, log.end, 0)
    assert cleanable is not None
    return log.compaction_job(cleanable, NOW, 1000, {})


def run(story: Callable[[ProcessCompactor], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        compactor = ProcessCompactor(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(story(compactor), 60)
        finally:
            compactor.close()

    asyncio.run(told())


async def steps_of(compactor: ProcessCompactor, job: CompactionJob, rate: float = UNLIMITED) -> list[Any]:
    """Everything that is told of a job, to its end."""
    steps: asyncio.Queue[Any] = asyncio.Queue()
    compactor.compact(job, rate, steps.put_nowait)
    told = [await steps.get()]
    while isinstance(told[-1], Cleaned):
        told.append(await steps.get())
    return told


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_job_and_its_steps_survive_the_pipe() -> None:
    job = CompactionJob(
        "d", [], 5, NOW, 1, 2, 3, 4, 5, {7: LastBatch(9, 0)}, [AbortedTransaction(1, 2, 3, 4)], syncs=False
    )
    assert decode_job(encode_job(job, 1.5)) == (job, 1.5)
    many = job._replace(producers={number: LastBatch(number, 0) for number in range(5000)})
    lines = list(encode_job(many, 1.5))
    assert len(lines) > 2
    assert decode_job(lines) == (many, 1.5)


def test_one_helper_serves_many_jobs(tmp_path: Path) -> None:
    log = log_of(tmp_path)

    async def story(compactor: ProcessCompactor) -> None:
        assert compactor.pid is None, "nothing starts before it is needed"
        told = await steps_of(compactor, job_of(log))
        assert isinstance(told[-1], Finished)
        assert sum(step.records_before for step in told[:-1]) > sum(step.records_after for step in told[:-1])
        pid = compactor.pid
        assert isinstance((await steps_of(compactor, job_of(log)))[-1], Finished)
        assert compactor.pid == pid

    run(story)
    log.close(clean=False)


def test_a_job_with_many_producers(tmp_path: Path) -> None:
    """More than a pipe holds: nobody waits for it to be read."""
    log = log_of(tmp_path)
    job = job_of(log)._replace(producers={number: LastBatch(number, 0) for number in range(30_000)})

    async def story(compactor: ProcessCompactor) -> None:
        assert isinstance((await steps_of(compactor, job))[-1], Finished)

    run(story)
    log.close(clean=False)


def test_what_a_helper_says_of_bad_and_missing_files(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    job = job_of(log)

    async def story(compactor: ProcessCompactor) -> None:
        first = tmp_path / "t-0" / "00000000000000000000.log"
        data = bytearray(first.read_bytes())
        data[100] ^= 1
        first.write_bytes(data)
        assert isinstance((await steps_of(compactor, job))[-1], CorruptionError)
        first.unlink()
        assert isinstance((await steps_of(compactor, job))[-1], FileNotFoundError)

    run(story)
    log.close(clean=False)


def test_a_killed_helper_is_told_and_replaced(tmp_path: Path) -> None:
    log = log_of(tmp_path)

    async def story(compactor: ProcessCompactor) -> None:
        slow = asyncio.create_task(steps_of(compactor, job_of(log), rate=1000.0))
        await asyncio.sleep(0)
        killed = compactor.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        assert isinstance((await slow)[-1], HelperError)
        assert isinstance((await steps_of(compactor, job_of(log)))[-1], Finished)
        assert compactor.pid != killed

    run(story)
    log.close(clean=False)


def test_nothing_is_told_of_a_cancelled_job(tmp_path: Path) -> None:
    log = log_of(tmp_path)

    async def story(compactor: ProcessCompactor) -> None:
        told: list[object] = []
        compactor.compact(job_of(log), 1000.0, told.append)
        cancelled = compactor.pid
        compactor.cancel()
        assert isinstance((await steps_of(compactor, job_of(log)))[-1], Finished)
        assert told == []
        assert compactor.pid != cancelled

    run(story)
    log.close(clean=False)


def test_a_helper_ends_when_its_broker_does(tmp_path: Path) -> None:
    """However that happens: kill -9 closes the pipe, and the helper hears of nothing else."""
    log = log_of(tmp_path)
    with subprocess.Popen([sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
        assert helper.stdin is not None
        helper.stdin.writelines(encode_job(job_of(log), 1000.0))  # hours of work at that pace
        helper.stdin.close()
        assert helper.wait(20) == 0
    log.close(clean=False)


@pytest.mark.parametrize("busy", [False, True])
def test_a_closed_compactor_leaves_no_process(tmp_path: Path, busy: bool) -> None:
    log = log_of(tmp_path)
    pids: list[int | None] = []

    async def story(compactor: ProcessCompactor) -> None:
        await steps_of(compactor, job_of(log))
        if busy:
            compactor.compact(job_of(log), 1000.0, lambda _: None)
        pids.append(compactor.pid)

    run(story)
    assert pids[0] is not None
    assert not is_running(pids[0])
    log.close(clean=False)
