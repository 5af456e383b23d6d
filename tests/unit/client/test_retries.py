"""Trying again: how long, how fast, and what not."""

import pytest

from hightide.client.retries import RetryPolicy, retry, sleep
from hightide.errors import ApiError, ErrorCode
from tests.unit.client.memory_cluster import MemoryCluster


class Attempts:
    """Fails with these codes, one after the other, and then succeeds."""

    def __init__(self, cluster: MemoryCluster, *codes: ErrorCode) -> None:
        self.cluster, self.codes, self.times = cluster, list(codes), list[float]()

    async def __call__(self) -> str:
        self.times.append(self.cluster.clock.now())
        if self.codes:
            raise ApiError(self.codes.pop(0))
        return "done"


def test_pauses_double_up_to_their_bound() -> None:
    policy = RetryPolicy(first_pause=0.1, longest_pause=1.0)
    assert [policy.pause(failures) for failures in (1, 2, 3, 4, 5, 1000)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_retriable_errors_are_retried_with_pauses() -> None:
    cluster, heard = MemoryCluster(), list[ErrorCode]()
    attempts = Attempts(cluster, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
    policy = RetryPolicy(first_pause=0.5)
    done = cluster.run(retry(cluster.clock, policy, attempts, lambda error: heard.append(error.code)))
    assert done == "done"
    assert [round(later - attempts.times[0], 3) for later in attempts.times] == [0, 0.5, 1.5]
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT]


def test_other_errors_are_not_retried() -> None:
    cluster = MemoryCluster()
    attempts = Attempts(cluster, ErrorCode.TOPIC_ALREADY_EXISTS)
    with pytest.raises(ApiError, match="TOPIC_ALREADY_EXISTS"):
        cluster.run(retry(cluster.clock, RetryPolicy(), attempts, lambda _: None))
    assert len(attempts.times) == 1


def test_retries_end_before_the_deadline() -> None:
    cluster = MemoryCluster()
    attempts = Attempts(cluster, *[ErrorCode.LEADER_NOT_AVAILABLE] * 100)
    policy = RetryPolicy(first_pause=1.0, longest_pause=1.0, give_up_after=5.0)
    with pytest.raises(ApiError, match="LEADER_NOT_AVAILABLE"):
        cluster.run(retry(cluster.clock, policy, attempts, lambda _: None))
    assert attempts.times[-1] - attempts.times[0] == 5.0


def test_sleep_passes_virtual_time() -> None:
    cluster = MemoryCluster()
    before = cluster.clock.now()
    cluster.run(sleep(cluster.clock, 3.5))
    assert cluster.clock.now() == before + 3.5
