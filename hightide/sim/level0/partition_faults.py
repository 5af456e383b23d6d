"""Trouble, by chance: what RELIABILITY.md's list of faults means to partitions.

One fault at a time or several that overlap; a quarter of the periods has none. `budget` keeps faults within what the
topic's durability promises: with `replicated`, fewer machines than min.insync.replicas lose power at once.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from hightide.metadata.controller import Controller
from hightide.metadata.decision import Decision
from hightide.sim.level0.network import Hold
from hightide.sim.level0.partition_clients import SimulatedProducer
from hightide.sim.level0.partition_controllers import NODES
from hightide.sim.level0.partition_disk import MachineClock
from hightide.sim.level0.partition_messages import KINDS, matcher
from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from hightide.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from hightide.sim.level0.partitions import PartitionWorld

NOTED_FAULT = 3
SECOND_TOPIC = "u"


class Faults:
    """Makes trouble until it is told to stop."""

    def __init__(self, world: "PartitionWorld") -> None:
        self._world = world
        self._random = world.kernel.stream("faults")
        self._is_over = False
        self.producers: list[SimulatedProducer] = []
        """Those of topics that came by trouble."""
        self.struck: Counter[str] = Counter()
        """Faults that took effect, by kind."""
        self._kinds: list[Callable[[], str]] = [
            self._kill, self._kill, self._lose_power, self._lose_power, self._pause, self._isolate, self._isolate,
            self._cut_one_way, self._lossy, self._stalls, self._slow_disk, self._fast_restart, self._crash_controller,
            self._cut_controller, self._stop_cleanly, self._pause_then_kill, self._double_crash, self._minimum,
            self._kill_leader, self._kill_leader, self._wipe, self._stale_disk, self._short_log, self._hold, self._hold,
            self._recreate,
        ]  # fmt: skip
        if self._is_indestructible():
            self._kinds.append(self._lose_all_power)
        if world.options.loses_at_will:
            self._kinds.append(self._switch)
        if not world.options.lease_strict:
            self._kinds.append(self._freeze_clock)  # R16: no lease holds then, only epochs do

    def begin(self) -> None:
        """From now on, every few seconds."""
        self._world.kernel.after(self._world.options.fault_period_seconds * self._random.random(), self._period)

    def _period(self) -> None:
        if self._is_over:
            return
        if self._random.random() > 0.25 and not self._is_delicate():
            strike = self._random.choice(self._kinds)
            told = strike()
            if told:
                self.struck[strike.__name__.removeprefix("_")] += 1
                self._world.noted(NOTED_FAULT, self.struck.total())
                if self._world.trace.keeps_lines:
                    self._world.say(f"FAULT {told}")
        self._world.kernel.after(self._world.options.fault_period_seconds * (0.3 + self._random.random()), self._period)

    def _is_delicate(self) -> bool:
        """A loss is survived while the others are well, so they stay well until it is known: of a disk always, of what
        was not synced where records are acknowledged from the memory of a single broker."""
        world = self._world
        if any(disk.lost_synced for disk in world.disks.values()):
            return True
        return bool(world.doubted) and not self._is_indestructible() and self._minimum_now() < 2

    def _is_indestructible(self) -> bool:
        """Whether power losses are harmless, or allowed to do harm."""
        return self._world.options.durability == "fsync" or self._world.options.loses_at_will

    def _minimum_now(self) -> int:
        image = self._world.controllers.image
        return min(self._world.topic_settings(image, topic.name)[0] for topic in image.topics.values())

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
        for hold in list(self._world.network.holds):
            self._world.network.release(hold)
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
        return self._is_indestructible() or self._all_well_without(broker_id)

    def _all_well_without(self, broker_id: int) -> bool:
        """Whether a whole disk can go: everybody else lives, hears everybody and is in sync."""
        world = self._world
        network, controllers = world.network, world.controllers
        others = set(world.disks) - {broker_id}
        now = world.kernel.now
        if network.blocked or network.loss or network.stalls or world.slow_disks or world.doubted:
            return False
        if controllers.active is None or any(
            process.paused_until > now or process.wants_stop for process in world.processes.values()
        ):
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
        self._world.go_back(broker_id, self._random, whole_disk=True)
        self._back(broker_id, 0.1, 6.0)
        return f"{broker_id} returns with an old copy of its disk"

    def _short_log(self) -> str:
        """Records that were synced are gone, and nothing else."""
        broker_id = self._alive()
        if broker_id is None or not self._all_well_without(broker_id):
            return ""
        self._world.go_back(broker_id, self._random, whole_disk=False)
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

    def _hold(self) -> str:
        """One kind of message between some and some others waits, while the rest goes on."""
        world = self._world
        kind = self._random.choice(KINDS)
        broker_id = self._random.choice(sorted(world.disks))
        others = set(world.disks) - {broker_id} if kind in ("fetch", "answer") else set(NODES)
        is_reply = kind in ("answer", "altered", "beaten", "registered", "metadata")
        sources, targets = (others, {broker_id}) if is_reply else ({broker_id}, others)
        hold = Hold(matcher(kind, sources, targets))
        world.network.holds.append(hold)
        self._world.kernel.after(self._random.uniform(0.5, 6.0), self._release, hold, self._random.random() < 0.8)
        return f"hold {kind} messages {'to' if is_reply else 'of'} {broker_id}"

    def _release(self, hold: Hold, deliver: bool) -> None:
        if hold in self._world.network.holds:
            self._world.network.release(hold, deliver=deliver)

    # ------------------------------------------------------------------ the rest

    def _freeze_clock(self) -> str:
        world = self._world
        broker_id = self._random.choice(sorted(world.disks))
        clock = world.disks[broker_id].clock
        clock.freeze(world.kernel.now)
        world.kernel.after(self._random.uniform(0.5, 8.0), self._thaw, clock)
        return f"the clock of {broker_id} stands still"

    def _thaw(self, clock: MachineClock) -> None:
        clock.thaw(self._world.kernel.now)

    def _recreate(self) -> str:
        """A second topic comes and goes, always by the same name (R22)."""
        world = self._world
        topic = world.controllers.image.topic_named(SECOND_TOPIC)
        if topic is not None:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=SECOND_TOPIC)])
            is_taken = world.controllers.command(lambda controller: controller.delete_topics(request, 6))
            return "delete a topic" if is_taken else ""
        world.create_topic(SECOND_TOPIC, partitions=1)
        world.kernel.after(1.0, self._use_second_topic)
        return "create a topic"

    def _use_second_topic(self) -> None:
        topic = self._world.controllers.image.topic_named(SECOND_TOPIC)
        if topic is not None:
            self.producers.append(self._world.add_producer((topic.topic_id, 0), pause=0.3))

    def _switch(self) -> str:
        """R23: what the topic promises changes while it is used."""
        durability = self._random.choice(("fsync", "replicated"))

        def decide(controller: Controller) -> Decision[IncrementalAlterConfigsResponse]:
            return controller.incremental_alter_configs(set_topic("t", "hightide.durability", durability))

        return f"durability {durability}" if self._world.controllers.command(decide) else ""

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
        if minimum == 1 and world.doubted and not self._is_indestructible():
            return ""

        def decide(controller: Controller) -> Decision[IncrementalAlterConfigsResponse]:
            return controller.incremental_alter_configs(set_topic(name, "min.insync.replicas", str(minimum)))

        return f"min.insync.replicas {minimum} of {name}" if world.controllers.command(decide) else ""


def set_topic(name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    """The request that sets one setting of a topic."""
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])
