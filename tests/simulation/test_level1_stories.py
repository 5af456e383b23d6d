"""Stories that seeds of level 1 tell once in a hundred: three whole nodes, and a fault exactly where it hurt."""

import asyncio
import errno

import pytest

from hightide.errors import CorruptionError
from hightide.sim.process import Condition
from tests.simulation.level1_story import Story

HEARTBEAT = 63  # its api key


@pytest.mark.covers("C36")
def test_a_controller_whose_disk_fails_as_it_is_elected_ends() -> None:
    """R10: it can't write the first record of its epoch. Somebody else leads, and it comes back."""
    story = Story()

    async def play() -> None:
        await story.start()
        await story.until(lambda: story.controller() > 0)
        first = story.controller()
        others = [number for number in story.nodes if number != first]
        faults = [story.nodes[other].disk.fail("write", "*__cluster_metadata-0/*.log") for other in others]
        story.nodes[first].kill()
        await story.until(lambda: any(not story.nodes[other].is_up for other in others))
        assert sorted(fault.times for fault in faults) == [0, 1]
        for other in others:
            story.nodes[other].disk.heal()
        await story.start()
        await story.create()
        await story.produce(b"one")
        assert await story.read() == [b"one"]

    assert story.run(play) == []


def test_a_controller_that_follows_uses_the_reserve_of_a_full_disk() -> None:
    """Metadata may use it: a node on a full disk follows the controller and goes on."""
    story = Story()

    async def play() -> None:
        await story.start()
        await story.until(lambda: story.controller() > 0)
        follower = next(number for number in story.nodes if number != story.controller())
        fault = story.nodes[follower].disk.fail("write", "*__cluster_metadata-0/*.log", code=errno.ENOSPC)
        await story.create()
        await story.until(lambda: fault.times == 0 and story.node(follower).image.topic_named("t") is not None)
        await story.produce(b"one")
        assert story.nodes[follower].lives == 1

    assert story.run(play) == []


def test_a_topic_that_came_and_went_between_two_checkpoints_leaves_nothing_open() -> None:
    """R22: the node was killed before it had remembered that the topic is committed; its log is set aside, not lost."""
    story = Story()

    async def play() -> None:
        await story.start()
        await story.create("kept")
        await story.create("gone")
        await story.produce(b"one", topic="gone")
        story.nodes[3].kill()
        await story.delete("gone")
        await story.start([3])
        await story.until(lambda: not any(path.startswith("data/gone-0/") for path in story.nodes[3].disk.image()))
        assert story.node(3).directory.partitions.strays() != []
        await story.in_sync([1, 2, 3], "kept")

    assert story.run(play) == []


def test_a_broker_whose_registration_went_to_a_machine_without_power_asks_again() -> None:
    """That machine never says that it forgot the connection: whoever waits without end never starts."""
    story = Story()

    async def play() -> None:
        await story.start()
        await story.until(lambda: story.controller() > 0)
        first = story.controller()
        starting = next(number for number in story.nodes if number != first)
        await story.stop(starting)
        life = story.node(first).image.brokers[starting].epoch
        back = story.world.network.link(story.nodes[first].name, story.nodes[starting].name)
        back.delay_seconds = (0.2, 0.2)
        story.nodes[starting].start()

        def is_registered() -> bool:
            controller = story.node(first).metadata.controller
            assert controller is not None
            return controller.image.brokers[starting].epoch != life

        await story.until(is_registered)
        back.is_cut = True
        story.nodes[first].lose_power()
        await asyncio.sleep(0.3)
        story.world.network.restore(story.nodes[first].name, story.nodes[starting].name)
        await story.start()

    assert story.run(play) == []


def test_a_disk_that_fails_during_a_start_ends_the_process() -> None:
    """R10: it would wait for the end of its fencing for ever, with nobody to start it again."""
    story = Story()

    async def play() -> None:
        await story.start()
        await story.stop(3)
        process = story.nodes[3]
        for other in (1, 2):
            story.world.network.link(process.name, story.nodes[other].name).held_seconds[HEARTBEAT] = 2.0
        process.start()
        await story.until(lambda: process.node is not None and process.node.broker_epoch >= 0)
        fault = process.disk.fail("write", "*__cluster_metadata-0/*.log")
        await story.until(lambda: process.condition is Condition.DOWN)
        assert fault.times == 0
        await story.start()

    assert story.run(play) == []


def test_a_controller_that_can_not_read_its_log_ends() -> None:
    """R10: who asks it would get nothing for ever, and nobody else would be elected."""
    story = Story()

    async def play() -> None:
        await story.start()
        await story.until(lambda: story.controller() > 0)
        first = story.nodes[story.controller()]
        first.disk.fail("read", "*__cluster_metadata-0/*.log", times=-1)
        await story.create()
        await story.until(lambda: first.condition is Condition.DOWN)
        first.disk.heal()
        await story.start()
        await story.produce(b"one")
        assert await story.read() == [b"one"]

    assert story.run(play) == []


@pytest.mark.covers("C36")
def test_a_replica_that_rots_again_before_anybody_heard_that_it_was_mended_comes_back() -> None:
    """R17: each find needs a leader epoch in which the replica never fetched, and the controller hears the same twice.

    The heartbeat between them, that all is well, is lost.
    """
    story = Story()

    async def play() -> None:
        await story.start()
        await story.create()
        await story.produce(b"one", b"two")
        controller = story.controller()
        follower = next(number for number in story.nodes if number not in (story.agreed().leader, controller))
        link = story.world.network.link(story.nodes[follower].name, story.nodes[controller].name)
        bad, epoch = story.partition(follower), story.agreed().leader_epoch
        bad.quarantine(CorruptionError("a bit turned"))
        while story.agreed().leader_epoch == epoch:
            await asyncio.sleep(0.0001)
        link.held_seconds = {HEARTBEAT: 60.0}
        await story.until(lambda: story.partition(follower) is not bad)
        story.partition(follower).quarantine(CorruptionError("another bit turned"))
        await asyncio.sleep(2.0)
        link.held_seconds = {}
        await story.until(lambda: story.agreed().leader_epoch == epoch + 2)
        await story.in_sync([1, 2, 3])
        assert story.partition(follower).offline_reason is None
        assert await story.read() == [b"one", b"two"]

    assert story.run(play) == []
