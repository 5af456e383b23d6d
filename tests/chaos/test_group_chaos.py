"""kill -9 of coordinators and of members, in processes, with stock clients: the group goes on where it was.

No partition has two owners, no committed offset goes back, and every record below a committed offset was read.
"""

from collections.abc import Callable

import pytest

from hightide.testing import Cluster
from tests.chaos.group_story import GroupStory

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(280)]
ENGINES = pytest.mark.parametrize("engine", ["librdkafka", "aiokafka"])
ALL_ENGINES = pytest.mark.parametrize("engine", ["librdkafka", "aiokafka", "kafka-python"])
ROUNDS = 4


@pytest.fixture
def cluster(hightide_cluster: Callable[..., Cluster]) -> Cluster:
    return hightide_cluster(brokers=3, processes=True)


@pytest.mark.covers("C29", "N5", "N9", "C26")
@ENGINES
def test_the_coordinator_and_a_member_are_killed(cluster: Cluster, engine: str) -> None:
    with GroupStory(cluster, engine) as story:
        story.go_on()
        coordinator = story.coordinator()
        cluster.kill(coordinator)
        story.go_on()
        story.living[0].kill()
        story.go_on()
        cluster.start(coordinator)
        story.start_member()
        story.go_on()
    story.judge()


@pytest.mark.long
@pytest.mark.timeout(1200)
@ALL_ENGINES
def test_again_and_again(cluster: Cluster, engine: str) -> None:
    with GroupStory(cluster, engine) as story:
        for number in range(ROUNDS):
            story.go_on()
            coordinator = story.coordinator()
            if number % 2:
                cluster.stop(coordinator)
            else:
                cluster.kill(coordinator)
            victim = story.living[number % len(story.living)]
            victim.kill() if number % 2 else victim.stop()
            story.start_member()
            story.go_on()
            cluster.start(coordinator)
            cluster.pause(story.coordinator())
            story.go_on()
            cluster.resume()
            cluster.wait_healthy()
    story.judge()
