"""R20, sentence by sentence: each story ends well with its rule and in a broken promise without it."""

from collections.abc import Callable

import pytest

from hightide.node.log_view import StoredLog
from hightide.replication.fetching import judge_offsets
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.sim.images import LOST
from hightide.storage.log import Log
from hightide.storage.settings import OpenFacts
from hightide.types import NO_EPOCH
from tests.storage.compacting import COMPACTED, CompactingMachine, kept_of, stored_records
from tests.storage.machine import NOW, ORDERS, ORDERS_ID, read_all

Story = Callable[[Rules], str | None]
STORIES: dict[str, Story] = {}


def story(rule: str) -> Callable[[Story], Story]:
    def remember(told: Story) -> Story:
        STORIES[rule] = told
        return told

    return remember


def machine_of(rules: Rules, *, segment_bytes: int = 1200) -> CompactingMachine:
    machine = CompactingMachine(rules=rules, settings=COMPACTED._replace(segment_bytes=segment_bytes))
    machine.boot()
    return machine


def view(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in stored_records(log)}


@story("r20_compact_committed_only")
def what_is_not_committed_replaces_nothing(rules: Rules) -> str | None:
    machine = machine_of(rules)
    machine.put((b"k", b"committed"))
    committed = machine.log.end
    machine.put((b"k", b"a leader's that nobody else had"))
    machine.log.roll()
    machine.commit()
    machine.compact(high_watermark=committed)
    machine.truncate(committed)  # another leader was elected
    return None if view(machine.log) == {b"k": b"committed"} else f"I7: a committed record is gone: {view(machine.log)}"


@story("r20_compact_decided_only")
def what_may_be_aborted_replaces_nothing(rules: Rules) -> str | None:
    machine = machine_of(rules)
    machine.put((b"k", b"decided"))
    machine.put((b"k", b"of a transaction"), producer_id=8, transactional=True)
    machine.log.roll()
    machine.commit()
    machine.compact()
    machine.abort(8)
    hidden = {first for _, first in machine.log.aborted_transactions(0, machine.log.end)}
    shown = [record.value for record in stored_records(machine.log) if record.offset not in hidden]
    return None if shown == [b"decided"] else f"I25: read_committed sees {shown}"


@story("r20_compact_synced_only")
def what_may_be_lost_replaces_nothing(rules: Rules) -> str | None:
    machine = machine_of(rules, segment_bytes=300)
    machine.put((b"k", b"synced" * 30))
    machine.log.roll()
    machine.commit()
    machine.sync_record()
    machine.put((b"k", b"written" * 25))
    machine.log.roll()

    synced = 0

    def fail(what: str) -> None:
        nonlocal synced
        synced += what == "synced"
        if synced == 2:  # the first group is in its place
            raise SimulatedCrash

    machine.during = fail
    try:
        machine.compact(high_watermark=machine.log.end)
    except SimulatedCrash:
        pass
    machine.disk.power_loss(0, (LOST,))
    again = machine.next_process()
    again.boot()
    return None if b"k" in view(again.log) else "I29: a synced record is gone, and so is what replaced it"


@story("r20_keep_active_segment")
def what_is_appended_meanwhile_stays(rules: Rules) -> str | None:
    machine = machine_of(rules)
    for _ in range(2):
        machine.put((b"k", b"1"))
        machine.put((b"k", b"2"))
        machine.log.roll()
    machine.put((b"k", b"3"))
    machine.commit()

    places: list[int] = []

    def append(what: str) -> None:
        if what == "synced" and not places:
            places.append(machine.put((b"other", b"acknowledged")))
            machine.commit()

    machine.during = append
    machine.compact()
    read = machine.log.read(places[0], 1 << 20, upper_bound=machine.log.end, min_one_batch=True)
    return None if read is not None else "I1: an acknowledged record is gone"


@story("r20_void_after_truncation")
def what_was_made_of_a_former_log_counts_no_more(rules: Rules) -> str | None:
    machine = machine_of(rules)
    machine.put((b"a", b"1"), (b"a", b"2"))
    cut = machine.put((b"k", b"cut"))
    machine.log.roll()
    machine.commit()

    def diverge(what: str) -> None:
        if what == "Cleaned":
            machine.truncate(cut)
            machine.put((b"k", b"new"))
            machine.log.roll()
            machine.commit()

    machine.during = diverge
    machine.compact()
    found = view(machine.log)[b"k"]
    return None if found == b"new" else f"I6: the record of key k became {found!r}"


def follower_of(leader: CompactingMachine, rules: Rules) -> Log:
    disk = SimulatedDisk(now_ms=lambda: NOW)
    facts = OpenFacts(tombstone_horizon=0)
    return Log.open(disk, "f", "orders", 0, ORDERS_ID, leader.settings, facts=facts, now_ms=NOW, rules=rules)


