"""A cluster for callers that wait: Spark calls readers and writers from plain threads, our client lives on a loop.

The loop has a thread of its own, so that the next answer travels while the last one is being decoded.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from hightide.client.cluster import Cluster, parse_bootstrap
from hightide.client.retries import RetryPolicy
from hightide.runtime.clock import LoopClock
from hightide.runtime.network import SocketNetwork

T = TypeVar("T")


class ClientSettings(NamedTuple):
    """What a client of a cluster needs to know; picklable, since executors get it from the driver."""

    bootstrap: str
    client_id: str = "hightide-spark"
    request_timeout: float = 30.0
    give_up_after: float = 60.0


class BlockingCluster:
    """`with BlockingCluster(settings) as cluster: cluster.run(work)`."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._addresses = parse_bootstrap(settings.bootstrap)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hightide-client", daemon=True)
        self._thread.start()
        self._cluster = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    async def _open(self) -> Cluster:
        settings = self._settings
        return Cluster(
            SocketNetwork(self._loop), LoopClock(self._loop), self._addresses, client_id=settings.client_id,
            retries=RetryPolicy(give_up_after=settings.give_up_after), request_timeout=settings.request_timeout,
        )  # fmt: skip

    def start(self, work: "Callable[[Cluster], Awaitable[T]]") -> "Future[T]":
        """Begin some work with the cluster; the future tells how it ended."""

        async def call() -> T:
            return await work(self._cluster)

        return asyncio.run_coroutine_threadsafe(call(), self._loop)

    def run(self, work: "Callable[[Cluster], Awaitable[T]]") -> T:
        """Do some work with the cluster and wait for it."""
        return self.start(work).result()

    def close(self) -> None:
        """Drop all connections and end the thread. Idempotent."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
