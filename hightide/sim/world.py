"""A simulated world: several machines with a node each, clients, and the network between them, on one virtual time.

```python
world = World(seed=42)
broker = world.add_node("broker-1", {"node.id": "1", "listeners": "PLAINTEXT://broker-1:9092"})
client = world.add_client("client-1")

async def story() -> None:
    broker.start()
    await world.until(lambda: broker.is_up)
    ...

world.run(story())
world.close()
```

The story runs on a loop of its own, in virtual time (`asyncio.sleep` works); what clients do, they do on theirs:
`await client.do(coroutine)`. Everything random comes from the seed, one stream per subsystem; the same seed, calls and
code give the same `trace.digest`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, TypeVar

from hightide.client.cluster import Cluster
from hightide.client.retries import RetryPolicy
from hightide.rules import ALL_ON, Rules
from hightide.sim.clock import MachineTime, SimulatedClock
from hightide.sim.guard import guarded
from hightide.sim.loop import SimulatedLoop
from hightide.sim.network import HostNetwork, SimulatedNetwork
from hightide.sim.process import SimulatedProcess
from hightide.sim.scheduler import Scheduler
from hightide.sim.trace import Trace

T = TypeVar("T")

POLL_SECONDS = 0.01  # how often `until` looks


class SimulatedClient:
    """A host with a program that uses the client library."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.loop = world.make_loop(name, MachineTime(world.scheduler))
        self.clock = SimulatedClock(self.loop)
        self.network = HostNetwork(world.network, self.loop, name)

    def cluster(
        self, bootstrap: list[tuple[str, int]], *, retries: RetryPolicy | None = None, request_timeout: float = 30.0
    ) -> Cluster:
        """A client of the cluster at these addresses. Use it on this host's loop only."""
        return Cluster(
            self.network, self.clock, bootstrap, client_id=self.name, retries=retries, request_timeout=request_timeout
        )

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run something here."""
        return self.loop.create_task(work)

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something here and wait for it, from a story."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = self.begin(work)
        task.add_done_callback(lambda _: _wake(waiting))
        try:
            await waiting
        except asyncio.CancelledError:
            task.cancel()
            raise
        return task.result()


class World:
    """Everything that is simulated together."""

    def __init__(self, seed: int, *, rules: Rules = ALL_ON, disorder: float = 0.0, follow: bool = False) -> None:
        self.seed = seed
        self.rules = rules
        self.scheduler = Scheduler(self.stream("schedule"), disorder)
        self.trace = Trace(self.scheduler, follow=follow)
        self.processes: dict[str, SimulatedProcess] = {}
        self.clients: dict[str, SimulatedClient] = {}
        self._loops: list[SimulatedLoop] = []
        self._true_time = MachineTime(self.scheduler)
        self._driver = self.make_loop("story", self._true_time)
        self.network = SimulatedNetwork(self.make_loop("network", self._true_time), self.stream("network"), self.trace)

    def stream(self, name: str) -> Random:
        """The random numbers of one subsystem."""
        return Random(f"{self.seed}:{name}")

    @property
    def now(self) -> float:
        """True time."""
        return self.scheduler.now

    # ------------------------------------------------------------------ who is in it

    def add_node(self, name: str, settings: Mapping[str, str]) -> SimulatedProcess:
        """A machine of that name, with a node that is not started yet. Its listeners have the same name as host."""
        process = self.processes[name] = SimulatedProcess(self, name, {"log.dirs": "/data"} | dict(settings))
        return process

    def add_client(self, name: str) -> SimulatedClient:
        """A host for client programs."""
        client = self.clients[name] = SimulatedClient(self, name)
        return client

    def make_loop(self, name: str, machine_time: MachineTime) -> SimulatedLoop:
        """The event loop of another process."""
        # At run time AbstractEventLoop has no abstract methods; those we leave out raise, and shall.
        loop = SimulatedLoop(self.scheduler, name, machine_time)  # type: ignore[abstract]
        loop.on_exception = lambda context: self.unexpected(name, context["message"], context.get("exception"))
        self._loops = [each for each in self._loops if not each.is_dead]
        self._loops.append(loop)
        return loop

    # ------------------------------------------------------------------ running

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Let a story happen, and everything else meanwhile; its result."""
        with guarded(_LogHandler(self)):
            result: T = self._driver.run_until_complete(story)
            return result

    async def until(self, condition: Callable[[], bool], timeout: float = 60.0) -> bool:
        """Wait until something is so; whether it was within the time."""
        deadline = self.now + timeout
        while not condition():
            if self.now >= deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def close(self) -> None:
        """The end: nothing runs any more, and nothing is left for the garbage collector to finish."""
        for loop in self._loops:
            if not loop.is_dead:
                loop.die(_nothing)

    def unexpected(self, name: str, what: str, error: BaseException | None) -> None:
        """An exception that nobody expected (K20)."""
        detail = f": {type(error).__name__}: {error}" if error is not None else ""
        self.trace.report("K20", f"{name}: {what}{detail}{_place(error)}")


class _LogHandler(logging.Handler):
    """What nodes log goes to the timeline; what they log with a traceback is a problem (K20)."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        loop = self._world.scheduler.current
        if loop is None or loop.is_dead:
            return
        trace = self._world.trace
        if record.exc_info and record.exc_info[1] is not None:
            self._world.unexpected(loop.name, record.getMessage(), record.exc_info[1])
        elif record.levelno >= logging.WARNING:
            trace.say(loop.name, record.getMessage())


def _place(error: BaseException | None) -> str:
    """Where an exception came from, the innermost frame."""
    traceback = None if error is None else error.__traceback__
    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return f" ({code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno} in {code.co_name})"


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _nothing() -> None:
    """Nothing follows."""
