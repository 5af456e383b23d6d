"""A command's visit to a cluster: an event loop, real sockets, one client, and errors as sentences."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from hightide.cli.failures import CommandError, ExitCode, failure_of, unknown_topic
from hightide.client.cluster import Cluster, parse_bootstrap
from hightide.client.metadata import Topic
from hightide.client.retries import RetryPolicy
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.runtime.clock import LoopClock
from hightide.runtime.network import SocketNetwork

T = TypeVar("T")


def visit(bootstrap: str, timeout: float, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Do some work with a cluster and leave; whatever goes wrong becomes a CommandError."""
    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    try:
        return asyncio.run(_visit(addresses, timeout, work))
    except ApiError as error:
        raise failure_of(error) from None
    except ProtocolError as error:
        raise CommandError(f"{error}; is this the port of a Kafka broker?") from None
    except KeyboardInterrupt:
        raise CommandError("interrupted", ExitCode.INTERRUPTED) from None


async def _visit(addresses: Sequence[tuple[str, int]], timeout: float, work: Callable[[Cluster], Awaitable[T]]) -> T:
    loop = asyncio.get_running_loop()
    retries = RetryPolicy(give_up_after=timeout)
    cluster = Cluster(
        SocketNetwork(loop), LoopClock(loop), addresses, client_id="hightide-cli", retries=retries,
        request_timeout=timeout,
    )  # fmt: skip
    try:
        return await work(cluster)
    finally:
        cluster.close()


async def existing_topic(cluster: Cluster, name: str) -> Topic:
    """A topic, or a CommandError that names the nearest one."""
    try:
        return await cluster.topic(name)
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        everything = await cluster.all_topics()
        raise unknown_topic(name, sorted(everything.topics)) from None
