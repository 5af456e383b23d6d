"""One seed after another: a cluster, clients, faults, healing, and then the judgement.

A run: start, create the topic, let the clients work while the plan's faults happen; heal; wait for everybody to be well
(liveness); write once more everywhere; sometimes take everything down once more; let a fresh client read everything;
ask the checkers. A seed counts only when enough was acknowledged and something went wrong.
"""

import asyncio
import gc
from collections import Counter
from time import process_time
from typing import NamedTuple

from hightide.errors import ApiError, ProtocolError
from hightide.rules import ALL_ON, Rules
from hightide.sim.chatter import Chatter
from hightide.sim.churn import Churn
from hightide.sim.faults.injections import inject
from hightide.sim.faults.site import Site
from hightide.sim.history.checks import check_all
from hightide.sim.history.recorder import History
from hightide.sim.history.windows import measure
from hightide.sim.invariants import Watcher
from hightide.sim.plan import Fault, Plan
from hightide.sim.process import Condition, SimulatedProcess
from hightide.sim.scheduler import LivelockError, NothingHappensError
from hightide.sim.stored_logs import wrong_logs
from hightide.sim.topology import bootstrap, host_of, node_settings
from hightide.sim.trace import Problem
from hightide.sim.wellness import scrub, unwell
from hightide.sim.workload import Workload
from hightide.sim.world import SimulatedClient, World

ACKNOWLEDGED_MIN = 500  # a seed with fewer proves little
READERS = 2
LOOK_SECONDS = 0.25
START_SECONDS, HEAL_SECONDS = 30.0, 60.0
FINDINGS_MAX = 10

Tasks = list["asyncio.Task[None]"]


class Result(NamedTuple):
    """What one run showed."""

    plan: Plan
    digest: str
    problems: tuple[Problem, ...]
    timeline: tuple[str, ...]
    acknowledged: int
    sent: int
    leader_changes: int
    faults: Counter[str]
    """Those that took effect."""
    simulated_seconds: float
    processor_seconds: float
    callbacks: int
    unavailable_seconds: float
    """The longest time in which a partition took nothing."""

    @property
    def counts(self) -> bool:
        """Whether the run proves anything."""
        return self.acknowledged >= ACKNOWLEDGED_MIN and self.leader_changes > 0 and sum(self.faults.values()) > 0


def run(plan: Plan, rules: Rules = ALL_ON) -> Result:
    """Carry out one plan."""
    started = process_time()
    campaign = _Run(plan, rules)
    try:
        campaign.world.run(campaign.story())
    except (LivelockError, NothingHappensError) as error:
        campaign.world.trace.report("liveness", str(error))
    finally:
        campaign.world.close()
        gc.collect()  # a world is full of circles, and the next one is as large
    return campaign.result(process_time() - started)


