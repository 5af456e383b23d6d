"""The epoch history: strictly rising, cut from both ends, and the answers by which replicas find their divergence."""

import pytest

from hightide.errors import CorruptionError
from hightide.sim.disk import SimulatedDisk
from hightide.sim.images import LOST
from hightide.storage.epochs import EPOCHS_FILE, EpochHistory

PATH = f"t-0/{EPOCHS_FILE}"


def history(*entries: tuple[int, int]) -> EpochHistory:
    disk = SimulatedDisk()
    disk.make_directory("t-0")
    disk.sync_directory("")
    epochs = EpochHistory.load(disk, "t-0")
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


def test_a_new_log_has_no_epoch() -> None:
    epochs = history()
    assert epochs.latest == -1
    assert epochs.entries == []
    assert epochs.end_of(0, 0) == (-1, -1)
    assert epochs.epoch_at(0) == -1


def test_a_new_leader_with_nothing_appended_replaces_the_last_one() -> None:
    assert history((4, 50), (5, 100), (6, 100)).entries == [(4, 50), (6, 100)]


def test_the_same_epoch_again_changes_nothing() -> None:
    epochs = history((4, 50), (5, 100))
    epochs.write()
    epochs.assign(5, 130)
    assert epochs.entries == [(4, 50), (5, 100)]
    assert not epochs.unwritten


@pytest.mark.parametrize(
    ("added", "left"),
    [
        ((3, 60), [(1, 0), (3, 60)]),
        ((4, 40), [(1, 0), (4, 40)]),
        ((9, 70), [(1, 0), (4, 50), (9, 70)]),
        ((9, 0), [(9, 0)]),
        ((0, 200), [(0, 200)]),
    ],
)
def test_contradicting_entries_go(added: tuple[int, int], left: list[tuple[int, int]]) -> None:
    epochs = history((1, 0), (4, 50), (8, 90))
    epochs.assign(*added)
    assert epochs.entries == left
    assert epochs.latest == added[0]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_impossible_entries_are_refused(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="can't be"):
        history().assign(*entry)


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 15)),
        (4, (4, 30)),
        (9, (4, 30)),
    ],
)
def test_end_of_an_epoch(epoch: int, answer: tuple[int, int]) -> None:
    assert history((1, 5), (3, 10), (4, 15)).end_of(epoch, 30) == answer


def test_divergence_as_rule_1_tells_it() -> None:
    leader = history((0, 0), (1, 10), (3, 15))
    follower = history((0, 0), (2, 10))
    epoch, leaders_end = leader.end_of(2, 30)
    assert (epoch, leaders_end) == (1, 15)
    assert min(leaders_end, follower.end_of(epoch, 25)[1]) == 10


def test_epoch_at_an_offset() -> None:
    epochs = history((1, 5), (3, 10))
    assert [epochs.epoch_at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 3, 3]


@pytest.mark.parametrize(
    ("offset", "left"),
    [(0, []), (5, []), (6, [(1, 5)]), (10, [(1, 5)]), (11, [(1, 5), (3, 10)]), (99, [(1, 5), (3, 10)])],
)
def test_cut_from_the_end(offset: int, left: list[tuple[int, int]]) -> None:
    epochs = history((1, 5), (3, 10))
    epochs.truncate_from_end(offset)
    assert epochs.entries == left
    assert epochs.latest == (left[-1][0] if left else -1)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, [(1, 5), (3, 10)]),
        (5, [(1, 5), (3, 10)]),
        (7, [(1, 7), (3, 10)]),
        (10, [(3, 10)]),
        (50, [(3, 50)]),
    ],
)
def test_cut_from_the_start(offset: int, left: list[tuple[int, int]]) -> None:
    epochs = history((1, 5), (3, 10))
    epochs.truncate_from_start(offset)
    assert epochs.entries == left
    assert epochs.latest == 3


def test_the_file_is_kafkas_and_lasts() -> None:
    disk = SimulatedDisk()
    disk.make_directory("t-0")
    disk.sync_directory("")
    epochs = EpochHistory.load(disk, "t-0")
    epochs.assign(0, 0)
    epochs.assign(7, 1234)
    assert not disk.exists(PATH), "written lazily"
    epochs.write()
    assert not epochs.unwritten
    disk.power_loss(0, (LOST,))
    assert [line.split() for line in disk.image()[PATH].decode().splitlines()] == [
        ["0"],
        ["2"],
        ["0", "0"],
        ["7", "1234"],
    ]
    again = EpochHistory.load(disk, "t-0")
    assert again.entries == [(0, 0), (7, 1234)]
    assert again.latest == 7
    again.clear()
    again.write()
    assert EpochHistory.load(disk, "t-0").entries == []


def test_nothing_is_written_when_nothing_changed() -> None:
    disk = SimulatedDisk()
    disk.make_directory("t-0")
    epochs = EpochHistory.load(disk, "t-0")
    epochs.assign(0, 0)
    epochs.write()
    before = disk.operations
    epochs.write()
    assert disk.operations == before


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    disk = SimulatedDisk()
    disk.make_directory("t-0")
    epochs = EpochHistory.load(disk, "t-0")
    epochs.assign(3, 100)
    epochs.assign(12, 250)
    epochs.write()
    data = disk.image()[PATH]
    for position in range(len(data)):
        for bit in range(8):
            disk.overwrite(PATH, data)
            disk.flip(PATH, position, 1 << bit)
            with pytest.raises(CorruptionError, match=EPOCHS_FILE):
                EpochHistory.load(disk, "t-0")
        disk.overwrite(PATH, data[:position])
        with pytest.raises(CorruptionError, match=EPOCHS_FILE):
            EpochHistory.load(disk, "t-0")
