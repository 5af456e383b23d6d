"""The arithmetic of the two commit rules."""

import pytest

from hightide.replication.commit import effective_minimum, majority_high_watermark


@pytest.mark.parametrize(
    ("ends", "expected"),
    [([7], 7), ([7, 5], 5), ([9, 5, 7], 7), ([9, 1, 1, 8], 1), ([9, 1, 7, 8, 2], 7)],
)
def test_majority_takes_what_most_voters_have(ends: list[int], expected: int) -> None:
    assert majority_high_watermark(0, ends, 0) == expected


def test_majority_commits_nothing_before_a_record_of_its_own_epoch() -> None:
    assert majority_high_watermark(2, [5, 5, 5], epoch_start=5) == 2
    assert majority_high_watermark(2, [6, 6, 5], epoch_start=5) == 6


def test_a_topic_is_held_to_the_replicas_it_has() -> None:
    assert effective_minimum(2, 1) == 1
    assert effective_minimum(2, 3) == 2
