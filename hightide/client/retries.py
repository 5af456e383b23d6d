"""Trying again: with growing pauses, until a deadline, and only what a retry can mend."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from hightide.client.ports import Clock
from hightide.errors import ApiError

T = TypeVar("T")


class RetryPolicy(NamedTuple):
    """How long to go on, and how fast."""

    first_pause: float = 0.05
    longest_pause: float = 1.0
    give_up_after: float = 30.0

    def pause(self, failures: int) -> float:
        """Seconds to wait after that many failures (1 and up): doubling, bounded."""
        return float(min(self.longest_pause, self.first_pause * 2 ** min(failures - 1, 30)))


async def sleep(clock: Clock, seconds: float) -> None:
    """`asyncio.sleep` on the clock that was handed in."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(seconds, _wake, waiting)
    try:
        await waiting
    finally:
        timer.cancel()


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


async def retry(
    clock: Clock, policy: RetryPolicy, attempt: Callable[[], Awaitable[T]], failed: Callable[[ApiError], None]
) -> T:
    """The first success; the last error when it can't be mended by a retry or the next try would come too late.

    `failed` hears of every error first: that is where the caller's metadata goes stale (C26).
    """
    deadline = clock.now() + policy.give_up_after
    failures = 0
    while True:
        try:
            return await attempt()
        except ApiError as error:
            failed(error)
            failures += 1
            pause = policy.pause(failures)
            if not error.retriable or clock.now() + pause > deadline:
                raise
        await sleep(clock, pause)
