"""Voters are ids on disks."""

import pytest

from hightide.replication.voters import Voter, VoterSet, may_be_same_disk

DISK_A, DISK_B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_two_majorities_always_share_a_voter(count: int, majority: int) -> None:
    voters = VoterSet.of(*range(1, count + 1))
    assert voters.majority == majority
    assert 2 * voters.majority > len(voters)


def test_another_disk_is_another_voter() -> None:
    voters = VoterSet([Voter(1, DISK_A), Voter(2)])
    assert voters.includes(1, DISK_A)
    assert not voters.includes(1, DISK_B)
    assert voters.includes(2, DISK_B)  # nobody wrote down its disk
    assert not voters.includes(3, DISK_A)
    assert may_be_same_disk(DISK_A, bytes(16))
    assert not may_be_same_disk(DISK_A, DISK_B)


def test_voters_come_in_the_order_of_their_ids() -> None:
    voters = VoterSet([Voter(3, DISK_B), Voter(1, DISK_A)])
    assert list(voters) == [Voter(1, DISK_A), Voter(3, DISK_B)]
    assert voters.directory_of(3) == DISK_B
    assert voters.directory_of(9) == bytes(16)
    assert 3 in voters
    assert 9 not in voters


@pytest.mark.parametrize("voters", [[], [Voter(1), Voter(1, DISK_A)]])
def test_a_quorum_has_voters_and_each_once(voters: list[Voter]) -> None:
    with pytest.raises(ValueError, match="different ids"):
        VoterSet(voters)