def replicate(leader: CompactingMachine, follower: Log, rules: Rules, until: int) -> None:
    """What fetches do, one batch at a time."""
    while follower.end < until:
        last_epoch = follower.epochs.epoch_at(follower.end - 1) if follower.end else NO_EPOCH
        verdict = judge_offsets(StoredLog(leader.log), follower.end, last_epoch, follower.tombstone_horizon, rules)
        if verdict.diverging is not None:
            assert verdict.diverging[0] == NO_EPOCH
            follower.truncate_fully(leader.log.start)
            follower.set_horizon(verdict.diverging[1])
            continue
        read = leader.log.read(follower.end, 1, upper_bound=leader.log.end, min_one_batch=True)
        assert read is not None
        data = bytearray(read.slice.read())
        read.slice.release()
        follower.append_as_follower(memoryview(data), leader.epoch, NOW)


@story("r20_refetch_below_horizon")
def what_a_tombstone_deleted_does_not_come_back(rules: Rules) -> str | None:
    leader = machine_of(rules)
    leader.put((b"k", b"deleted later"))
    leader.put((b"x", b"1"))
    follower = follower_of(leader, rules)
    replicate(leader, follower, rules, leader.log.end)  # then the follower is away for a day
    leader.put((b"k", None))
    leader.put((b"x", b"2"))
    leader.log.roll()
    leader.commit()
    leader.compact(NOW)
    leader.put((b"x", b"3"))
    leader.log.roll()
    leader.commit()
    leader.compact(NOW + 10_000)
    replicate(leader, follower, rules, leader.log.end)
    return None if view(follower) == view(leader.log) else f"I4: deleted, and back on a follower: {view(follower)}"


@story("r20_keep_epoch_starts")
def a_copy_knows_where_epochs_began(rules: Rules) -> str | None:
    leader = machine_of(rules)
    for number in range(3):
        leader.new_epoch()
        for _ in range(3):
            leader.put((b"k", b"%d" % number))
    leader.new_epoch()
    leader.put((b"k", b"last"))
    leader.log.roll()
    leader.put((b"end", b""))
    leader.commit()
    leader.compact()
    follower = follower_of(leader, rules)
    replicate(leader, follower, rules, leader.log.end)
    for epoch in range(1, leader.epoch + 1):
        if follower.end_of_epoch(epoch) != leader.log.end_of_epoch(epoch):
            told = f"{follower.end_of_epoch(epoch)}, not {leader.log.end_of_epoch(epoch)}"
            return f"R1: asked for the end of epoch {epoch}, a copy says {told}: another replica keeps what it must cut"
    return None


@pytest.mark.parametrize("rule", STORIES)
def test_the_story_ends_well(rule: str) -> None:
    assert STORIES[rule](ALL_ON) is None


@pytest.mark.parametrize("rule", STORIES)
def test_the_story_breaks_without_the_rule(rule: str) -> None:
    assert STORIES[rule](ALL_ON.without(rule)) is not None


def test_a_log_that_was_cut_is_compacted_in_the_next_round() -> None:
    machine = machine_of(ALL_ON)
    machine.put((b"a", b"1"), (b"a", b"2"))
    cut = machine.put((b"k", b"cut"))
    machine.log.roll()
    machine.commit()
    machine.during = lambda what: machine.truncate(cut) if what == "Cleaned" and machine.log.end > cut else None
    assert machine.compact() is None
    machine.during = lambda _: None
    machine.model.batches.pop(cut)
    machine.put((b"k", b"new"))
    machine.log.roll()
    machine.commit()
    assert machine.compact() is not None
    assert machine.difference() is None


def test_a_log_that_was_cut_right_at_the_end_is_not_clean() -> None:
    """What comes in place of the cut records has a tombstone, which must not go before what it deletes."""
    machine = machine_of(ALL_ON)
    machine.put((b"k", b"v"), (b"a", b"1"))
    cut = machine.put((b"a", b"2"))
    machine.log.roll()
    machine.commit()
    machine.during = lambda what: machine.cut(cut) if what == "Finished" else None
    assert machine.compact() is None
    assert machine.directory.clean_end(ORDERS) <= cut
    machine.during = lambda _: None
    machine.adopt_stored()
    machine.put((b"k", None))
    for number in range(3):
        machine.log.roll()
        machine.commit()
        machine.compact(NOW + 5000 * number)
        machine.put((b"x", b"%d" % number))
    assert b"k" not in view(machine.log)


def test_kept_of_skips_markers() -> None:
    machine = machine_of(ALL_ON)
    machine.put((b"k", b"v"), producer_id=8, transactional=True)
    machine.abort(8)
    assert len(kept_of(read_all(machine.log))) == 1
