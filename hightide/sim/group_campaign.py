"""Level 1 with a consumer group: whole nodes under a plan's faults, members on the real client, judged by K16 too.

Apart from the other campaign so that neither changes the other's runs.
"""

import asyncio
import gc
from time import process_time
from typing import NamedTuple

from hightide.client.membership import GroupMember
from hightide.errors import ApiError, ProtocolError
from hightide.rules import ALL_ON, Rules
from hightide.sim.campaign import HEAL_SECONDS, Result, Tasks, _Run
from hightide.sim.group_workload import GROUP, GroupWorkload
from hightide.sim.plan import Plan, make_plan
from hightide.sim.scheduler import LivelockError, NothingHappensError
from hightide.sim.workload import TOPIC

MEMBERS, STATIC_MEMBERS = 2, 1
COMMITS_MIN, GENERATIONS_MIN = 8, 1
BROKERS = 3


class GroupResult(NamedTuple):
    """What one run showed."""

    result: Result
    commits: int
    generations: int

    @property
    def counts(self) -> bool:
        """Whether the run proves anything about groups."""
        return self.commits >= COMMITS_MIN and self.generations >= GENERATIONS_MIN and bool(self.result.faults)


def run(seed: int, rules: Rules = ALL_ON, duration: float = 40.0) -> GroupResult:
    """One seed on three nodes."""
    started = process_time()
    story = _GroupRun(make_plan(seed, BROKERS, duration), rules)
    try:
        story.world.run(story.story())
    except (LivelockError, NothingHappensError) as error:
        story.world.trace.report("liveness", str(error))
    finally:
        story.world.close()
        gc.collect()  # a world is full of circles, and the next one is as large
    return GroupResult(story.result(process_time() - started), story.group.commits, len(story.group.generations))


class _GroupRun(_Run):
    """One plan on its way, with a group instead of most other clients."""

    def __init__(self, plan: Plan, rules: Rules) -> None:
        super().__init__(plan, rules)
        self.group = GroupWorkload(self.workload)
        self._members: Tasks = []

    def _start_clients(self) -> tuple[Tasks, Tasks]:
        world, workload = self.world, self.workload
        producer = world.add_client("producer-1")
        producers = [producer.begin(workload.produce(producer, world.stream(producer.name)))]
        for number in range(1, MEMBERS + STATIC_MEMBERS + 1):
            client = world.add_client(f"member-{number}")
            instance = f"instance-{number}" if number > MEMBERS else None
            self._members.append(client.begin(self.group.member(client, world.stream(client.name), instance)))
        return producers, list(self._members)

    async def _all_well(self) -> None:
        await super()._all_well()
        if all(not task.done() for task in self._members) and not await self.world.until(
            lambda: self.group.is_settled, HEAL_SECONDS
        ):
            self.world.trace.report("liveness", f"long after healing the members own {self.group.owned}")

    async def _read_everything(self) -> None:
        await super()._read_everything()
        client = self.world.add_client("last-member")
        member = GroupMember(self.workload.connect(client), GROUP, [TOPIC])
        for _ in range(20):
            try:
                await client.do(self.group.read(client.name, member, tuple(self.workload.partitions)))
                return
            except (ApiError, ProtocolError) as error:
                reason = str(error)
                await asyncio.sleep(1.0)
        self.world.trace.report("liveness", f"after healing committed offsets can't be read: {reason}")
