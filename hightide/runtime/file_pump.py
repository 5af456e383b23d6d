"""Bytes of a file into a socket, through a pipe of our own.

`sendfile` does the same with a pipe of the kernel's that has 16 pages: every 64 KiB it turns from the file to the
socket and back. Ours has a mebibyte, and what a reader is sent costs an eighth less (docs/decisions/0012). Where there
is no `splice`, or no pipe larger than the kernel's is to be had, `for_files` has none to give and `sendfile` does it.

Law: between two calls the pipe is empty. The next to be sent something is another connection, so what a socket did not
take is thrown away; the file still has it.
"""

import os
from typing import Final

try:
    from fcntl import F_SETPIPE_SZ, fcntl
    from os import SPLICE_F_MORE, SPLICE_F_NONBLOCK, splice
except ImportError:  # not Linux
    HAS_SPLICE = False
else:
    HAS_SPLICE = True

PIPE_BYTES: Final = 1 << 20  # what Linux lets everybody have
PUMPED_BYTES_MIN: Final = 128 * 1024  # two of the kernel's own pipes: less is not worth a second call


class FilePump:
    """One for all connections of a loop."""

    def __init__(self, outlet: int, inlet: int, room: int) -> None:
        self._outlet = outlet
        self._inlet = inlet
        self._room = room
        self._waste = -1

    def send(self, socket: int, file: int, position: int, length: int, *, more: bool = False) -> int:
        """How many bytes the socket took; 0 where the file ends. BlockingIOError when it takes none now.

        `more` is to be sent right after these: the last of them wait for it, and their reader is woken once for both.
        """
        sent = 0
        while sent < length:
            filled = splice(file, self._inlet, min(length - sent, self._room), offset_src=position + sent)
            if not filled:
                break
            left = self._empty_into(socket, filled, more=more or sent + filled < length)
            sent += filled - left
            if left:
                if not sent:
                    raise BlockingIOError
                break
        return sent

    def _empty_into(self, socket: int, filled: int, *, more: bool) -> int:
        """How many bytes the socket did not take; the pipe is empty however this ends."""
        left = filled
        flags = SPLICE_F_NONBLOCK | SPLICE_F_MORE if more else SPLICE_F_NONBLOCK
        try:
            while left:
                left -= splice(self._outlet, socket, left, flags=flags)
        except BlockingIOError:
            self._throw_away(left)
        except OSError:
            self._throw_away(left)
            raise
        return left

    def _throw_away(self, count: int) -> None:
        if self._waste < 0:
            self._waste = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        while count:
            count -= splice(self._outlet, self._waste, count)

    def close(self) -> None:
        """Give the descriptors back. Idempotent."""
        for descriptor in (self._outlet, self._inlet, self._waste):
            if descriptor >= 0:
                os.close(descriptor)
        self._outlet = self._inlet = self._waste = -1

    def __del__(self) -> None:
        self.close()


def for_files() -> FilePump | None:
    """A pump; None where `sendfile` has to do."""
    if not HAS_SPLICE:
        return None
    try:
        outlet, inlet = os.pipe()
    except OSError:
        return None
    try:
        room = fcntl(inlet, F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:  # this user's pipes have all the pages that they may have
        room = 0
    pump = FilePump(outlet, inlet, room)
    if room < PUMPED_BYTES_MIN:
        pump.close()
        return None
    return pump
