"""A node in this process, in a thread with an event loop of its own.

Ending its thread in the middle of whatever it does is its kill -9: no callback runs any more, connections are reset,
files are closed as they are, and the clean mark is missing. Holding the thread is its SIGSTOP. The loop is asyncio's
own, which, unlike uvloop, can be left at once.
"""

import asyncio
import logging
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

from hightide.errors import ApiError, StorageError
from hightide.node.config import Settings
from hightide.node.node import Node, StartError
from hightide.runtime.directory_lock import lock_directory
from hightide.testing.clock import BrokersClock
from hightide.testing.errors import ClusterError
from hightide.testing.node_logs import NODE_LOGS
from hightide.testing.node_world import Disk, NodeWorld

log = logging.getLogger("hightide.server")

RESERVE_BYTES = 1 << 20  # small: a test's disk is full when the test says so
JOIN_SECONDS = 30.0


class _KilledError(SystemExit):
    """Leaves an event loop at once, from within any callback."""


class ThreadNode:
    """`nodes.Machine` in a thread."""

    pid = None

    def __init__(self, node_id: int, settings: Settings, log_file: Path, time: BrokersClock) -> None:
        self.node_id = node_id
        self.disk = Disk()
        self._settings = settings
        self._log_file = log_file
        self._time = time
        self._life: _Life | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was launched and has not ended."""
        return self._life is not None and self._life.thread.is_alive()

    @property
    def is_paused(self) -> bool:
        """Whether its thread is held."""
        return self.is_running and self._life is not None and self._life.is_frozen

    def launch(self) -> None:
        """Begin a life; `await_ready` waits for it."""
        self._life = _Life(self.node_id, self._settings, self._log_file, self._time, self.disk)
        self._life.thread.start()

    def await_ready(self, timeout: float) -> None:
        """Return when it serves clients; ClusterError when it does not."""
        try:
            self._living.ready.result(timeout)
        except FutureTimeoutError:
            raise ClusterError(f"node {self.node_id} is not ready after {timeout:g} s") from None
        except ClusterError:
            self._living.thread.join(JOIN_SECONDS)  # it is on its way out
            raise

    def begin_stop(self) -> None:
        """SIGTERM."""
        self._living.stop()

    def await_end(self, timeout: float) -> bool:
        """Whether it ended in time."""
        self._living.thread.join(timeout)
        return not self._living.thread.is_alive()

    def kill(self) -> None:
        """kill -9."""
        self._living.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self._living.freeze()

    def resume(self) -> None:
        """SIGCONT."""
        self._living.thaw()

    @property
    def _living(self) -> "_Life":
        assert self._life is not None
        return self._life


class _Life:
    """From a start to an end."""

    def __init__(self, node_id: int, settings: Settings, log_file: Path, time: BrokersClock, disk: Disk) -> None:
        self.ready: Future[None] = Future()
        self.is_frozen = False
        self.thread = threading.Thread(target=self._run, name=f"hightide-node-{node_id}", daemon=True)
        self._settings = settings
        self._log_file = log_file
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._world = NodeWorld(
            self._loop,
            time,
            disk,
            frame_bytes_max=settings.socket_request_max_bytes,
            source_host=settings.source_host,
        )
        self._is_killed = False
        self._frozen = threading.Event()
        self._thawed = threading.Event()

    # ------------------------------------------------------------------ in the thread

    def _run(self) -> None:
        NODE_LOGS.begin(self._log_file)
        try:
            self._loop.run_until_complete(self._live())
        except _KilledError:
            pass
        except (StartError, StorageError, ApiError, OSError) as error:
            log.critical("the node ends: %s", error)
            self._failed(error)
        except Exception as error:
            log.exception("an unexpected error ended the node")
            self._failed(error)
        finally:
            self._failed(ClusterError("it ended before it was ready"))
            self._world.end()
            self._bury()
            NODE_LOGS.end()

    async def _live(self) -> None:
        settings = self._settings
        with lock_directory(settings.log_directory):
            node = Node(self._world, settings, reserve_bytes=RESERVE_BYTES)
            await node.start()
            log.info("node %d is ready on %s", settings.node_id, node.advertised_address)
            self.ready.set_result(None)
            ends = [asyncio.ensure_future(event.wait()) for event in (node.failed, self._stopping)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            if not node.failed.is_set():
                await node.stop()

    def _failed(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(ClusterError(f"{self.thread.name} did not start: {error}"))

    def _bury(self) -> None:
        """End what was under way where it stands; the garbage collector would do it some time, in some thread."""
        asyncio._set_running_loop(self._loop)
        try:
            for task in asyncio.all_tasks(self._loop):
                _close(task)
        finally:
            asyncio._set_running_loop(None)
        self._loop.close()

    # ------------------------------------------------------------------ from outside

    def stop(self) -> None:
        self._call(self._stopping.set)

    def kill(self) -> None:
        self._is_killed = True
        self._thawed.set()
        self._call(self._die)
        self.thread.join(JOIN_SECONDS)
        if self.thread.is_alive():
            raise ClusterError(f"{self.thread.name} can't be killed")

    def freeze(self) -> None:
        self._frozen.clear()
        self._thawed.clear()
        self.is_frozen = self._world.clock.is_frozen = True
        self._call(self._hold)
        if not self._frozen.wait(JOIN_SECONDS):
            raise ClusterError(f"{self.thread.name} can't be paused")

    def thaw(self) -> None:
        self.is_frozen = self._world.clock.is_frozen = False
        self._thawed.set()

    def _hold(self) -> None:
        self._frozen.set()
        self._thawed.wait()
        if self._is_killed:
            self._die()

    def _die(self) -> None:
        raise _KilledError

    def _call(self, callback: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # it ended by itself meanwhile
            self._frozen.set()


def _close(task: "asyncio.Task[Any]") -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was, and on purpose
    coroutine = task.get_coro()
    try:
        if coroutine is not None:
            coroutine.close()
    except BaseException:
        pass  # the dying words of a dead node
