"""K7 and K8: a poll that skips known values or goes back, within one call (K7) or from one to the next (K8).

Gaps in the offsets are legal where nobody proved a value: control records and compaction leave them. Being positioned
starts anew, and at the offset it was told.
"""

from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import show
from hightide.sim.history.reading import Jump, Reading
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import VersionOrder, version_orders

_NAMED_MAX = 5


def check_within(history: History) -> list[Finding]:
    """K7."""
    return _judge(history, "K7", [jump for jump in Reading(history).jumps if jump.since is jump.poll])


def check_across(history: History) -> list[Finding]:
    """K8."""
    return _judge(history, "K8", [jump for jump in Reading(history).jumps if jump.since is not jump.poll])


def _judge(history: History, checker: str, jumps: list[Jump]) -> list[Finding]:
    orders = version_orders(history)
    findings = []
    for jump in jumps:
        what = _fault(jump, orders[jump.partition])
        if what:
            operations = (jump.poll,) if jump.since is jump.poll else (jump.since, jump.poll)
            findings.append(Finding(checker, f"{jump.partition} read by {jump.poll.client}", what, operations))
    return findings


def _fault(jump: Jump, order: VersionOrder) -> str:
    if jump.after <= jump.before:
        return f"goes back from offset {jump.before} to {jump.after}"
    skipped = order.between(jump.before, jump.after)
    if not skipped:
        return ""
    named = ", ".join(f"{show(order.value_at[offset][0])} at {offset}" for offset in skipped[:_NAMED_MAX])
    more = f" and {len(skipped) - _NAMED_MAX} more" if len(skipped) > _NAMED_MAX else ""
    return f"goes from offset {jump.before} to {jump.after} and skips {named}{more}"
