"""Enough seeds: at least 500 in `make test`, 50 of them whole nodes, and at least 10,000 in `make test-all`."""

from types import ModuleType

import pytest

from tests.simulation import seeds, test_level0_groups, test_level0_partitions, test_level0_raft, test_level1


def test_make_test_runs_500_seeds_and_50_of_them_are_whole_nodes() -> None:
    assert seeds.total(seeds.QUICK, level=1) >= 50
    assert seeds.total(seeds.QUICK, level=0) + seeds.total(seeds.QUICK, level=1) >= 500


def test_make_test_all_runs_10_000_seeds() -> None:
    assert seeds.total(seeds.LONG, level=0) + seeds.total(seeds.LONG, level=1) >= 10_000


@pytest.mark.parametrize(
    ("module", "world"),
    [
        (test_level0_raft, "quorum"),
        (test_level0_partitions, "partitions"),
        (test_level0_groups, "groups"),
        (test_level1, "nodes"),
    ],
)
def test_the_portions_are_those_that_tests_run(module: ModuleType, world: str) -> None:
    """A test that stops taking its portions from here would not be counted any more."""
    ran = [
        mark.args[1]
        for name in dir(module)
        for mark in getattr(getattr(module, name), "pytestmark", [])
        if mark.name == "parametrize" and mark.args[0] == "portion"
    ]
    assert ran.count(seeds.QUICK[world]) == 1
    assert ran.count(seeds.LONG[world]) == 1
