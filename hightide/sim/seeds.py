"""One seed in any of the simulated worlds, and the same report from each: what `hightide sim` and the tests run.

| world      | level | what is real in it                                             |
|------------|-------|----------------------------------------------------------------|
| quorum     | 0     | the machine of elected, majority-committed logs                |
| partitions | 0     | the machine of replicas, and the controller                    |
| groups     | 0     | the coordinator of consumer groups                             |
| nodes      | 1     | whole nodes, codecs, logs and clients; 1, 3 or 5 of them       |

A report is plain data: campaigns run seeds in several processes.
"""

from collections import Counter
from collections.abc import Callable
from shlex import quote
from time import process_time
from typing import NamedTuple

from hightide.rules import ALL_ON, RULE_NAMES, Rules
from hightide.sim import campaign
from hightide.sim.plan import Plan, make_plan
from hightide.sim.shrinking import Shrinker

LEVELS = {"quorum": 0, "partitions": 0, "groups": 0, "nodes": 1}


class Case(NamedTuple):
    """What to run. The last four make a level 1 plan smaller than the seed's; None leaves it as it is."""

    world: str
    seed: int
    rules: Rules = ALL_ON
    brokers: int | None = None
    faults: frozenset[int] | None = None
    disorder: float | None = None
    finale: str | None = None

    @property
    def plan(self) -> Plan:
        """The plan of a level 1 run."""
        plan = make_plan(self.seed, self.brokers)
        if self.faults is not None:
            plan = plan.only(self.faults)
        if self.disorder is not None:
            plan = plan._replace(disorder=self.disorder)
        if self.finale is not None:
            plan = plan._replace(finale=self.finale)
        return plan

    @property
    def command(self) -> str:
        """How a person runs it again."""
        words = [f"hightide sim --seed {self.seed} --world {self.world}"]
        words += [f"--brokers {self.brokers}"] if self.brokers is not None else []
        words += [f"--faults {_numbers(self.faults)}"] if self.faults is not None else []
        words += [f"--disorder {self.disorder:g}"] if self.disorder is not None else []
        words += [f"--finale {quote(self.finale)}"] if self.finale is not None else []
        words += [f"--without {rule}" for rule in RULE_NAMES if not getattr(self.rules, rule)]
        return " ".join(words)


class Report(NamedTuple):
    """What a run showed."""

    case: Case
    digest: str
    problems: tuple[str, ...]
    timeline: tuple[str, ...]
    counts: bool
    acknowledged: int
    leader_changes: int
    faults: int
    events: int
    simulated_seconds: float
    processor_seconds: float
    unavailable_seconds: float = 0.0


def run_case(case: Case) -> Report:
    """Run one seed. A level 0 run that fails is run again to tell its timeline, which is not kept otherwise."""
    began = process_time()
    report = _WORLDS[case.world](case, False)
    if report.problems and not report.timeline:
        report = _WORLDS[case.world](case, True)
    return report._replace(processor_seconds=process_time() - began)


def shrink(report: Report, tell: Callable[[str], None] = lambda _: None) -> Report:
    """The smallest run that fails in the same way. Level 0 ends at its first finding and is as short as it gets."""
    if LEVELS[report.case.world] == 0:
        return report
    failed = campaign.run(report.case.plan, report.case.rules)
    smallest = Shrinker(failed, report.case.rules, tell).shrink()
    plan = smallest.plan
    case = report.case._replace(
        brokers=plan.brokers,
        faults=frozenset(fault.number for fault in plan.faults),
        disorder=plan.disorder,
        finale=plan.finale,
    )
    return _report(case, smallest)


def _nodes(case: Case, _: bool) -> Report:
    return _report(case, campaign.run(case.plan, case.rules))


def _report(case: Case, result: campaign.Result) -> Report:
    return Report(
        case,
        result.digest,
        tuple(map(str, result.problems)),
        result.timeline,
        result.counts,
        result.acknowledged,
        result.leader_changes,
        sum(result.faults.values()),
        result.callbacks,
        result.simulated_seconds,
        result.processor_seconds,
        result.unavailable_seconds,
    )


def _partitions(case: Case, keeps_timeline: bool) -> Report:
    from hightide.sim.level0.partition_campaign import run_partitions

    run = run_partitions(case.seed, rules=case.rules, keeps_timeline=keeps_timeline)
    problems = () if run.finding is None else (str(run.finding),)
    return Report(
        case, run.digest, problems, tuple(run.timeline), run.counts, run.acknowledged, run.leader_changes,
        sum(run.faults.values()), run.events, run.seconds, 0.0,
    )  # fmt: skip


def _quorum(case: Case, keeps_timeline: bool) -> Report:
    from hightide.sim.level0.raft_campaign import run_raft

    run = run_raft(case.seed, rules=case.rules, keeps_timeline=keeps_timeline)
    problems = () if run.violation is None else (str(run.message),)
    return Report(
        case, run.digest, problems, tuple(run.timeline), run.counts, run.records, run.elections,
        sum(run.faults.values()), run.events, run.seconds, 0.0,
    )  # fmt: skip


def _groups(case: Case, _: bool) -> Report:
    """A finding has the operations that prove it: that is its timeline."""
    from hightide.sim.level0.group_world import run_groups

    run = run_groups(case.seed, rules=case.rules)
    return Report(
        case, run.digest, tuple(run.problems), tuple(run.problems), run.counts, run.commits, run.leader_changes,
        sum(run.faults.values()), run.events, run.seconds, 0.0,
    )  # fmt: skip


_WORLDS: dict[str, Callable[[Case, bool], Report]] = {
    "quorum": _quorum,
    "partitions": _partitions,
    "groups": _groups,
    "nodes": _nodes,
}


class Totals:
    """What many seeds showed together, by world."""

    def __init__(self) -> None:
        self.seeds: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        self.acknowledged: Counter[str] = Counter()
        self.leader_changes: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.simulated_seconds: Counter[str] = Counter()
        self.processor_seconds: Counter[str] = Counter()
        self.failed: list[Report] = []

    def add(self, report: Report) -> None:
        """One more."""
        world = report.case.world
        self.seeds[world] += 1
        self.counted[world] += report.counts
        self.acknowledged[world] += report.acknowledged
        self.leader_changes[world] += report.leader_changes
        self.faults[world] += report.faults
        self.events[world] += report.events
        self.simulated_seconds[world] += report.simulated_seconds  # type: ignore[assignment]  # seconds count too
        self.processor_seconds[world] += report.processor_seconds  # type: ignore[assignment]
        if report.problems:
            self.failed.append(report)


def _numbers(numbers: frozenset[int]) -> str:
    return ",".join(map(str, sorted(numbers))) or "none"
