"""The simulated log of a quorum member."""

from random import Random

from hightide.replication.snapshots import QuorumLog
from hightide.sim.level0.raft_log import Batch, SimulatedLog


def log_of(*batches: tuple[int, int, int]) -> SimulatedLog:
    log = SimulatedLog()
    log.append([Batch(base, end, epoch, number) for number, (base, end, epoch) in enumerate(batches)])
    log.synced_end = log.end
    return log


def test_it_is_a_log_as_replication_sees_one() -> None:
    log: QuorumLog = log_of((0, 1, 1))
    assert (log.start, log.end, log.synced_end, log.last_epoch) == (0, 1, 1, 1)


def test_ends_of_epochs() -> None:
    log = log_of((0, 3, 1), (3, 5, 2), (5, 6, 4))
    assert [log.end_of_epoch(epoch) for epoch in range(6)] == [(0, 0), (1, 3), (2, 5), (2, 5), (4, 6), (-1, -1)]


def test_truncation_takes_whole_batches_and_their_epochs() -> None:
    log = log_of((0, 3, 1), (3, 5, 2), (5, 6, 4))
    log.truncate(4)
    assert (log.end, log.synced_end, log.last_epoch, log.generation) == (3, 3, 1, 1)
    assert log.end_of_epoch(1) == (1, 3)


def test_a_start_within_a_batch_keeps_the_batch() -> None:
    log = log_of((0, 3, 1), (3, 5, 2))
    log.advance_start(4)
    assert (log.start, log.batches) == (4, [Batch(3, 5, 2, 1)])
    log.advance_start(5)
    assert (log.batches, log.last_epoch) == ([], -1)


def test_reads_are_whole_batches() -> None:
    log = log_of((0, 3, 1), (3, 5, 2), (5, 6, 2))
    assert [batch.base for batch in log.read(4, 2)] == [3, 5]
    assert log.read(6, 2) == []
    assert [batch.base for batch in log.between(2, 4)] == [0, 3]
    assert [offset for offset in range(7) if log.is_boundary(offset)] == [0, 3, 5, 6]


def test_power_loss_keeps_what_was_synced() -> None:
    ends = set()
    for seed in range(30):
        log = log_of((0, 3, 1))
        log.append([Batch(3, 5, 1, 7), Batch(5, 6, 1, 8)])
        log.lose_power(Random(seed))
        ends.add(log.end)
    assert ends == {3, 5, 6}


def test_a_hole_in_what_was_synced_takes_it() -> None:
    log = log_of((0, 3, 1), (3, 5, 1))
    log.lose_synced(Random(1))
    assert log.end < 5


def test_on_a_snapshot_it_begins_anew() -> None:
    log = log_of((0, 3, 1))
    log.restart_at(9)
    assert (log.start, log.end, log.synced_end, log.last_epoch) == (9, 9, 9, -1)
