"""Goes through all contests: rounds, progress, failures that stay with their row, and time.

The order: what needs nothing else running first, then one broker of each system, then three, then three with the
time-outs of the failover row. Each arena ends before the next begins.
"""

import time
from collections.abc import Mapping, Sequence

from bench.comparison.arena import Arena, ClusterMaker
from bench.comparison.contests import HIGHTIDE, KAFKA, Contest, Floor, Run
from bench.comparison.effort import Effort
from bench.comparison.lifecycle_rows import lifecycle_contests
from bench.comparison.loads import Loads
from bench.comparison.one_broker_rows import one_broker_contests
from bench.comparison.three_broker_rows import three_broker_contests
from bench.comparison.trouble_rows import SESSION_SETTINGS, catch_up_contests, failover_contests
from bench.hightide_server import hightide_cluster
from bench.kafka_server import kafka_cluster
from bench.programs import MissingError

MAKERS: Mapping[str, ClusterMaker] = {HIGHTIDE: hightide_cluster, KAFKA: kafka_cluster}
ROWS = (
    "startup", "produce", "consume", "requests", "connections", "latency", "partitions", "perf-test",
    "three-throughput", "three-requests", "three-latency", "catch-up", "failover",
)  # fmt: skip
FAILURES_MAX = 2
EXTRA_SHARE_MAX = 0.2  # of the time for more rounds that is left, for one contest


class Comparison:
    """One run of everything, or of the rows that were asked for."""

    def __init__(self, effort: Effort, rows: Sequence[str], makers: Mapping[str, ClusterMaker] = MAKERS) -> None:
        self.loads = Loads(effort)
        self.contests: list[Contest] = []
        self._effort = effort
        self._rows = rows
        self._makers = makers
        self._floor: Floor | None = None
        self._extra_seconds = effort.extra_seconds

    def measure(self) -> list[Contest]:
        """Everything; what was measured so far is in `contests` even when this is interrupted."""
        self._hold_all(lifecycle_contests(self._effort, self._makers))
        with Arena(self._effort, self._makers, brokers=1, warm_up=self.loads.warm_up) as arena:
            self._hold_all(one_broker_contests(self.loads, arena), arena)
        with Arena(self._effort, self._makers, brokers=3, warm_up=self.loads.warm_up) as arena:
            self._hold_all(three_broker_contests(self.loads, arena), arena)
            self._hold_all(catch_up_contests(self.loads, arena), arena)
        with Arena(self._effort, self._makers, brokers=3, settings=SESSION_SETTINGS, keeps_topics=True) as arena:
            self._hold_all(failover_contests(self.loads, arena), arena)
        return self.contests

    def _hold_all(self, contests: list[Contest], arena: Arena | None = None) -> None:
        wanted = [contest for contest in contests if contest.row in self._rows]
        self.contests += wanted
        for contest in wanted:
            self._effort.say(f"{contest.row}: {contest.title}")
            started = time.monotonic()
            self._hold(contest, arena)
            self._effort.say(f"     took {time.monotonic() - started:.0f} s")

    def _hold(self, contest: Contest, arena: Arena | None) -> None:
        failures = 0
        number = 0
        reserve = self._extra_seconds * (1 - EXTRA_SHARE_MAX)
        while self._wants_round(contest, number, reserve):
            started = time.monotonic()
            try:
                if arena is not None and arena.prepare():
                    self._floor = None  # it was measured minutes ago
                self._round(contest, number)
            except MissingError:
                raise
            except Exception as error:  # whatever it is, it is this row's: the others go on
                failures += 1
                reason = str(error).strip().splitlines() or [type(error).__name__]
                self._effort.say(f"  failed: {str(error).strip()}")
                self._floor = None
                contest.fail(reason[0])
                if failures == FAILURES_MAX:
                    return
            if number >= self._effort.rounds:
                self._extra_seconds -= time.monotonic() - started
            number += 1

    def _wants_round(self, contest: Contest, number: int, reserve: float) -> bool:
        """`reserve` is what is kept of the time for more rounds: a row that nothing helps leaves it to the others."""
        if number < self._effort.rounds:
            return True
        rounds_max = min(contest.rounds_max or self._effort.rounds_max, self._effort.rounds_max)
        return number < rounds_max and self._extra_seconds > reserve and not contest.settled(self._effort.runs_needed)

    def _round(self, contest: Contest, number: int) -> None:
        before = self._floor or self.loads.floor()
        runs: dict[str, Run] = {}
        for name in contest.order(number):
            runs[name] = contest.runners[name]()
        after = self._floor = self.loads.floor()
        contest.add(runs, before, after)
        for name, run in runs.items():
            self._effort.say(f"  {number + 1}. {name:14} {_shown(run)}")
        self._effort.say(f"     floor          {(before.ms_mb + after.ms_mb) / 2:.2f} ms/MB")


def _shown(run: Run) -> str:
    names = {
        "mb_s": "{:,.0f} MB/s",
        "messages_s": "{:,.0f} messages/s",
        "requests_s": "{:,.0f} requests/s",
        "cpu_ms_mb": "{:.2f} ms CPU per MB",
        "cpu_us": "{:.0f} us CPU each",
        "p50_us": "p50 {:.0f} us",
        "p99_us": "p99 {:.0f} us",
        "produce_p50_us": "produce p50 {:.0f} us",
        "produce_p99_us": "p99 {:.0f} us",
        "end_to_end_p50_us": "end to end p50 {:.0f} us",
        "end_to_end_p99_us": "p99 {:.0f} us",
        "produce_max_us": "longest wait {:,.0f} us",
        "empty_s": "first record after {:.2f} s",
        "again_s": "again after {:.2f} s",
        "idle_mb": "{:.0f} MB idle",
        "from_start_s": "{:.2f} s from its start",
        "from_listening_s": "{:.2f} s from listening",
        "rss_mb": "{:.0f} MB resident",
        "queue": "client's queue {:,.0f}",
    }
    parts = [text.format(run.figures[name]) for name, text in names.items() if run.figures.get(name)]
    disturbed = f"   (left out: {run.disturbance})" if run.disturbance else ""
    return ", ".join(parts) + disturbed
