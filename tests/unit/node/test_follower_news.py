"""The list of what a follower's next answer has to look at."""

from typing import Any

from hightide.node.follower_news import FULL_LOOK_SECONDS, FollowerNews

KEY, OTHER = (b"t" * 16, 0), (b"t" * 16, 1)


class Place:
    """As much of a partition as news know."""

    def __init__(self) -> None:
        self.watchers: dict[FollowerNews, Any] = {}


def watched(news: FollowerNews, key: tuple[bytes, int] = KEY) -> Place:
    place = Place()
    news.watch(key, place)
    return place


def test_records_wake_whoever_waits_and_stay_on_the_list() -> None:
    news, woken = FollowerNews(), []
    news.appended(KEY)
    news.wake = lambda: woken.append(list(news.keys))
    news.appended(OTHER)
    assert woken == [[KEY, OTHER]]


def test_everything_is_looked_at_now_and_then() -> None:
    news = FollowerNews()
    times = [0.0, 0.1, FULL_LOOK_SECONDS, FULL_LOOK_SECONDS + 0.1, 2 * FULL_LOOK_SECONDS]
    assert [news.is_full_look_due(now) for now in times] == [True, False, True, False, True]


def test_a_partition_in_the_place_of_another_is_watched_instead() -> None:
    news = FollowerNews()
    news.keys[KEY] = None
    former, present = watched(news), watched(news)
    assert former.watchers == {}
    assert present.watchers == {news: KEY}
    assert list(news.keys) == [KEY]


def test_what_is_forgotten_or_closed_is_told_no_more() -> None:
    news = FollowerNews()
    first, second = watched(news), watched(news, OTHER)
    news.keys[KEY] = None
    news.forget(KEY)
    news.forget(KEY)
    assert (first.watchers, list(news.keys)) == ({}, [])
    news.wake = lambda: None
    news.close()
    assert second.watchers == {}
    assert news.wake is None
