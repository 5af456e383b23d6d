"""Leaders and followers look at what is new: nothing waits for a look at everything, idle partitions cost little."""

import asyncio

import pytest

from hightide.node import follower_news, replica_fetcher
from tests.simulation.level1_story import Story

TOPICS = [f"t{number}" for number in range(8)]
SOON_SECONDS = 0.1  # a round trip of the simulated network takes a millisecond or so
LEADER, RESTARTED = 1, 3
FOLLOWERS = 2


@pytest.fixture
def nobody_looks_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (follower_news, replica_fetcher):
        monkeypatch.setattr(module, "FULL_LOOK_SECONDS", 1e9)


async def write_everywhere(story: Story, value: bytes) -> None:
    for topic in TOPICS:
        began = story.world.now
        await story.produce(value, topic=topic)
        assert story.world.now - began < SOON_SECONDS
    await story.until(lambda: all(is_whole(story, number, topic) for number in story.nodes for topic in TOPICS), 2.0)


def is_whole(story: Story, number: int, topic: str) -> bool:
    partition, leader = story.partition(number, topic), story.partition(story.agreed(topic).leader, topic)
    return partition.log.end == partition.high_watermark == leader.log.end


@pytest.mark.usefixtures("nobody_looks_at_everything")
def test_news_are_enough() -> None:
    """Appends, high watermarks, a restart, replicas that come back in sync: each is told, none is found by chance."""
    story = Story()

    async def play() -> None:
        await story.start()
        for topic in TOPICS:
            await story.create(topic, (1, 2, 3), **{"min.insync.replicas": "2"})
        await write_everywhere(story, b"first")
        story.nodes[RESTARTED].kill()
        await story.start([RESTARTED])
        for topic in TOPICS:
            await story.in_sync([1, 2, 3], topic)
        await write_everywhere(story, b"second")
        for topic in TOPICS:
            assert await story.read(topic) == [b"first", b"second"]

    assert story.run(play) == []


def test_idle_partitions_are_not_looked_at_with_every_fetch() -> None:
    story = Story()
    values = [b"%d" % number for number in range(100)]

    async def play() -> None:
        await story.start()
        for topic in TOPICS:
            await story.create(topic, (1, 2, 3), **{"min.insync.replicas": "2"})
        assert {story.agreed(topic).leader for topic in TOPICS} == {LEADER}
        await asyncio.sleep(5.0)
        leader = story.nodes[LEADER].node
        assert leader is not None
        before = leader.stats.followed_partitions
        await story.produce(*values, topic=TOPICS[0])
        looked_at = leader.stats.followed_partitions - before
        of_the_written_one, of_idle_ones = FOLLOWERS * len(values), len(TOPICS[1:]) * len(values)
        assert of_the_written_one <= looked_at < of_the_written_one + of_idle_ones / 2

    assert story.run(play) == []
