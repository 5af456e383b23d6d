"""The event loop of one simulated process: asyncio's interface on virtual time, and nothing of the real world.

Futures, tasks, locks, events, queues, `wait_for` and `timeout` work as they are. Sockets, threads, signals,
subprocesses and name resolution raise, because `AbstractEventLoop` does. One loop per process is what makes a process a
thing: it can be paused, its callbacks held, and killed, its tasks closed where they stand.
"""

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple
from warnings import catch_warnings

from hightide.sim.clock import MachineTime
from hightide.sim.scheduler import Scheduler

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TIMER_SECONDS_MIN = 1e-6  # a timer takes time, or a deadline missed by a rounding error would be retried for ever
TASKS_PER_SWEEP = 64
LATE_SECONDS = 1e-9  # a timer this much early is on time: floats


class SimulatedHandle(asyncio.TimerHandle):
    """A callback on its way. `deadline` is in the time of its process, None for `call_soon`."""

    __slots__ = ("deadline", "loop", "sequence")

    def __init__(  # asyncio's own is not called: it would copy a context for every callback
        self,
        loop: "SimulatedLoop",
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        deadline: float | None = None,
    ) -> None:
        self.loop = loop
        self.deadline = deadline
        scheduler = loop.scheduler
        scheduler.sequence = self.sequence = scheduler.sequence + 1
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        """Never call it."""
        self._cancelled = True
        self._callback, self._args = _nothing, ()

    def when(self) -> float:
        """Its deadline."""
        return 0.0 if self.deadline is None else self.deadline

    def is_due(self) -> bool:
        """Whether its time has come by the clock of its process; if not, it is put back."""
        time = self.loop.machine_time
        if not time.was_tampered_with or self.deadline is None or self.deadline <= time.monotonic() + LATE_SECONDS:
            return True
        self.loop.put_back(self)
        return False

    def describe(self) -> str:
        """What it calls, the same text in every run."""
        callback: Any = self._callback
        name = getattr(callback, "__qualname__", None) or type(callback).__name__
        return f"{self.loop.name}:{name}"

    def __repr__(self) -> str:
        return f"SimulatedHandle({self.describe()})"


class SimulatedLoop(asyncio.AbstractEventLoop):
    """One process's loop. `held` has the callbacks that wait for the end of a pause."""

    def __init__(self, scheduler: Scheduler, name: str, machine_time: MachineTime) -> None:
        self.scheduler = scheduler
        self.name = name
        self.machine_time = machine_time
        self.is_dead = False
        self.is_paused = False
        self.held: list[SimulatedHandle] = []
        self.on_exception: Callable[[dict[str, Any]], None] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._sweep_at = TASKS_PER_SWEEP
        self._task_count = 0

    # ------------------------------------------------------------------ asyncio's interface

    def time(self) -> float:
        """The monotonic clock of this process's machine."""
        return self.machine_time.monotonic()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> SimulatedHandle:
        handle = SimulatedHandle(self, callback, args, context)
        if not self.is_dead:
            self.scheduler.soon(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> SimulatedHandle:
        return self.call_at(self.machine_time.monotonic() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> SimulatedHandle:
        handle = SimulatedHandle(self, callback, args, context, when)
        self.put_back(handle)
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        # asyncio numbers tasks across the whole interpreter: names would differ from run to run.
        self._task_count += 1
        task: asyncio.Task[T]
        task = asyncio.Task(coro, loop=self, name=name or f"{self.name}-{self._task_count}", context=context)
        if self.is_dead:
            _close(task)
        else:
            self._remember(task)
        return task

    def _remember(self, task: "asyncio.Task[Any]") -> None:
        """asyncio refers to tasks weakly. Ours live until they are done, or closed with their process."""
        self._tasks.append(task)
        if len(self._tasks) >= self._sweep_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._sweep_at = 2 * len(self._tasks) + TASKS_PER_SWEEP

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self.is_dead

    def run_until_complete(self, future: Any) -> Any:
        """Run the whole world until this is done; the result."""
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _: self.scheduler.stop())
        self.scheduler.run()
        return task.result()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An exception that nobody caught. That of a dead process is nobody's."""
        if not self.is_dead and self.on_exception is not None:
            self.on_exception(context)

    async def shutdown_asyncgens(self) -> None:
        """Generators are closed with the tasks that iterate over them."""

    # ------------------------------------------------------------------ the process

    def after(self, seconds: float, callback: Callable[..., object], *args: Any) -> SimulatedHandle:
        """Call back after that much true time, whatever the clock of the machine shows: for hardware."""
        handle = SimulatedHandle(self, callback, args, None)
        if not self.is_dead:
            self.scheduler.at(self.scheduler.now + max(seconds, TIMER_SECONDS_MIN), handle)
        return handle

    def put_back(self, handle: SimulatedHandle) -> None:
        """Wait for a handle's deadline."""
        if not self.is_dead:
            time = self.machine_time
            delay = time.true_seconds(handle.when() - time.monotonic())
            self.scheduler.at(self.scheduler.now + max(delay, TIMER_SECONDS_MIN), handle)

    def pause(self) -> None:
        """SIGSTOP: nothing runs until `resume`; what falls due is held."""
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self.is_paused = False
        held, self.held = self.held, []
        for handle in held:
            self.scheduler.soon(handle)

    def die(self, then: Callable[[], None]) -> None:
        """Nothing of this process runs any more; its coroutines end where they stand, and `then` follows.

        At once, or after the running callback when that is the process's own.
        """
        self.is_dead = True
        self.held.clear()

        def end() -> None:
            self._close_tasks()
            then()

        if self.scheduler.current is self:
            self.scheduler.afterwards(end)
        else:
            end()

    def _close_tasks(self) -> None:
        """Now and in order; the garbage collector would do it some time in some order."""
        running = events._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            with catch_warnings(action="ignore", category=RuntimeWarning):  # of work that was handed on and never begun
                for task in self._tasks:
                    _close(task)
        finally:
            asyncio._set_running_loop(running)
        self._tasks.clear()


def _close(task: "asyncio.Task[Any]") -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was, and on purpose
    coroutine = task.get_coro()
    try:
        if coroutine is not None:
            coroutine.close()
    except BaseException:
        pass  # the dying words of a dead process


def _nothing() -> None:
    """What a cancelled callback calls."""
