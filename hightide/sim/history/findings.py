"""What a checker reports: which promise broke, where, how, and the operations that prove it."""

from collections.abc import Sequence
from typing import NamedTuple

from hightide.sim.history.operations import Operation

_SHOWN_MAX = 20


class Finding(NamedTuple):
    """One broken promise. `checker` is its number in RELIABILITY ("K4")."""

    checker: str
    where: str
    what: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.checker} {self.where}: {self.what}", *map(str, self.operations)])


def describe(findings: Sequence[Finding]) -> str:
    """The first findings in full and the number of the others, for an assertion's message."""
    lines = [str(finding) for finding in findings[:_SHOWN_MAX]]
    if len(findings) > _SHOWN_MAX:
        lines.append(f"... and {len(findings) - _SHOWN_MAX} more")
    return "\n".join(lines)
