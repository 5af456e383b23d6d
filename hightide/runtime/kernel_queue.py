"""fdatasync in the kernel's own threads: Linux AIO, by the library caio.

A descriptor goes in with `io_submit`, and an eventfd that a loop can watch tells when it is done: no thread of ours, no
lock and no wait for the interpreter. What the kernel does not take was not tried, so whoever asked may have it done
otherwise. What it took is done once, and its outcome is final (R10).
"""

import errno
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from hightide.lone_extensions import load_alone

if TYPE_CHECKING:
    from caio.linux_aio import Context, Operation
else:
    _library = load_alone("caio", "linux_aio")
    Context, Operation = _library.Context, _library.Operation

_PROBE_SECONDS = 5  # for a file in memory, which needs microseconds: longer means that nobody will answer
_SIGN_BIT = 1 << 63
_ERRNO_END = 4096  # the kernel's own bound of error numbers

T = TypeVar("T")


class KernelQueue(Generic[T]):
    """At most `size` syncs under way; each has a token, by which its outcome is told."""

    def __init__(self, size: int) -> None:
        """OSError where the kernel, or who guards it, refuses."""
        self.size = size
        self._finished: list[tuple[T, OSError | None]] = []
        try:
            self._context = Context(size)
        except SystemError as error:  # this is how the library tells an errno
            raise OSError(*error.args) from error
        self.descriptor: int = self._context.fileno
        os.set_inheritable(self.descriptor, False)
        self._probe()

    def submit(self, wanted: Sequence[tuple[int, T]]) -> int:
        """Begin to sync descriptors, in order; how many of them. 0: the first is one that the kernel does not sync.

        BlockingIOError when there is no room for the first one now.
        """
        operations = []
        for descriptor, token in wanted:
            if descriptor < 0:  # closed; the library would make a large number of it
                break
            operation = Operation.fdsync(descriptor)
            operation.set_callback(partial(self._note, token))
            operations.append(operation)
        try:
            return self._context.submit(*operations)
        except OverflowError as error:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
        except (ValueError, SystemError):  # EBADF, EINVAL and whatever else: nothing was begun
            return 0

    def finished(self) -> list[tuple[T, OSError | None]]:
        """What is done since the last call, each once, with its error if it failed."""
        try:
            self._context.poll()  # before looking: what is done later makes the eventfd readable again
        except BlockingIOError:
            pass
        self._context.process_events(self.size)
        return self._taken()

    def wait(self) -> list[tuple[T, OSError | None]]:
        """The same, when at least one is done; only while something is under way. A signal may end it with none."""
        self._process_waiting(-1)
        return self._taken()

    def _process_waiting(self, seconds: int) -> None:
        try:
            self._context.process_events(self.size, 1, seconds)
        except SystemError as error:
            if error.args[:1] != (errno.EINTR,):
                raise OSError(*error.args) from error

    def _taken(self) -> list[tuple[T, OSError | None]]:
        finished, self._finished = self._finished, []
        return finished

    def _note(self, token: T, result: int) -> None:
        # Called by the library, which swallows exceptions: this must not fail. Results come as unsigned numbers.
        self._finished.append((token, outcome(result)))

    def _probe(self) -> None:
        """Sync a file in memory: some sandboxes have the calls and not the operation."""
        descriptor = os.memfd_create("probe")
        try:
            operation = Operation.fdsync(descriptor)
            results: list[int] = []
            operation.set_callback(results.append)
            try:
                self._context.submit(operation)
            except (OverflowError, ValueError, SystemError) as error:
                raise OSError(errno.EINVAL, f"the kernel does not sync this way: {error}") from error
            self._process_waiting(_PROBE_SECONDS)
            if results != [0]:
                raise OSError(errno.EINVAL, "the kernel did not sync a file in memory")
            self.finished()  # the eventfd counts the probe too
        finally:
            os.close(descriptor)


def outcome(result: int) -> OSError | None:
    """The error that a sync's result stands for: 0 is none, and nothing else is taken for a success."""
    if result == 0:
        return None
    signed = result - (1 << 64) if result >= _SIGN_BIT else result
    code = -signed if -_ERRNO_END < signed < 0 else errno.EIO
    return OSError(code, os.strerror(code))
