"""A machine with one process on it: starts, pauses, dies and comes back, with its disk and its clocks.

The process is the real `Node`, given a world of simulated ports. Each life has an event loop of its own; disk and
clocks stay with the machine. `kill` leaves what was written, `lose_power` what was synced and luck.
"""

from collections.abc import Mapping
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

from hightide.errors import StorageError
from hightide.node.config import Settings
from hightide.node.node import Node, StartError
from hightide.sim.clock import MachineTime, SimulatedClock
from hightide.sim.compactor import SimulatedCompactor
from hightide.sim.disk import SimulatedDisk
from hightide.sim.loop import SimulatedLoop
from hightide.sim.network import HostNetwork
from hightide.sim.syncer import DiskSpeed, SimulatedSyncer

if TYPE_CHECKING:
    from hightide.sim.world import World

RESERVE_BYTES = 64 * 1024  # a simulated disk holds its reserve in memory
BOOT_SECONDS_MAX = 1_000_000  # monotonic clocks of different boots have nothing in common


class Condition(Enum):
    """What a process does."""

    DOWN = "down"
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


class SimulatedEntropy:
    """`node.ports.Entropy` from the seed: other bytes in every life."""

    def __init__(self, random: Random) -> None:
        self.token = random.randbytes


class NodeWorld:
    """`node.ports.World` of one life."""

    def __init__(self, process: "SimulatedProcess", loop: SimulatedLoop) -> None:
        world, life = process.world, f"{process.name}:{process.lives}"
        self.files = process.disk
        self.clock = SimulatedClock(loop)
        self.network = HostNetwork(world.network, loop, process.name)
        self.syncer = SimulatedSyncer(loop, world.stream(f"sync:{life}"), process.speed)
        self.compactor = SimulatedCompactor(process.disk, self.clock, world.stream(f"compact:{life}"))
        self.entropy = SimulatedEntropy(world.stream(f"entropy:{life}"))


class SimulatedProcess:
    """One node, over all its lives. Its name is its host's."""

    def __init__(self, world: "World", name: str, settings: Mapping[str, str]) -> None:
        random = world.stream(f"machine:{name}")
        self.world = world
        self.name = name
        self.settings = Settings.load(None, {}, settings)
        self.time = MachineTime(world.scheduler, random.randrange(BOOT_SECONDS_MAX), random.randrange(-500, 500))
        self.disk = self._new_disk()
        self.speed = DiskSpeed()
        self.condition = Condition.DOWN
        self.node: Node | None = None
        """The node of this life, None while the process is down."""
        self.loop: SimulatedLoop | None = None
        self.lives = 0
        self._random = random

    @property
    def is_up(self) -> bool:
        """Whether it has started, and is not stopping or paused."""
        return self.condition is Condition.UP and not self.is_paused

    @property
    def is_paused(self) -> bool:
        """Whether it is stopped by a signal."""
        return self.loop is not None and self.loop.is_paused

    def start(self) -> None:
        """Begin another life; it takes its time. Does nothing while one is under way."""
        if self.condition is not Condition.DOWN:
            return
        world = self.world
        self.lives += 1
        self.condition = Condition.STARTING
        self.loop = world.make_loop(self.name, self.time)
        world.network.booted(self.name)
        world.trace.say(self.name, f"starts, life {self.lives}")
        self.loop.create_task(self._live(NodeWorld(self, self.loop)))

    async def _live(self, ports: NodeWorld) -> None:
        self.node = node = Node(ports, self.settings, self.world.rules, reserve_bytes=RESERVE_BYTES)
        try:
            await node.start()
        except (StartError, StorageError, OSError) as error:
            self._end(f"could not start: {error}")
            return
        except Exception as error:
            self.world.unexpected(self.name, "a start failed", error)
            self._end("crashes")
            return
        self.condition = Condition.UP
        self.world.trace.say(self.name, "is ready")
        await node.failed.wait()
        self._end("ends, its disk failed")

    def stop(self) -> None:
        """SIGTERM: stop cleanly, which takes a while. Does nothing unless it is up."""
        if self.condition is Condition.UP and self.loop is not None and self.node is not None:
            self.condition = Condition.STOPPING
            self.world.trace.say(self.name, "is asked to stop")
            self.loop.create_task(self._stop(self.node))

    async def _stop(self, node: Node) -> None:
        try:
            await node.stop()
        except (StorageError, OSError) as error:
            self._end(f"could not stop cleanly: {error}")
        except Exception as error:
            self.world.unexpected(self.name, "a stop failed", error)
            self._end("crashes")
        else:
            self._end("stopped cleanly")

    def kill(self) -> None:
        """kill -9: what was written stays, connections are closed by the kernel."""
        if self.loop is not None:
            self._end("is killed")

    def lose_power(self) -> None:
        """The machine is off, running or not: what was not synced meets its fate, nobody is told."""
        self.world.trace.say(self.name, "loses power")
        self._die(power_lost=True)

    def replace_disk(self) -> None:
        """An empty disk in a machine that is off."""
        self.lose_power()
        self.world.trace.say(self.name, "gets an empty disk")
        self.disk = self._new_disk()

    def _new_disk(self) -> SimulatedDisk:
        disk = SimulatedDisk(now_ms=self.time.wall_ms)
        disk.on_crash = self._crashed
        return disk

    def pause(self) -> None:
        """SIGSTOP."""
        if self.loop is not None and not self.loop.is_paused:
            self.world.trace.say(self.name, "is paused")
            self.loop.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.loop is not None and self.loop.is_paused:
            self.world.trace.say(self.name, "goes on")
            self.loop.resume()

    def _crashed(self) -> None:
        """A crash that was planned at some operation of the disk."""
        self._end("crashes in the middle of a write")

    def _end(self, how: str) -> None:
        self.world.trace.say(self.name, how)
        self._die(power_lost=False)

    def _die(self, *, power_lost: bool) -> None:
        loop, self.loop = self.loop, None
        self.node = None
        self.condition = Condition.DOWN
        self.world.network.process_died(self.name, power_lost=power_lost)
        if loop is None or loop.is_dead:
            self._dead(power_lost)
        else:
            self.disk.crash()
            loop.die(lambda: self._dead(power_lost))

    def _dead(self, power_lost: bool) -> None:
        if power_lost:
            self.disk.power_loss(self._random)
            self.time.reboot(self._random.randrange(BOOT_SECONDS_MAX))
        else:
            self.disk.kill()
