"""Every transition of the replica machine for a sole member of its set."""

import pytest

from hightide.replication.effects import AppendLeaderChange, HighWatermarkMoved, StartEpoch
from hightide.replication.events import (
    DurabilityChanged,
    ElectionWon,
    LeadershipGranted,
    LogAdvanced,
    MinimumChanged,
)
from hightide.replication.replica import CommitRule, Replica
from hightide.rules import ALL_ON, Rules


def replica(
    commit_rule: CommitRule = CommitRule.IN_SYNC,
    *,
    end: int = 10,
    high_watermark: int = 10,
    synced_only: bool = True,
    minimum: int = 1,
    rules: Rules = ALL_ON,
) -> Replica:
    return Replica(
        1,
        commit_rule,
        end=end,
        synced_end=end,
        high_watermark=high_watermark,
        synced_only=synced_only,
        min_in_sync_replicas=minimum,
        rules=rules,
    )


def test_an_appointed_leader_notes_its_epoch_before_anything_else() -> None:
    machine = replica()
    assert machine.handle(LeadershipGranted(4, 1, (1,), (1,))) == [StartEpoch(4, 10)]
    assert machine.is_leader
    assert machine.leader_epoch == 4


def test_without_rule_3_the_epoch_is_not_noted() -> None:
    machine = replica(rules=ALL_ON.without("r3_epoch_before_append"))
    assert machine.handle(LeadershipGranted(4, 1, (1,), (1,))) == []


def test_a_leader_catches_its_high_watermark_up_to_what_is_synced() -> None:
    machine = replica(high_watermark=6)
    assert machine.handle(LeadershipGranted(4, 1, (1,), (1,))) == [StartEpoch(4, 10), HighWatermarkMoved(10)]


def test_written_is_not_committed_until_it_is_synced() -> None:
    machine = replica()
    machine.handle(LeadershipGranted(4, 1, (1,), (1,)))
    assert machine.handle(LogAdvanced(15, 10)) == []
    assert machine.handle(LogAdvanced(17, 15)) == [HighWatermarkMoved(15)]


def test_without_rule_4_an_unsynced_record_counts() -> None:
    machine = replica(rules=ALL_ON.without("r4_synced_ends_only"))
    machine.handle(LeadershipGranted(4, 1, (1,), (1,)))
    assert machine.handle(LogAdvanced(15, 10)) == [HighWatermarkMoved(15)]


def test_replicated_durability_counts_written_records() -> None:
    machine = replica(synced_only=False)
    machine.handle(LeadershipGranted(4, 1, (1,), (1,)))
    assert machine.handle(LogAdvanced(15, 10)) == [HighWatermarkMoved(15)]


def test_durability_changes_take_effect_at_once_and_the_high_watermark_never_falls() -> None:
    machine = replica(synced_only=False)
    machine.handle(LeadershipGranted(4, 1, (1,), (1,)))
    machine.handle(LogAdvanced(15, 10))
    assert machine.handle(DurabilityChanged(True)) == []
    assert machine.high_watermark == 15
    assert machine.handle(LogAdvanced(20, 15)) == []
    assert machine.handle(DurabilityChanged(False)) == [HighWatermarkMoved(20)]


def test_a_silent_member_of_the_set_blocks_the_high_watermark() -> None:
    machine = replica()
    machine.handle(LeadershipGranted(4, 1, (1, 2), (1, 2)))
    assert machine.handle(LogAdvanced(15, 15)) == []


def test_below_the_minimum_nothing_is_committed_or_promised() -> None:
    machine = replica(minimum=2)
    machine.handle(LeadershipGranted(4, 1, (1, 2, 3), (1,)))
    assert not machine.has_enough_in_sync
    assert machine.handle(LogAdvanced(15, 15)) == []
    assert machine.handle(MinimumChanged(1)) == [HighWatermarkMoved(15)]
    assert machine.has_enough_in_sync


@pytest.mark.parametrize("event", [LeadershipGranted(3, 9, (1,), (1,)), LeadershipGranted(4, 0, (1,), (1,))])
def test_an_older_epoch_is_ignored(event: LeadershipGranted) -> None:
    machine = replica()
    machine.handle(LeadershipGranted(4, 1, (1,), (1,)))
    assert machine.handle(event) == []
    assert (machine.leader_epoch, machine.partition_epoch) == (4, 1)


def test_a_new_leader_names_no_end_before_its_high_watermark_reaches_its_epoch() -> None:
    machine = replica(high_watermark=6)
    machine.handle(LeadershipGranted(4, 1, (1, 2), (1, 2)))
    assert not machine.answers_offsets


def test_an_elected_leader_commits_only_with_a_record_of_its_own_epoch() -> None:
    machine = replica(CommitRule.MAJORITY, high_watermark=0)
    assert machine.handle(ElectionWon(7, (1,))) == [StartEpoch(7, 10), AppendLeaderChange(7, (1,))]
    assert machine.handle(LogAdvanced(10, 10)) == []
    assert machine.handle(LogAdvanced(11, 10)) == []
    assert machine.handle(LogAdvanced(11, 11)) == [HighWatermarkMoved(11)]


def test_the_same_epoch_is_won_once() -> None:
    machine = replica(CommitRule.MAJORITY)
    machine.handle(ElectionWon(7, (1,)))
    assert machine.handle(ElectionWon(7, (1,))) == []


def test_the_two_ways_to_leadership_can_not_be_mixed() -> None:
    with pytest.raises(ValueError, match="elects no leader"):
        replica().handle(ElectionWon(7, (1,)))
    with pytest.raises(ValueError, match="takes no appointed leader"):
        replica(CommitRule.MAJORITY).handle(LeadershipGranted(4, 1, (1,), (1,)))
