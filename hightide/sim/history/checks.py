"""All checkers by their number in RELIABILITY, each `check(history) -> findings`; K19 measures instead (`windows`).

They stand on the same assumptions: every client reports here, values are unique within a partition, topics are neither
compacted nor deleted, nothing was elected uncleanly on purpose, and retention is told as an observed log start.
"""

from collections.abc import Callable, Mapping

from hightide.sim.history import (
    divergence,
    duplicates,
    groups,
    late_offsets,
    logs,
    lost_values,
    marks,
    poll_order,
    provenance,
    send_order,
    unread,
)
from hightide.sim.history.findings import Finding
from hightide.sim.history.recorder import History

Checker = Callable[[History], list[Finding]]

CHECKERS: Mapping[str, Checker] = {
    "K1": divergence.check,
    "K2": duplicates.check,
    "K3": unread.check,
    "K4": lost_values.check,
    "K7": poll_order.check_within,
    "K8": poll_order.check_across,
    "K9": send_order.check_within,
    "K10": send_order.check_across,
    "K12": provenance.check,
    "K14": late_offsets.check,
    "K15": marks.check,
    "K16": groups.check,
    "K20": logs.check,
}


def check_all(history: History) -> list[Finding]:
    """Everything that is wrong, in the order of the checkers."""
    return [finding for check in CHECKERS.values() for finding in check(history)]