class _Run:
    """One plan on its way."""

    def __init__(self, plan: Plan, rules: Rules) -> None:
        self.plan = plan
        self.world = world = World(plan.seed, rules=rules, disorder=plan.disorder)
        world.network.busy_seconds = plan.busy_seconds
        self.nodes: list[SimulatedProcess] = [
            world.add_node(host_of(node_id), node_settings(node_id, plan.brokers))
            for node_id in range(1, plan.brokers + 1)
        ]
        self.site = Site(world, self.nodes)
        self.history = History(lambda: world.now)
        self.workload = Workload(self.history, bootstrap(plan.brokers), plan.partitions, min(3, plan.brokers))
        self.churn = Churn(self.workload, world.trace, min(3, plan.brokers))
        self.watcher = Watcher(world.trace, self.nodes, self.workload.acknowledged_ends)
        self.chatter = Chatter(world.network, world.trace)
        self.effects: Counter[str] = Counter()

    # ------------------------------------------------------------------ the story

    async def story(self) -> None:
        """From the first start to the judgement."""
        if not await self._begin():
            return
        producers, readers = self._start_clients()
        chores = [asyncio.ensure_future(self.site.supervise()), asyncio.ensure_future(self._watch())]
        faults = [asyncio.ensure_future(self._strike(fault)) for fault in self.plan.faults]
        await asyncio.sleep(self.plan.duration)
        for fault in faults:
            fault.cancel()
        await asyncio.wait([*faults, asyncio.ensure_future(asyncio.sleep(0))])
        await self._end(producers, readers)
        for chore in chores:
            chore.cancel()

    async def _begin(self) -> bool:
        for node in self.nodes:
            node.start()
        world = self.world
        if not await world.until(self._all_up, START_SECONDS):
            world.trace.report("liveness", "the nodes did not start")
            return False
        admin = world.add_client("admin")
        if not await admin.do(self.workload.create_topic(admin, dict(self.plan.topic))):
            world.trace.report("liveness", "the topic was not created")
            return False
        return True

    def _start_clients(self) -> tuple[Tasks, Tasks]:
        """Producers, which end when told to, and readers, which go on."""
        world, workload = self.world, self.workload
        producers, readers = [], []
        for number in range(self.plan.producers):
            client = world.add_client(f"producer-{number + 1}")
            producers.append(client.begin(workload.produce(client, world.stream(client.name))))
        for number in range(READERS):
            client = world.add_client(f"reader-{number + 1}")
            readers.append(client.begin(workload.read(client, world.stream(client.name), jumps=bool(number))))
        observer = world.add_client("observer")
        readers.append(observer.begin(workload.observe(observer)))
        churner = world.add_client("churner")
        readers.append(churner.begin(self.churn.run(churner, world.stream("churn"))))
        return producers, readers

    async def _strike(self, fault: Fault) -> None:
        await asyncio.sleep(max(0.0, fault.at - self.world.now))
        if await inject(self.site, fault):
            self.effects[fault.kind] += 1

    async def _watch(self) -> None:
        while True:
            self.watcher.look()
            self.chatter.look()
            await asyncio.sleep(LOOK_SECONDS)

    # ------------------------------------------------------------------ the end

    async def _end(self, producers: Tasks, readers: Tasks) -> None:
        world, workload = self.world, self.workload
        world.trace.say("HEAL", "everything is well from now on")
        self.site.heal()
        if not await world.until(self._all_up, HEAL_SECONDS):
            down = ", ".join(node.name for node in self.nodes if not node.is_up)
            world.trace.report("liveness", f"not up again after healing: {down}")
            return
        workload.is_stopping = True
        if not await world.until(lambda: all(task.done() for task in producers), HEAL_SECONDS):
            world.trace.report("liveness", f"{workload.waiting} sends were never answered")
        await self._write_last()
        await self._all_well()
        for task in (*producers, *readers):
            if task.done() and task.exception() is not None:
                world.unexpected("a client", "ended", task.exception())
            task.cancel()
        await self._finale()
        await self._read_everything()
        for finding in check_all(self.history)[:FINDINGS_MAX]:
            world.trace.report(finding.checker, str(finding).partition(" ")[2])

    async def _write_last(self) -> None:
        client = self.world.add_client("last-writer")
        refused = await client.do(self.workload.write_last(client, self.world.stream("last")))
        if refused:
            self.world.trace.report("liveness", f"after healing records are refused: {'; '.join(refused)}")

    async def _all_well(self) -> None:
        """Leaders, full in-sync sets, one metadata, the same bytes everywhere."""
        for node in self.nodes:
            scrub(node)
        if not await self.world.until(lambda: not any(unwell(self.nodes)), HEAL_SECONDS):
            self.world.trace.report("liveness", f"long after healing {'; '.join(unwell(self.nodes))}")
        for wrong in wrong_logs(self.nodes):
            self.world.trace.report(*wrong)

    async def _finale(self) -> None:
        """Everything goes down once more: what was acknowledged must not need luck."""
        if self.plan.finale == "none":
            return
        self.world.trace.say("FINALE", self.plan.finale)
        self.site.kept_down.update(node.name for node in self.nodes)
        for node in self.nodes:
            match self.plan.finale:
                case "restart":
                    node.stop()
                case "kill":
                    node.kill()
                case _:
                    node.lose_power()
        await self.world.until(lambda: all(node.condition is Condition.DOWN for node in self.nodes), START_SECONDS)
        for node in self.nodes:
            node.start()
        if not await self.world.until(self._all_up, HEAL_SECONDS):
            self.world.trace.report("liveness", f"the nodes did not come back after a {self.plan.finale}")
        else:
            await self._all_well()

    async def _read_everything(self) -> None:
        client: SimulatedClient = self.world.add_client("last-reader")
        try:
            await client.do(self.workload.read_everything(client))
        except (ApiError, ProtocolError) as error:
            self.world.trace.report("liveness", f"after healing not everything can be read: {error}")

    def _all_up(self) -> bool:
        return all(node.is_up for node in self.nodes)

    def result(self, processor_seconds: float) -> Result:
        """What came of it."""
        world = self.world
        return Result(
            self.plan,
            world.trace.digest,
            tuple(world.trace.problems),
            tuple(world.trace.timeline),
            self.workload.acknowledged,
            len(self.history.sends),
            self.watcher.leader_changes,
            self.effects,
            world.now,
            processor_seconds,
            world.scheduler.steps,
            measure(self.history).longest_unavailable_seconds,
        )
