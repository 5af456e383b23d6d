"""Blocks for what will be appended to a file, found in one go: `fallocate` that leaves the size as it is.

Appended bytes that find their blocks themselves cost half as much again: ext4 takes 0.24 ms for a MB, and 0.16 where
blocks are ready. Python offers the call only in the form that makes files longer, which a log must not be: recovery
would have to tell records from zeros.

A call takes 12-30 us, unless the file system has to read from a busy disk which blocks are free: then it took up to 170
ms, during which a broker does nothing else. So after a slow one writes find their blocks themselves for a while.
"""

import os
import sys
import time
from collections.abc import Callable

from hightide.limits import ROOM_SHARE_OF_FREE

KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
SLOW_SECONDS = 0.002  # the disk was waited for
REST_SECONDS = 1.0  # about as long as a disk takes to write a segment

_fallocate: Callable[[int, int, int, int], int] | None = None
_rests_until = 0.0


def make_room(descriptor: int, position: int, length: int) -> None:
    """Find blocks for `length` bytes at `position`, if the system can and the disk is far from full."""
    global _rests_until
    if sys.platform != "linux":
        return
    started = time.monotonic()
    if started < _rests_until:
        return
    try:
        status = os.fstatvfs(descriptor)
    except OSError:
        return
    if length * ROOM_SHARE_OF_FREE <= status.f_bavail * status.f_frsize:
        # What it answers does not matter: a file system that can't leaves it to the writes.
        _loaded()(descriptor, KEEP_SIZE, position, length)
        ended = time.monotonic()
        if ended - started > SLOW_SECONDS:
            _rests_until = ended + REST_SECONDS


def _loaded() -> Callable[[int, int, int, int], int]:
    """The C library's function. Loaded when a log first grows, because ctypes takes milliseconds of a start."""
    global _fallocate
    if _fallocate is None:
        try:
            import ctypes

            function = ctypes.CDLL(None).fallocate
        except (ImportError, OSError, AttributeError):  # a Python without ctypes, or a C library without it
            _fallocate = _make_none
        else:
            function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
            _fallocate = function
    return _fallocate


def _make_none(descriptor: int, mode: int, position: int, length: int) -> int:  # noqa: ARG001
    return -1
