"""What follows a refused batch on its connection is refused for the same reason, and no longer than that."""

import pytest

from hightide.errors import ApiError, ErrorCode
from hightide.limits import PRODUCER_BATCHES_KEPT, REFUSALS_REMEMBERED_PER_CONNECTION
from hightide.node.refusals import Refused, check, remember
from hightide.wire.batches import build_batch
from hightide.wire.records import Record

NOT_LEADER = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the lease has ended")
SEQUENCE_MAX = 0x7FFFFFFF


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> memoryview:
    return memoryview(
        build_batch([Record(value=b"v")], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def is_refused(refused: Refused, records: memoryview, topic: str = "t", index: int = 0) -> bool:
    try:
        check(refused, topic, index, records)
    except ApiError as error:
        return (error.code, error.message) == (NOT_LEADER.code, NOT_LEADER.message)
    return False


@pytest.fixture
def refused() -> Refused:
    found: Refused = {}
    remember(found, "t", 0, batch(10), NOT_LEADER)
    return found


def test_the_batches_under_way_behind_it_are_refused_and_no_more(refused: Refused) -> None:
    followers = [is_refused(refused, batch(11 + number)) for number in range(PRODUCER_BATCHES_KEPT + 1)]
    assert followers == [True] * (PRODUCER_BATCHES_KEPT - 1) + [False] * 2
    assert refused == {}


def test_it_may_be_tried_again_and_those_behind_it_after_that(refused: Refused) -> None:
    assert is_refused(refused, batch(11))
    assert not is_refused(refused, batch(10))
    assert not is_refused(refused, batch(11))


def test_the_first_of_several_refused_ones_counts(refused: Refused) -> None:
    remember(refused, "t", 0, batch(11), NOT_LEADER)
    assert not is_refused(refused, batch(10))
    assert refused == {}


@pytest.mark.parametrize(
    ("records", "topic", "index"),
    [
        (batch(11, producer_id=8), "t", 0),
        (batch(11, epoch=1), "t", 0),
        (batch(9), "t", 0),  # it was sent before
        (batch(11), "u", 0),
        (batch(11), "t", 1),
        (batch(-1, producer_id=-1, epoch=-1), "t", 0),
        (memoryview(b"no batch"), "t", 0),
    ],
)
def test_others_are_not_concerned(refused: Refused, records: memoryview, topic: str, index: int) -> None:
    assert not is_refused(refused, records, topic, index)


def test_sequences_wrap() -> None:
    refused: Refused = {}
    remember(refused, "t", 0, batch(SEQUENCE_MAX), NOT_LEADER)
    assert is_refused(refused, batch(0))


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (batch(10), ApiError(ErrorCode.MESSAGE_TOO_LARGE)),  # it will not come again
        (batch(10), ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)),
        (batch(-1, producer_id=-1, epoch=-1), NOT_LEADER),
        (memoryview(b"no batch"), NOT_LEADER),
        (None, NOT_LEADER),
    ],
)
def test_what_nothing_follows_from_is_not_remembered(records: memoryview | None, error: ApiError) -> None:
    refused: Refused = {}
    remember(refused, "t", 0, records, error)
    assert refused == {}


def test_the_oldest_is_forgotten_first() -> None:
    refused: Refused = {}
    for index in range(REFUSALS_REMEMBERED_PER_CONNECTION + 1):
        remember(refused, "t", index, batch(10), NOT_LEADER)
    assert len(refused) == REFUSALS_REMEMBERED_PER_CONNECTION
    assert not is_refused(refused, batch(11), index=0)
    assert is_refused(refused, batch(11), index=1)
