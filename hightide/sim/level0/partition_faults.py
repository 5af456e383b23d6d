"""Trouble, by chance: what RELIABILITY.md's list of faults means to partitions.

One fault at a time or several that overlap; a quarter of the periods has none. `budget` keeps faults within what the
topic's durability promises: with `replicated`, fewer machines than min.insync.replicas lose power at once.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from hightide.metadata.controller import Controller
from hightide.metadata.decision import Decision
from hightide.sim.level0.partition_controllers import NODES
from hightide.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from hightide.sim.level0.partitions import PartitionWorld

NOTED_FAULT = 3


class Faults:
    """Makes trouble until it is told to stop."""

    def __init__(self, world: "PartitionWorld") -> None:
        self._world = world
        self._random = world.kernel.stream("faults")
        self._is_over = False
        self.struck: Counter[str] = Counter()
        """Faults that took effect, by kind."""
        self._kinds: list[Callable[[], str]] = [
            self._kill, self._kill, self._lose_power, self._lose_power, self._pause, self._isolate, self._isolate,
            self._cut_one_way, self._lossy, self._stalls, self._slow_disk, self._fast_restart, self._crash_controller,
            self._cut_controller, self._stop_cleanly, self._pause_then_kill, self._double_crash, self._minimum,
            self._kill_leader, self._kill_leader, self._wipe, self._stale_disk, self._short_log,
        ]  # fmt: skip
        if world.options.durability == "fsync" or world.options.loses_at_will:
            self._kinds.append(self._lose_all_power)

    def begin(self) -> None:
        """From now on, every few seconds."""
        self._world.kernel.after(self._world.options.fault_period_seconds * self._random.random(), self._period)

    def _period(self) -> None:
        if self._is_over:
            return
        # A lost disk is survived while the others are well; so they stay well until it is known.
        if self._random.random() > 0.25 and not any(disk.lost_synced for disk in self._world.disks.values()):
            strike = self._random.choice(self._kinds)
            told = strike()
            if told:
                self.struck[strike.__name__.removeprefix("_")] += 1
                self._world.noted(NOTED_FAULT, self.struck.total())
                if self._world.trace.keeps_lines:
                    self._world.say(f"FAULT {told}")
        self._world.kernel.after(self._world.options.fault_period_seconds * (0.3 + self._random.random()), self._period)

    def end(self) -> None:
        """Heal everything."""
        self._is_over = True
        world = self._world
        self._heal()
        world.slow_disks.clear()
        for broker_id in world.disks:
            world.kernel.after(5 * self._random.random(), world.start, broker_id)
        if world.trace.keeps_lines:
            world.say("HEALED")

    def _heal(self) -> None:
        self._world.network.heal()
        self._world.network.loss = self._world.network.stalls = 0.0

    # ------------------------------------------------------------------ processes

    def _alive(self) -> int | None:
        return self._random.choice(sorted(self._world.processes)) if self._world.processes else None

    def _back(self, broker_id: int, fastest: float, slowest: float) -> None:
        self._world.kernel.after(self._random.uniform(fastest, slowest), self._world.start, broker_id)

    def _kill(self) -> str:
        broker_id = self._alive()
        if broker_id is None:
            return ""
        self._world.kill(broker_id)
        self._back(broker_id, 0.2, 12.0)
        return f"kill {broker_id}"

    def _fast_restart(self) -> str:
        broker_id = self._alive()
        if broker_id is None:
            return ""
        self._world.kill(broker_id)
        self._back(broker_id, 0.01, 0.1)
        return f"restart {broker_id} at once"

    def _double_crash(self) -> str:
        broker_id = self._alive()
        if broker_id is None:
            return ""
        self._world.kill(broker_id)
        self._back(broker_id, 0.1, 0.3)
        self._world.kernel.after(0.1 + 0.5 * self._random.random(), self._world.kill, broker_id)
        self._back(broker_id, 0.7, 5.0)
        return f"crash {broker_id} twice"

    def _lose_power(self) -> str:
        broker_id = self._alive()
        if broker_id is None or not self._may_lose(broker_id):
            return ""
        self._world.lose_power(broker_id)
        self._back(broker_id, 0.2, 12.0)
        return f"power loss of {broker_id}"

    def _may_lose(self, broker_id: int) -> bool:
        """With `replicated`: not more at once than the promise allows, so only while everybody else is in sync."""
        world = self._world
        return world.options.durability == "fsync" or world.options.loses_at_will or self._all_well_without(broker_id)

    def _all_well_without(self, broker_id: int) -> bool:
        """Whether a whole disk can go: everybody else lives, hears everybody and is in sync."""
        world = self._world
        network, controllers = world.network, world.controllers
        others = set(world.disks) - {broker_id}
        now = world.kernel.now
        if network.blocked or network.loss or network.stalls or world.slow_disks or world.doubted:
            return False
        if controllers.active is None or any(process.paused_until > now for process in world.processes.values()):
            return False
        return others <= set(world.processes) and all(
            others & set(partition.replicas) <= set(partition.in_sync_replicas)
            for topic in controllers.image.topics.values()
            for partition in topic.partitions
        )

    def _wipe(self) -> str:
        broker_id = self._alive()
        if broker_id is None or not self._all_well_without(broker_id):
            return ""
        self._world.wipe(broker_id)
        self._back(broker_id, 0.2, 6.0)
        return f"wipe the disk of {broker_id}"

    def _stale_disk(self) -> str:
        """Its disk is replaced by a copy of some time ago."""
        broker_id = self._alive()
        if broker_id is None or not self._all_well_without(broker_id):
            return ""
        self._world.go_back(broker_id, self._random, with_epoch=True)
        self._back(broker_id, 0.1, 6.0)
        return f"{broker_id} returns with an old copy of its disk"

    def _short_log(self) -> str:
        """Records that were synced are gone, and nothing else."""
        broker_id = self._alive()
        if broker_id is None or not self._all_well_without(broker_id):
            return ""
        self._world.go_back(broker_id, self._random, with_epoch=False)
        self._back(broker_id, 0.1, 6.0)
        return f"{broker_id} returns with shortened logs"

    def _kill_leader(self) -> str:
        """Whoever leads the most, when somebody has just come back if possible."""
        led = self._world.controllers.image.index.led_by
        leaders = sorted(self._world.processes, key=lambda broker_id: -len(led(broker_id)))
        if not leaders:
            return ""
        self._world.kill(leaders[0])
        self._back(leaders[0], 0.2, 12.0)
        return f"kill {leaders[0]}, a leader"

    def _lose_all_power(self) -> str:
        world = self._world
        for broker_id in sorted(world.disks):
            world.lose_power(broker_id)
            self._back(broker_id, 0.5, 6.0)
        return "power loss of everybody"

    def _pause(self) -> str:
        broker_id = self._alive()
        if broker_id is None:
            return ""
        seconds = self._random.choice((1.0, 2.5, 4.0, 8.0))
        self._world.pause(broker_id, seconds)
        return f"pause {broker_id} for {seconds} s"

    def _pause_then_kill(self) -> str:
        broker_id = self._alive()
        if broker_id is None:
            return ""
        self._world.pause(broker_id, 5.0)
        self._world.kernel.after(4.9, self._world.kill, broker_id)
        self._back(broker_id, 5.0, 8.0)
        return f"pause {broker_id}, then kill it"

    def _stop_cleanly(self) -> str:
        broker_id = self._alive()
        if broker_id is None:
            return ""
        self._world.processes[broker_id].wants_stop = True
        return f"stop {broker_id} cleanly"

    # ------------------------------------------------------------------ network

    def _later_heal(self) -> None:
        self._world.kernel.after(self._random.uniform(0.5, 8.0), self._heal)

    def _isolate(self) -> str:
        """One broker from the others, from the controllers, or from everybody."""
        world = self._world
        broker_id = self._random.choice(sorted(world.disks))
        others = set(world.disks) - {broker_id}
        controllers = set(NODES)
        targets = self._random.choice((others, controllers, others | controllers))
        world.network.block({broker_id}, targets)
        self._later_heal()
        return f"cut {broker_id} off {sorted(targets)}"

    def _cut_one_way(self) -> str:
        world = self._world
        source, target = self._random.sample([*sorted(world.disks), NODES[0]], 2)
        world.network.block({source}, {target}, both_ways=False)
        self._later_heal()
        return f"cut {source} to {target}"

    def _lossy(self) -> str:
        self._world.network.loss = self._random.choice((0.02, 0.1, 0.3))
        self._later_heal()
        return f"loss {self._world.network.loss}"

    def _stalls(self) -> str:
        self._world.network.stalls = self._random.choice((0.01, 0.05))
        self._later_heal()
        return f"stalls {self._world.network.stalls}"

    # ------------------------------------------------------------------ the rest

    def _slow_disk(self) -> str:
        broker_id = self._random.choice(sorted(self._world.disks))
        self._world.slow_disks[broker_id] = self._random.choice((0.05, 0.5, 2.0))
        self._world.kernel.after(self._random.uniform(1.0, 8.0), self._world.speed_up, broker_id)
        return f"slow disk of {broker_id}"

    def _crash_controller(self) -> str:
        self._world.controllers.crash()
        return "crash the controller"

    def _cut_controller(self) -> str:
        self._world.controllers.cut_off()
        return "cut the controller off its quorum"

    def _minimum(self) -> str:
        world = self._world
        topics = sorted(topic.name for topic in world.controllers.image.topics.values())
        if not topics:
            return ""
        name, minimum = self._random.choice(topics), self._random.choice((1, 2, 3))

        def decide(controller: Controller) -> Decision[IncrementalAlterConfigsResponse]:
            return controller.incremental_alter_configs(set_topic(name, "min.insync.replicas", str(minimum)))

        return f"min.insync.replicas {minimum} of {name}" if world.controllers.command(decide) else ""


def set_topic(name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    """The request that sets one setting of a topic."""
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])
