"""How many seeds of which simulated world the tests run, counted here and nowhere else.

The tests parametrise themselves by these portions, so that workers share them; test_seeds.py keeps the sums.
"""

from hightide.sim.seeds import LEVELS


def portions(first: int, seeds: int, size: int) -> list[range]:
    """So many seeds from `first` on, cut into portions."""
    end = first + seeds
    return [range(begin, min(begin + size, end)) for begin in range(first, end, size)]


LEVEL1_SEEDS = 50

QUICK = {
    "quorum": portions(0, 210, 10),
    "partitions": portions(0, 200, 10),
    "groups": portions(0, 40, 10),
    "nodes": portions(1, LEVEL1_SEEDS, 1),
}
"""World → portions of every `make test`."""

LONG = {
    "quorum": portions(10_000, 5_000, 125),
    "partitions": portions(10_000, 5_000, 125),
    "groups": portions(10_000, 2_000, 100),
    "nodes": portions(1_000, 1_000, 50),
}
"""World → portions of `make test-all`, besides the others."""


def total(campaigns: dict[str, list[range]], level: int) -> int:
    """How many different seeds there are at one level."""
    return sum(
        len({seed for portion in portions for seed in portion})
        for world, portions in campaigns.items()
        if LEVELS[world] == level
    )


def named(portion: range) -> str:
    """The name of a portion among the tests."""
    return f"{portion.start}-{portion.stop - 1}" if len(portion) > 1 else str(portion.start)
