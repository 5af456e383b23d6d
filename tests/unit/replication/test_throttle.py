"""How fast replicas that are behind may catch up."""

import pytest

from hightide.replication.throttle import EVERYBODY, NOBODY, Throttle, throttled_brokers


def test_without_a_rate_nobody_waits() -> None:
    throttle = Throttle()
    throttle.took(1 << 50, 1.0)
    assert not throttle.is_on
    assert throttle.seconds_to_wait(1.0) == 0


def test_a_second_of_the_rate_passes_at_once_and_a_debt_is_paid_back() -> None:
    throttle = Throttle()
    throttle.limit(100, now=50.0)
    assert throttle.is_on
    throttle.took(99, 50.0)
    assert throttle.seconds_to_wait(50.0) == 0
    throttle.took(51, 50.0)
    assert throttle.seconds_to_wait(50.0) == pytest.approx(0.5)
    assert throttle.seconds_to_wait(50.4) == pytest.approx(0.1)
    assert throttle.seconds_to_wait(50.6) == 0


def test_idle_time_is_saved_for_a_second_only() -> None:
    throttle = Throttle()
    throttle.limit(100, now=0.0)
    throttle.took(200, 1000.0)
    assert throttle.seconds_to_wait(1000.0) == pytest.approx(1.0)


def test_no_more_than_the_rate_over_a_long_time() -> None:
    throttle, now, copied = Throttle(), 0.0, 0
    throttle.limit(1000, now)
    while now < 100:
        seconds = throttle.seconds_to_wait(now)
        if seconds:
            now += seconds
            continue
        throttle.took(700, now)
        copied += 700
    assert 100 * 1000 <= copied <= 100 * 1000 + 1000 + 700


def test_a_new_rate_counts_at_once() -> None:
    throttle = Throttle()
    throttle.limit(1, now=0.0)
    throttle.took(1_000_000, 0.0)
    throttle.limit(1, now=0.0)
    assert throttle.seconds_to_wait(0.0) > 100, "the same rate again changes nothing"
    throttle.limit(10, now=0.0)
    assert throttle.seconds_to_wait(0.0) == 0


def test_a_rate_of_nothing_stops_them() -> None:
    throttle = Throttle()
    throttle.limit(0, now=0.0)
    assert throttle.seconds_to_wait(10.0) == float("inf")


def test_whom_a_list_names() -> None:
    assert throttled_brokers([], 0) is NOBODY
    assert throttled_brokers(["*"], 5) is EVERYBODY
    assert 7 in EVERYBODY
    named = throttled_brokers(["0:1", "0:2", "1:3"], 0)
    assert [broker for broker in range(5) if broker in named] == [1, 2]
