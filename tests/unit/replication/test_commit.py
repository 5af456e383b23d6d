"""The arithmetic of the two commit rules."""

import pytest

from hightide.replication.commit import effective_minimum, in_sync_high_watermark, majority_high_watermark


@pytest.mark.covers("T5")
def test_in_sync_takes_the_lowest_position() -> None:
    assert in_sync_high_watermark(3, [9, 5, 7]) == 5


def test_in_sync_never_falls() -> None:
    assert in_sync_high_watermark(8, [9, 5, 7]) == 8


def test_an_unknown_position_blocks() -> None:
    assert in_sync_high_watermark(3, [9, None, 7]) == 3


def test_an_empty_set_commits_nothing() -> None:
    assert in_sync_high_watermark(3, []) == 3


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
