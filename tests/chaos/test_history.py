"""The checker itself: a history of the wrong kind must not pass."""

import pytest

from tests.chaos.history import History

GOOD = {0: [(0, b"a", 1), (1, b"b", 1)], 1: [(0, b"c", 2)]}


@pytest.fixture
def history() -> History:
    history = History()
    for number, value in enumerate((b"a", b"b", b"c", b"unknown", b"unknown too")):
        history.sending(value, "producer", number)
    for value, partition, offset in ((b"a", 0, 0), (b"b", 0, 1), (b"c", 1, 0)):
        history.acknowledged(value, partition, offset)
    return history


def test_a_good_history_passes(history: History) -> None:
    assert history.violations(history.promises(), GOOD) == []
    assert history.violations(history.promises(), GOOD | {1: [(0, b"c", 2), (1, b"unknown", 2)]}) == []


@pytest.mark.parametrize(
    ("found", "check"),
    [
        (GOOD | {1: []}, "K4"),
        (GOOD | {0: [(0, b"b", 1), (1, b"a", 1)]}, "K1"),
        (GOOD | {1: [(0, b"c", 2), (1, b"a", 2)]}, "K2"),
        (GOOD | {1: [(0, b"c", 2), (1, b"never sent", 2)]}, "K12"),
        (GOOD | {1: [(0, b"c", 2), (2, b"unknown", 2)]}, "gaps"),
        (GOOD | {0: [(0, b"a", 2), (1, b"b", 1)]}, "I11"),
        (GOOD | {1: [(0, b"c", 2), (1, b"unknown too", 2), (2, b"unknown", 2)]}, "K9"),
    ],
)
def test_a_bad_one_is_found(
    history: History, found: dict[int, list[tuple[int, bytes | None, int]]], check: str
) -> None:
    assert any(check in violation for violation in history.violations(history.promises(), found))


def test_an_end_that_goes_back_is_found(history: History) -> None:
    history.violations(history.promises(), GOOD | {1: [(0, b"c", 2), (1, b"unknown", 2)]})
    assert any("K15" in violation for violation in history.violations(history.promises(), GOOD))


def test_what_a_client_was_told_counts(history: History) -> None:
    history.failed("a producer was told OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert history.violations(history.promises(), GOOD) == ["a producer was told OUT_OF_ORDER_SEQUENCE_NUMBER"]
