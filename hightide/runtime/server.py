"""`hightide server`: one node in this process, until a signal ends it.

SIGTERM and SIGINT stop it cleanly: no new requests, answers to those in flight, everything synced, the clean mark set.
A second signal ends it at once, which loses nothing acknowledged either.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from hightide.errors import StorageError
from hightide.interpreted import changed_since_compiled, is_compiled
from hightide.node.node import Node, StartError
from hightide.runtime.directory_lock import lock_directory
from hightide.runtime.world import RealWorld
from hightide.wire import checksum

if TYPE_CHECKING:
    from hightide.node.config import Settings

log = logging.getLogger("hightide.server")

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def run_server(settings: "Settings") -> int:
    """Run a node to its end; the exit code: 0 after a clean stop, 1 when it could not start or lost its disk."""
    level = os.environ.get("HIGHTIDE_LOG_LEVEL", "INFO").upper()
    if level not in LOG_LEVELS:
        print(f"hightide: HIGHTIDE_LOG_LEVEL={level} is none of {', '.join(LOG_LEVELS)}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    _raise_descriptor_limit()
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_serve(settings, loop))
    except (StartError, StorageError) as error:
        print(f"hightide: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"hightide: {error.strerror}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        return 1
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()


async def _serve(settings: "Settings", loop: asyncio.AbstractEventLoop) -> int:
    lock = lock_directory(settings.log_directory)
    world = RealWorld(loop, settings.socket_request_max_bytes, settings.source_host)
    node = Node(world, settings)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, loop, number, stopping)
    await node.start()
    _settle_memory()
    log.info("the way of a record runs %s", "compiled" if is_compiled() else "interpreted: small requests take longer")
    log.info("files are synced by %s", world.syncer.means)
    log.info("checksums are computed by %s", checksum.SOURCE)
    changed = changed_since_compiled()
    if changed:
        log.warning("%s changed since compiled: what runs is not what the source says", ", ".join(changed))
    for listener in node.listeners:
        log.info("node %d listens on %s:%d", settings.node_id, listener.host, listener.port)
    print(f"hightide node {settings.node_id} is ready on {node.advertised_address}", flush=True)
    failed = asyncio.ensure_future(node.failed.wait())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
    for task in (failed, stopped):
        task.cancel()
    if node.failed.is_set():
        return 1
    await node.stop()
    world.compactor.close()
    world.syncer.close()
    lock.close()
    return 0


def _on_signal(loop: asyncio.AbstractEventLoop, number: signal.Signals, stopping: asyncio.Event) -> None:
    log.info("%s: stopping", number.name)
    stopping.set()
    loop.remove_signal_handler(number)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: 7-22 % more requests (docs/decisions/0005)."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _raise_descriptor_limit() -> None:
    """Every segment and connection is a descriptor: take all that the system gives."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _settle_memory() -> None:
    """What start-up made stays: keep the collector from walking it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
