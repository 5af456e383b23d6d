"""Level 1 with a consumer group: whole nodes under faults, members on the real client, and K16 has nothing to say."""

import pytest

from hightide.sim.group_campaign import GroupResult, run

pytestmark = pytest.mark.timeout(300)


def kept(seed: int) -> GroupResult:
    done = run(seed)
    assert done.result.problems == (), f"seed {seed}: {[str(problem) for problem in done.result.problems]}"
    return done


@pytest.mark.covers("C29", "N5", "N9")
def test_seeds_keep_the_promises() -> None:
    results = [kept(seed) for seed in range(1, 5)]
    assert sum(result.counts for result in results) >= 3, "too many runs in which too little happens"


@pytest.mark.long
@pytest.mark.parametrize("portion", range(10))
def test_many_seeds_keep_the_promises(portion: int) -> None:
    results = [kept(seed) for seed in range(1000 + portion * 20, 1020 + portion * 20)]
    assert sum(result.counts for result in results) >= 0.7 * len(results), "too many runs in which too little happens"
