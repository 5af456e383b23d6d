"""While a simulation runs, the real world raises: clocks, sockets, files, threads, randomness.

The layers already forbid the node to import them; this catches what slips through a library or the standard library.
Imports still work, because modules are loaded when first needed. Not for two threads at once.
"""

import builtins
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_FORBIDDEN: tuple[tuple[Any, str], ...] = (
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep")),
    *((os, name) for name in ("open", "urandom", "fsync", "getrandom")),
    *((random, name) for name in ("random", "randrange", "randint", "choice", "shuffle", "randbytes", "uniform")),
    (socket, "socket"),
    (threading.Thread, "start"),
    (builtins, "open"),
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


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise RealWorldError(f"simulated code called {name}")

    return refuse


@contextmanager
def guarded(handler: logging.Handler) -> Iterator[None]:
    """The real world raises, and what hightide logs goes to this handler only."""
    logger = logging.getLogger("hightide")
    level, propagates, handlers = logger.level, logger.propagate, logger.handlers
    factory = logging.getLogRecordFactory()
    kept = [(owner, name, getattr(owner, name)) for owner, name in _FORBIDDEN]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [handler]
    logging.setLogRecordFactory(_LogRecord)
    for owner, name, _ in kept:
        setattr(owner, name, _refusal(f"{getattr(owner, '__name__', owner)}.{name}"))
    try:
        yield
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)
        logging.setLogRecordFactory(factory)
        logger.setLevel(level)
        logger.propagate = propagates
        logger.handlers = handlers
