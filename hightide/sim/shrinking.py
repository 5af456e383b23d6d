"""A failing plan made smaller: in asyncio's own order, with fewer nodes, fewer faults, and no more than that.

Each step keeps the plan only if the same check still fails. What is left is what a person reads.
"""

from collections.abc import Callable, Iterator

from hightide.rules import ALL_ON, Rules
from hightide.sim.campaign import Result, run
from hightide.sim.plan import Plan

RUNS_MAX = 60  # a minute or two; the last faults are seldom worth more


class Shrinker:
    """Tries smaller plans until none fails any more or the budget is spent."""

    def __init__(self, failed: Result, rules: Rules = ALL_ON, tell: Callable[[str], None] = lambda _: None) -> None:
        self.smallest = failed
        self._checks = {problem.check for problem in failed.problems[:1]}
        self._rules = rules
        self._tell = tell
        self._runs = 0

    def shrink(self) -> Result:
        """The smallest run found that fails in the same way."""
        self._try(self._plan._replace(finale="none"))
        for disorder in (0.0, 0.05):
            if self._plan.disorder > disorder and self._try(self._plan._replace(disorder=disorder)):
                break
        self._shrink_nodes()
        while self._runs < RUNS_MAX and any(self._try(plan) for plan in self._fewer_faults()):
            pass
        return self.smallest

    @property
    def _plan(self) -> Plan:
        return self.smallest.plan

    def _shrink_nodes(self) -> None:
        for brokers in range(1, self._plan.brokers):
            if self._try(self._plan._replace(brokers=brokers)):
                return

    def _fewer_faults(self) -> Iterator[Plan]:
        """Half of them, a quarter, …, all but one."""
        plan = self._plan
        numbers = [fault.number for fault in plan.faults]
        size = len(numbers)
        while size:
            size = size // 2 if size > 1 else 0
            for start in range(0, len(numbers), max(size, 1)):
                left_out = set(numbers[start : start + max(size, 1)])
                yield plan.only(frozenset(number for number in numbers if number not in left_out))

    def _try(self, plan: Plan) -> bool:
        if self._runs >= RUNS_MAX or plan == self._plan:
            return False
        self._runs += 1
        result = run(plan, self._rules)
        if not self._checks.intersection(problem.check for problem in result.problems):
            return False
        self.smallest = result
        self._tell(f"{len(plan.faults)} faults, {plan.brokers} nodes, disorder {plan.disorder:g}: still fails")
        return True
