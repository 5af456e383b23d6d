"""Every fault of the other stories, one after the other by lot, in one history (C39): for the nights.

The seed of a failed run is in its log: `CHAOS_SEED=… pytest tests/chaos/test_everything_by_lot.py` draws the
same faults again, though processes never do the same thing twice.
"""

import os
from collections.abc import Callable
from random import Random

import pytest

from hightide.testing import Cluster
from tests.chaos.cluster_story import SOME, Story
from tests.history_clients import ConfluentLoad

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.long, pytest.mark.timeout(3600)]

FAULTS = 60
SEED = os.environ.get("CHAOS_SEED") or str(Random().randrange(1_000_000))
NODES = [1, 2, 3]


class Fate:
    """What may happen to a healthy cluster; each leaves it so that it can get well by itself."""

    def __init__(self, story: Story, random: Random) -> None:
        self._story = story
        self._cluster = story.cluster
        self._random = random
        self.kinds: list[Callable[[int], None]] = [
            self.kill, self.restart, self.sleep, self.part, self.mute, self.deafen, self.wipe, self.rot, self.kill_all,
        ]  # fmt: skip

    def strike(self) -> str:
        """One fault; what it was."""
        kind, victim = self._random.choice(self.kinds), self._random.choice(NODES)
        kind(victim)
        return f"{kind.__name__} {victim}"

    def kill(self, victim: int) -> None:
        self._cluster.kill(victim)
        self._go_on()
        self._cluster.start(victim)

    def restart(self, victim: int) -> None:
        self._cluster.restart(victim)

    def sleep(self, victim: int) -> None:
        self._cluster.pause(victim)
        self._go_on()
        self._cluster.resume(victim)

    def part(self, victim: int) -> None:
        self._cluster.partition({victim}, set(NODES) - {victim})
        self._go_on()
        self._cluster.heal()

    def mute(self, victim: int) -> None:
        self._cluster.partition({victim}, set(NODES) - {victim}, one_way=True)
        self._go_on()
        self._cluster.heal()

    def deafen(self, victim: int) -> None:
        self._cluster.partition(set(NODES) - {victim}, {victim}, one_way=True)
        self._go_on()
        self._cluster.heal()

    def wipe(self, victim: int) -> None:
        self._cluster.kill(victim)
        self._cluster.wipe(victim)
        self._cluster.start(victim)

    def rot(self, victim: int) -> None:
        """Some byte of some segment."""
        self._cluster.kill(victim)
        segment = self._random.choice(self._story.segments(victim, self._random.randrange(3)))
        data = bytearray(segment.read_bytes())
        if data:
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
            segment.write_bytes(data)
        self._cluster.start(victim)

    def kill_all(self, victim: int) -> None:
        self._cluster.kill()
        self._cluster.start(*(node for node in NODES if node != victim))
        self._go_on()
        self._cluster.start(victim)

    def _go_on(self) -> None:
        if self._random.random() < 0.7:
            self._story.go_on(SOME // 4)


@pytest.mark.covers("C39", "T20")
def test_everything_by_lot(cluster: Cluster) -> None:
    print(f"seed {SEED}")
    with Story(cluster, topic="by-lot", loads=[ConfluentLoad] * 2) as story:
        fate = Fate(story, Random(SEED))
        for number in range(FAULTS):
            story.go_on(SOME // 4)
            cluster.wait_healthy()  # two faults at a time may rightly cost a partition its leader
            print(f"{number}: {fate.strike()}", flush=True)
    story.judge()
