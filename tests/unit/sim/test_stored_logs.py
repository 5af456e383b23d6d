"""Logs with something wrong are noticed: a batch twice, one that is missing, an older epoch after a newer one."""

import pytest

from hightide.sim.stored_logs import SEQUENCES, wrong_producers
from hightide.wire.batches import build_batch
from hightide.wire.records import BatchHeader, Record, read_header


def batch(offset: int, sequence: int, *, records: int = 2, epoch: int = 0, producer: int = 7) -> BatchHeader:
    made = build_batch(
        [Record(offset + number, 0, None, b"v", []) for number in range(records)],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return read_header(made, 0)


def found(*batches: BatchHeader) -> list[str]:
    return [wrong.check for wrong in wrong_producers("broker-1", list(batches))]


def test_every_batch_once_and_in_order() -> None:
    other = batch(2, 0, producer=8)
    assert found(batch(0, 0), other, batch(4, 2), batch(6, 0, epoch=1), batch(8, 2, epoch=1)) == []
    assert found(batch(0, -1, producer=-1), batch(2, -1, producer=-1)) == []


def test_sequences_wrap() -> None:
    assert found(batch(0, SEQUENCES - 1), batch(2, 1), batch(4, 3)) == []


@pytest.mark.parametrize("sequence", [0, 4], ids=["twice", "missing"])
def test_a_batch_that_does_not_follow(sequence: int) -> None:
    assert found(batch(0, 0), batch(2, sequence)) == ["I23"]


def test_an_older_epoch_after_a_newer_one() -> None:
    assert found(batch(0, 0), batch(2, 0, epoch=1), batch(4, 2)) == ["I24"]
