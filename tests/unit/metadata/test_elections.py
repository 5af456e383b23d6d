"""R7: who leads, who may, and what is committed for it."""

import pytest

from hightide.metadata.elections import NOBODY, Elected, choose_leader, elect, eligible_leaders
from hightide.metadata.entities import Partition
from hightide.types import NO_BROKER, PartitionKey

KEY = PartitionKey(bytes(15) + b"\x09", 0)


def partition(
    replicas: tuple[int, ...] = (1, 2, 3),
    in_sync: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    eligible: tuple[int, ...] = (),
    known: tuple[int, ...] = (),
) -> Partition:
    return Partition(replicas, (bytes(16),) * len(replicas), in_sync, leader, 5, 7, eligible, known)


@pytest.mark.parametrize(
    ("given", "living", "elected"),
    [
        (partition(), {1, 2, 3}, Elected(1)),
        (partition(), {2, 3}, Elected(2)),
        (partition(replicas=(3, 2, 1)), {1, 2, 3}, Elected(3)),
        (partition(in_sync=(3,)), {1, 3}, Elected(3)),
        (partition(in_sync=(3,)), {1, 2}, NOBODY),
        (partition(in_sync=(3,), eligible=(2,)), {1, 2}, Elected(2)),
        (partition(in_sync=(), eligible=(3, 2)), {2, 3}, Elected(2)),
        (partition(in_sync=(), eligible=(2,), known=(1,)), {1}, NOBODY),
        (partition(in_sync=(), known=(1, 2)), {1}, NOBODY),
        (partition(replicas=(1,), in_sync=(), known=(1,)), {1}, Elected(1, possible_loss=True)),
        (partition(), set(), NOBODY),
    ],
)
def test_the_order_of_r7(given: Partition, living: set[int], elected: Elected) -> None:
    assert choose_leader(given, living.__contains__) == elected


def test_when_all_last_known_are_back_the_longest_log_leads() -> None:
    given = partition(in_sync=(), known=(1, 2))
    ends = {1: (4, 100), 2: (5, 50)}
    assert choose_leader(given, {1, 2}.__contains__, log_ends=ends) == Elected(2, possible_loss=True)
    tie = choose_leader(given, {1, 2}.__contains__, log_ends={1: (5, 50), 2: (5, 50)})
    assert tie == Elected(1, possible_loss=True)


def test_an_unclean_election_needs_permission() -> None:
    given = partition(in_sync=(1,))
    assert choose_leader(given, {2, 3}.__contains__) == NOBODY
    unclean = choose_leader(given, {2, 3}.__contains__, unclean_allowed=True, log_ends={2: (5, 1), 3: (5, 9)})
    assert unclean == Elected(3, possible_loss=True)


def test_who_is_eligible_beside_a_new_in_sync_set() -> None:
    given = partition(in_sync=(1, 2), eligible=(3,))
    assert eligible_leaders(given, [1, 2], 2) == ()
    assert eligible_leaders(given, [2], 2) == (1, 3)
    assert eligible_leaders(given, [], 1) == (1, 2, 3)


def test_a_lost_leader_is_replaced_once() -> None:
    given = partition()
    outcome = elect(KEY, given, {2, 3}.__contains__, 2)
    assert outcome is not None
    record, elected = outcome
    assert elected == Elected(2)
    after = given.merged(record)
    assert (after.leader, after.leader_epoch, after.in_sync_replicas) == (2, 6, (2, 3))
    assert elect(KEY, after, {2, 3}.__contains__, 2) is None


def test_a_lost_follower_leaves_without_a_new_leader_epoch() -> None:
    outcome = elect(KEY, partition(), {1, 2}.__contains__, 2)
    assert outcome is not None
    after = partition().merged(outcome[0])
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 5, 8)
    assert after.in_sync_replicas == (1, 2)


def test_the_last_member_leaves_too_and_stays_eligible() -> None:
    single = partition(replicas=(1,), in_sync=(1,))
    outcome = elect(KEY, single, set[int]().__contains__, 1)
    assert outcome is not None
    offline = single.merged(outcome[0])
    assert (offline.leader, offline.in_sync_replicas, offline.eligible_leader_replicas) == (NO_BROKER, (), (1,))
    assert elect(KEY, offline, set[int]().__contains__, 1) is None
    back = elect(KEY, offline, {1}.__contains__, 1)
    assert back is not None
    online = offline.merged(back[0])
    assert (online.leader, online.in_sync_replicas, online.eligible_leader_replicas) == (1, (1,), ())
    assert online.leader_epoch == 7


def test_after_a_possible_loss_former_members_are_not_eligible() -> None:
    given = partition(in_sync=(1,), eligible=(2,), known=(1,))
    outcome = elect(KEY, given, {3}.__contains__, 2, unclean_allowed=True)
    assert outcome is not None
    record, elected = outcome
    after = given.merged(record)
    assert elected.possible_loss
    assert (after.leader, after.in_sync_replicas, after.eligible_leader_replicas) == (3, (3,), ())
    assert after.last_known_eligible == ()
