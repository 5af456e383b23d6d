"""K1: two values at one offset. Once readable or acknowledged, a record stays where it is, the same for everyone."""

from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import show
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import version_orders


def check(history: History) -> list[Finding]:
    return [
        Finding(
            "K1",
            f"{partition} offset {offset}",
            f"{len(claims)} values at one offset: {', '.join(show(value) for value, _ in claims)}",
            tuple(witness for _, witness in claims),
        )
        for partition, order in version_orders(history).items()
        for offset, claims in order.conflicts.items()
    ]
