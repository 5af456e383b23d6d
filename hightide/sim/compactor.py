"""The helper that compacts logs, in virtual time: the same work on the simulated disk, a step now and then.

Between two steps anything may happen, its own death included: then nothing is left of it but files.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from hightide.errors import CorruptionError, HelperError
from hightide.storage.compaction import compact
from hightide.storage.compaction_plans import Cleaned, CompactionJob, CompactionStep, Finished, Progressed

if TYPE_CHECKING:
    from hightide.node.ports import Clock
    from hightide.storage.files import Files

STEP_SECONDS = (0.001, 0.02)
DEATHS = 0.01  # of all steps

Report = Callable[[Cleaned | Finished | Exception], None]


class SimulatedCompactor:
    """`node.ports.Compactor` of one process."""

    def __init__(self, files: "Files", clock: "Clock", random: Random, deaths: float = DEATHS) -> None:
        self._files = files
        self._clock = clock
        self._random = random
        self._deaths = deaths
        self._job = 0
        self._steps: Iterator[CompactionStep] | None = None

    def compact(self, job: CompactionJob, bytes_per_second: float, report: Report) -> None:  # noqa: ARG002 - no hurry
        """Begin a job."""
        self.cancel()
        self._steps = compact(self._files, job)
        self._later(self._job, report)

    def cancel(self) -> None:
        """Forget the job under way."""
        self._job += 1
        self._steps = None

    def _later(self, job: int, report: Report) -> None:
        low, high = STEP_SECONDS
        self._clock.call_later(low + (high - low) * self._random.random(), self._step, job, report)

    def _step(self, job: int, report: Report) -> None:
        if job != self._job or self._steps is None:
            return
        if self._random.random() < self._deaths:
            self.cancel()
            report(HelperError("the helper died"))
            return
        try:
            step = next(self._steps)
        except (CorruptionError, OSError) as error:
            self.cancel()
            report(error)
            return
        if not isinstance(step, Progressed):
            report(step)
        if not isinstance(step, Finished):
            self._later(job, report)
