"""The process that compacts logs beside a broker: `python -m hightide.runtime.compaction_helper`.

It reads jobs from its standard input, a line each, and tells what it did on its standard output. It knows nothing but
files. When its input ends the broker is gone, and so is it, at once and whatever it is doing: what it has written so
far counts for nobody. It is nice to the broker: it runs when there is time.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import Any

from hightide.errors import CorruptionError
from hightide.limits import COMPACTION_PRODUCERS_PER_TURN
from hightide.runtime.files import OsFiles
from hightide.storage.compaction import compact
from hightide.storage.compaction_plans import (
    Cleaned,
    CompactionJob,
    CompactionStep,
    Finished,
    LastBatch,
    Progressed,
    StoredSegment,
)
from hightide.storage.transaction_index import AbortedTransaction

NICENESS = 10
PAUSE_SECONDS_MIN = 0.01


def encode_job(job: CompactionJob, bytes_per_second: float) -> Iterator[bytes]:
    """Lines for the helper, each made in a moment: those of many producers come first, a few at a time."""
    producers = iter(job.producers.items())
    while some := list(islice(producers, COMPACTION_PRODUCERS_PER_TURN)):
        yield json.dumps(some).encode() + b"\n"
    yield json.dumps({"rate": bytes_per_second, "job": job._replace(producers={})}).encode() + b"\n"


def decode_job(lines: Iterable[bytes]) -> tuple[CompactionJob, float]:
    """The inverse of `encode_job`: the next job of these lines."""
    producers: dict[int, LastBatch] = {}
    for line in lines:
        told = json.loads(line)
        if isinstance(told, dict):
            job = CompactionJob(*told["job"])
            job = job._replace(
                segments=[StoredSegment(*each) for each in job.segments],
                producers=producers,
                aborted=[AbortedTransaction(*each) for each in job.aborted],
            )
            return job, told["rate"]
        producers |= {producer_id: LastBatch(*last) for producer_id, last in told}
    raise EOFError


def encode_step(step: Cleaned | Finished | Exception) -> bytes:
    """A line for the broker."""
    message: list[Any]
    match step:
        case Cleaned():
            message = ["cleaned", *step]
        case Finished(clean_end):
            message = ["finished", clean_end]
        case CorruptionError():
            message = ["corrupt", str(step)]
        case OSError():
            message = ["refused", step.errno, step.strerror, step.filename]
        case _:
            message = ["failed", f"{type(step).__name__}: {step}"]
    return json.dumps(message).encode() + b"\n"


def work(job: CompactionJob, bytes_per_second: float) -> None:
    """Carry out one job and tell of it."""
    done_bytes, began = 0, time.monotonic()
    try:
        for step in compact(OsFiles(), job):
            if isinstance(step, Progressed):
                done_bytes += step.work_bytes
                _wait(began + done_bytes / bytes_per_second)
            else:
                _tell(step)
    except Exception as error:
        _tell(error)


def _wait(until: float) -> None:
    seconds = until - time.monotonic()
    if seconds >= PAUSE_SECONDS_MIN:
        time.sleep(seconds)


def _tell(step: CompactionStep | Exception) -> None:
    assert not isinstance(step, Progressed)
    sys.stdout.buffer.write(encode_step(step))
    sys.stdout.buffer.flush()


def _listen(jobs: "SimpleQueue[bytes]") -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


def main() -> None:
    """Work until the broker is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends its helper itself
    os.nice(NICENESS)
    jobs: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(jobs,), daemon=True).start()
    lines = iter(jobs.get, None)
    while True:
        work(*decode_job(lines))


if __name__ == "__main__":
    main()
