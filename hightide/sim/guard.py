"""While a simulation runs, the real world raises: clocks, sockets, files, threads, randomness.

The layers already forbid the node to import them; this catches what slips through a library or the standard library.
Imports still work, because modules are loaded when first needed, and so does the real world in other threads: a test
run has clusters and clients in them. Not for two simulations at once.
"""

import builtins
import io
import logging
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_FORBIDDEN: tuple[tuple[Any, str], ...] = (
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep")),
    *((os, name) for name in ("open", "urandom", "fsync", "getrandom")),
    *((random, name) for name in ("random", "randrange", "randint", "choice", "shuffle", "randbytes", "uniform")),
    (socket.socket, "__init__"),
    (threading.Thread, "start"),
    (builtins, "open"),
    (io, "open"),
)


class RealWorldError(Exception):
    """Simulated code reached for the real world."""


class _LogRecord(logging.LogRecord):
    """A log record that asks no clock."""

    def __init__(  # logging's own reads the clock
        self,
        name: str,
        level: int,
        pathname: str,
        lineno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        *_: Any,
        **__: Any,
    ) -> None:
        self.name = name
        self.levelno = level
        self.levelname = logging.getLevelName(level)
        self.pathname = pathname
        self.lineno = lineno
        self.msg = str(msg)
        self.args = args
        self.exc_info = exc_info


def _refusal(name: str, original: Callable[..., Any], simulating: int) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> Any:
        if threading.get_ident() != simulating or _is_importing():
            return original(*args, **options)
        raise RealWorldError(f"simulated code called {name}")

    return refuse


def _is_importing() -> bool:
    """Whether a module is being loaded, which may need files, and with a test runner's hooks others too."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


@contextmanager
def guarded(handler: logging.Handler) -> Iterator[None]:
    """In this thread the real world raises, and what hightide logs goes to this handler only."""
    simulating = threading.get_ident()
    handler.addFilter(lambda _: threading.get_ident() == simulating)
    logger = logging.getLogger("hightide")
    level, propagates, handlers = logger.level, logger.propagate, logger.handlers
    factory = logging.getLogRecordFactory()
    kept = [(owner, name, getattr(owner, name)) for owner, name in _FORBIDDEN]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [handler]
    logging.setLogRecordFactory(
        lambda *args, **options: (_LogRecord if threading.get_ident() == simulating else factory)(*args, **options)
    )
    for owner, name, original in kept:
        setattr(owner, name, _refusal(f"{owner.__name__}.{name}", original, simulating))
    try:
        yield
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)
        logging.setLogRecordFactory(factory)
        logger.setLevel(level)
        logger.propagate = propagates
        logger.handlers = handlers
