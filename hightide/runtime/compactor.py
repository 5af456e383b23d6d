"""`node.ports.Compactor` with a helper process, which starts when it is first needed and ends when it has been idle.

Jobs go down a pipe, steps come back on another; the loop reads and writes both without waiting. The helper ends with
the broker, however that ends: nobody else holds the other end of its input. A helper that dies is replaced with the
next job.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hightide.errors import CorruptionError, HelperError
from hightide.limits import KIB
from hightide.storage.compaction_plans import Cleaned, CompactionJob, Finished, StoredSegment

if TYPE_CHECKING:
    pass

MODULE = "hightide.runtime.compaction_helper"
IDLE_SECONDS = 60.0
READ_BYTES = 64 * KIB

Step = Cleaned | Finished | Exception
Report = Callable[[Step], None]


class _Helper:
    """One process. `report` hears of the job under way; after `end` nobody does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from subprocess import PIPE, Popen  # not at the start of every broker

        self._loop = loop
        self.process: Popen[bytes] = Popen([sys.executable, "-m", MODULE], stdin=PIPE, stdout=PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        for descriptor in (self._input, self._output):
            os.set_blocking(descriptor, False)
        self._unsent = b""
        self._received = b""
        self._is_writing = False
        self.report: Report | None = None
        self.is_alive = True
        loop.add_reader(self._output, self._read)

    def send(self, lines: Iterator[bytes]) -> None:
        """Give it a job, a line in each turn of the loop."""
        line = next(lines, None)
        if line is not None and self.is_alive:
            self._unsent += line
            self._write()
            self._loop.call_soon(self.send, lines)

    def _write(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._input, self._unsent) :]
        except BlockingIOError:
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._input, self._write)
            return
        except OSError:
            self._unsent = b""  # it is dead, which the end of its output tells
        self._stop_writing()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._input)

    def _read(self) -> None:
        try:
            data = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.reap()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            if self.report is not None:
                step = _decode(line)
                report = self.report
                if not isinstance(step, Cleaned):
                    self.report = None
                report(step)

    def end(self) -> None:
        """Kill it; it is buried when its output ends."""
        self.report = None
        self.process.kill()

    def reap(self) -> None:
        """It is dead: leave nothing of it, and tell whoever waits."""
        if not self.is_alive:
            return
        self.is_alive = False
        self._loop.remove_reader(self._output)
        self._stop_writing()
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        report, self.report = self.report, None
        if report is not None:
            report(HelperError(f"the helper process ended with code {code}"))


class ProcessCompactor:
    """Starts, uses and ends the helper."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._helper: _Helper | None = None
        self._ending: list[_Helper] = []
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The helper's process id, while there is one."""
        return None if self._helper is None or not self._helper.is_alive else self._helper.process.pid

    def compact(self, job: CompactionJob, bytes_per_second: float, report: Report) -> None:
        """Begin a job."""
        from hightide.runtime.compaction_helper import encode_job

        if self._helper is not None and self._helper.report is not None:
            self.cancel()
        if self._idle is not None:
            self._idle.cancel()
        if self._helper is None or not self._helper.is_alive:
            try:
                self._helper = _Helper(self._loop)
            except OSError as error:
                self._loop.call_soon(report, HelperError(f"no helper process could be started: {error}"))
                return
        self._helper.report = report
        self._helper.send(encode_job(job, bytes_per_second))
        self._idle = self._loop.call_later(IDLE_SECONDS, self._end_idle)

    def cancel(self) -> None:
        """End the job under way; nothing more is told of it. A helper without one stays for the next."""
        if self._helper is not None and self._helper.report is not None:
            self._end()

    def close(self) -> None:
        """End the helper, and wait until it is gone."""
        if self._idle is not None:
            self._idle.cancel()
        self._end()
        for helper in self._ending:
            helper.reap()
        self._ending.clear()

    def _end(self) -> None:
        helper, self._helper = self._helper, None
        self._ending = [each for each in self._ending if each.is_alive]
        if helper is not None:
            helper.end()
            self._ending.append(helper)

    def _end_idle(self) -> None:
        if self._helper is not None and self._helper.report is not None:
            self._idle = self._loop.call_later(IDLE_SECONDS, self._end_idle)
        else:
            self._end()


def _decode(line: bytes) -> Step:
    import json

    kind, *fields = json.loads(line)
    match kind:
        case "cleaned":
            group, *rest = fields
            return Cleaned([StoredSegment(*each) for each in group], *rest)
        case "finished":
            return Finished(*fields)
        case "corrupt":
            return CorruptionError(*fields)
        case "refused":
            code, text, path = fields
            return OSError(code, text, path)
        case _:
            return HelperError(f"the helper process failed: {fields[0]}")
