"""Syncs by the kernel: every call is answered once, after all its files, and a failed sync is never tried again."""

import asyncio
import errno
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hightide.runtime.file import OsFile
from hightide.runtime.files import OsFiles
from hightide.runtime.kernel_syncer import KernelSyncer, SyncCall, best_syncer
from hightide.runtime.syncer import ThreadSyncer
from hightide.storage.files import Syncable
from hightide.storage.syncing import DirectoryEntries

if sys.platform != "linux":
    pytest.skip("only Linux has this queue", allow_module_level=True)

import uvloop
from caio import linux_aio

from hightide.runtime.kernel_queue import KernelQueue, outcome

EIO = OSError(errno.EIO, "the disk is gone")


class ScriptedQueue:
    """A queue that takes and finishes what a test tells it to."""

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        self.taken: list[int] = []  # descriptors, in order
        self.takes: deque[int | type[BlockingIOError]] = deque()  # what the next calls of submit do; then: take all
        self.submits = 0
        self.most_under_way = 0
        self._under_way: deque[SyncCall] = deque()
        self._finished: list[tuple[SyncCall, OSError | None]] = []

    def submit(self, wanted: Sequence[tuple[int, SyncCall]]) -> int:
        self.submits += 1
        count = self.takes.popleft() if self.takes else len(wanted)
        if not isinstance(count, int):
            raise count(errno.EAGAIN, "no room")
        for descriptor, call in wanted[:count]:
            self.taken.append(descriptor)
            self._under_way.append(call)
        self.most_under_way = max(self.most_under_way, len(self._under_way))
        return min(count, len(wanted))

    def finish(self, *errors: OSError | None) -> None:
        """The oldest ones are done."""
        self._finished += [(self._under_way.popleft(), error) for error in errors]
        os.eventfd_write(self.descriptor, 1)

    def finished(self) -> list[tuple[SyncCall, OSError | None]]:
        os.eventfd_read(self.descriptor)
        finished, self._finished = self._finished, []
        return finished

    def wait(self) -> list[tuple[SyncCall, OSError | None]]:
        self.finish(None)
        return self.finished()


class Outcomes:
    """What `done` was told, and by whom."""

    def __init__(self) -> None:
        self.told: list[Exception | None] = []
        self.threads: set[int] = set()

    def done(self, error: Exception | None) -> None:
        self.told.append(error)
        self.threads.add(threading.get_ident())

    @property
    def errnos(self) -> list[int | None]:
        return [error.errno if isinstance(error, OSError) else None for error in self.told]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    loop = request.param()
    yield loop
    loop.close()


@pytest.fixture
def queue() -> Iterator[ScriptedQueue]:
    queue = ScriptedQueue()
    yield queue
    os.close(queue.descriptor)


@pytest.fixture
def by_threads(monkeypatch: pytest.MonkeyPatch) -> list[Syncable]:
    """What this test sent to the threads; brokers that other tests left running in this process sync too."""
    seen: list[Syncable] = []
    sync, own = ThreadSyncer.sync, threading.get_ident()

    def spy(self: ThreadSyncer, files: Sequence[Syncable], done: Callable[[Exception | None], None]) -> None:
        if threading.get_ident() == own:
            seen.extend(files)
        sync(self, files, done)

    monkeypatch.setattr(ThreadSyncer, "sync", spy)
    return seen


def written(directory: Path, count: int = 1) -> list[OsFile]:
    """Open files with something to sync."""
    files = []
    for number in range(count):
        path = f"{directory}/{number}"
        file = OsFile(path, os.open(path, os.O_RDWR | os.O_CREAT))
        file.write_at(b"something", 0)
        files.append(file)
    return files


def turn(loop: asyncio.AbstractEventLoop, until: Callable[[], object] = lambda: True) -> None:
    """Let the loop run until something is so, and a little longer: for what must not happen."""

    async def wait() -> None:
        async with asyncio.timeout(20):
            while not until():
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)

    loop.run_until_complete(wait())


def close(syncer: KernelSyncer, files: Sequence[OsFile]) -> None:
    syncer.close()
    for file in files:
        file.close()


# ---------------------------------------------------------------------- the kernel's own queue


@pytest.mark.parametrize("count", [1, 7, 300])
def test_files_are_synced_without_a_thread(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, by_threads: list[Syncable], count: int
) -> None:
    files, outcomes = written(tmp_path, count), Outcomes()
    syncer = KernelSyncer(loop, KernelQueue(4))
    syncer.sync(files, outcomes.done)
    assert outcomes.told == [], "never before sync returns"
    turn(loop, lambda: outcomes.told)
    assert outcomes.told == [None]
    assert outcomes.threads == {threading.get_ident()}
    assert by_threads == []
    close(syncer, files)


def test_calls_are_answered_one_by_one(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    files, outcomes = written(tmp_path, 3), [Outcomes() for _ in range(50)]
    syncer = KernelSyncer(loop, KernelQueue(2))
    for each in outcomes:
        syncer.sync(files, each.done)
    turn(loop, lambda: all(each.told for each in outcomes))
    assert [each.told for each in outcomes] == [[None]] * 50
    close(syncer, files)


def test_what_is_no_file_is_synced_by_threads(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, by_threads: list[Syncable]
) -> None:
    files, outcomes = written(tmp_path, 2), Outcomes()
    entries = DirectoryEntries(OsFiles(), str(tmp_path))
    missing = DirectoryEntries(OsFiles(), f"{tmp_path}/missing")
    syncer = KernelSyncer(loop, KernelQueue(4))
    syncer.sync([entries, *files], outcomes.done)
    turn(loop, lambda: outcomes.told)
    syncer.sync([*files, missing, entries], outcomes.done)
    turn(loop, lambda: len(outcomes.told) == 2)
    assert outcomes.errnos == [None, errno.ENOENT]
    assert by_threads == [entries, missing, entries]
    close(syncer, files)


def test_a_descriptor_that_nobody_can_sync_fails_once_and_alone(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, by_threads: list[Syncable]
) -> None:
    """The kernel refuses a pipe before it tries anything, so a thread may ask why: it hears the same."""
    files, outcomes, others = written(tmp_path, 3), Outcomes(), Outcomes()
    reading, writing = os.pipe()
    pipe = OsFile("pipe", reading)
    syncer = KernelSyncer(loop, KernelQueue(4))
    syncer.sync([files[0], pipe, files[1], files[2]], outcomes.done)
    syncer.sync(files, others.done)
    turn(loop, lambda: outcomes.told and others.told)
    assert (outcomes.errnos, others.told) == ([errno.EINVAL], [None])
    assert by_threads == [pipe]
    os.close(writing)
    close(syncer, [*files, pipe])


def test_a_closed_file_fails_once(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    files, outcomes = written(tmp_path, 3), Outcomes()
    files[0].close()
    files[2].close()
    syncer = KernelSyncer(loop, KernelQueue(4))
    syncer.sync(files, outcomes.done)
    turn(loop, lambda: outcomes.told)
    assert outcomes.errnos == [errno.EBADF]
    close(syncer, files)


def test_no_files_are_done_soon(loop: asyncio.AbstractEventLoop) -> None:
    outcomes = Outcomes()
    syncer = KernelSyncer(loop, KernelQueue(4))
    syncer.sync([], outcomes.done)
    assert outcomes.told == []
    turn(loop)
    assert outcomes.told == [None]
    syncer.close()


def test_closing_waits_for_all_that_was_asked_for(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    files, outcomes = written(tmp_path, 100), Outcomes()
    queue: KernelQueue[SyncCall] = KernelQueue(4)
    syncer = KernelSyncer(loop, queue)
    syncer.sync([*files, DirectoryEntries(OsFiles(), str(tmp_path))], outcomes.done)
    close(syncer, files)
    assert queue.finished() == [], "nothing is under way any more"
    assert outcomes.told == [], "only the loop calls done"
    turn(loop)
    assert outcomes.told == [None]
    syncer.sync(files, outcomes.done)
    turn(loop)
    assert outcomes.told == [None], "after the end nothing is synced, nor said to be"


def test_closing_after_the_loop(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    files, outcomes = written(tmp_path, 20), Outcomes()
    syncer = KernelSyncer(loop, KernelQueue(4))
    syncer.sync(files, outcomes.done)
    loop.close()
    close(syncer, files)
    assert outcomes.told == [], "nobody is left to tell"


def test_the_kernel_takes_files_up_to_the_first_that_is_none(tmp_path: Path) -> None:
    first, second = written(tmp_path, 2)
    reading, writing = os.pipe()
    queue: KernelQueue[str] = KernelQueue(4)
    assert queue.submit([(reading, "pipe"), (first.fileno(), "file")]) == 0
    assert queue.submit([(-1, "closed"), (first.fileno(), "file")]) == 0
    assert queue.submit([(first.fileno(), "a"), (reading, "pipe"), (second.fileno(), "b")]) == 1
    assert queue.wait() == [("a", None)]
    assert queue.submit([(second.fileno(), "b"), (-1, "closed")]) == 1
    assert queue.wait() == [("b", None)]
    assert queue.finished() == []
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_only_zero_is_a_success() -> None:
    assert outcome(0) is None
    for result in ((1 << 64) - errno.EIO, -errno.EIO, 1, 1 << 40, 1 << 63):
        error = outcome(result)
        assert error is not None
        assert error.errno == errno.EIO, result
    full = outcome((1 << 64) - errno.ENOSPC)
    assert full is not None
    assert full.errno == errno.ENOSPC


# ---------------------------------------------------------------------- a queue that fails


def test_a_failed_sync_is_told_once_and_never_tried_again(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, queue: ScriptedQueue, by_threads: list[Syncable]
) -> None:
    files, outcomes = written(tmp_path, 3), Outcomes()
    syncer = KernelSyncer(loop, queue)
    syncer.sync(files, outcomes.done)
    assert queue.submits == 1, "all files of a call at once"
    queue.finish(None, EIO)
    turn(loop)
    assert outcomes.told == [], "not before all are done"
    queue.finish(OSError(errno.ENOSPC, "later"))
    turn(loop, lambda: outcomes.told)
    assert outcomes.told == [EIO], "the first error"
    assert queue.taken == [file.fileno() for file in files]
    assert by_threads == []
    close(syncer, files)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EAGAIN, errno.EBADF, errno.EINTR])
def test_an_error_of_what_was_begun_is_final_whatever_it_says(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, queue: ScriptedQueue, by_threads: list[Syncable], code: int
) -> None:
    """The same numbers that mean "not begun" when they are answered at once."""
    files, outcomes = written(tmp_path), Outcomes()
    syncer = KernelSyncer(loop, queue)
    syncer.sync(files, outcomes.done)
    queue.finish(OSError(code, "failed"))
    turn(loop, lambda: outcomes.told)
    assert outcomes.errnos == [code]
    assert (len(queue.taken), by_threads) == (1, [])
    close(syncer, files)


def test_more_files_than_the_queue_holds_wait_for_their_turn(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, queue: ScriptedQueue
) -> None:
    files, outcomes, later = written(tmp_path, 10), Outcomes(), Outcomes()
    syncer = KernelSyncer(loop, queue)
    syncer.sync(files, outcomes.done)
    syncer.sync(files[:1], later.done)
    while not later.told:
        assert outcomes.told == [] or len(queue.taken) == 11
        queue.finish(None)
        turn(loop)
    assert (outcomes.told, later.told) == ([None], [None])
    assert queue.taken == [file.fileno() for file in (*files, files[0])]
    assert queue.most_under_way == queue.size
    close(syncer, files)


def test_a_queue_without_room_is_asked_again_when_something_is_done(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, queue: ScriptedQueue, by_threads: list[Syncable]
) -> None:
    files, outcomes = written(tmp_path, 3), Outcomes()
    syncer = KernelSyncer(loop, queue)
    queue.takes.extend([1, BlockingIOError])
    syncer.sync(files, outcomes.done)
    turn(loop)
    assert len(queue.taken) == 1
    queue.finish(None)
    turn(loop)
    assert len(queue.taken) == 3
    queue.finish(None, None)
    turn(loop, lambda: outcomes.told)
    assert (outcomes.told, by_threads) == ([None], [])
    close(syncer, files)


def test_a_queue_without_room_for_anything_leaves_it_to_threads(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, queue: ScriptedQueue, by_threads: list[Syncable]
) -> None:
    """Others may have taken all that the system gives: nobody would ever wake us."""
    files, outcomes = written(tmp_path, 2), Outcomes()
    syncer = KernelSyncer(loop, queue)
    queue.takes.extend([BlockingIOError, BlockingIOError])
    syncer.sync(files, outcomes.done)
    turn(loop, lambda: outcomes.told)
    assert (outcomes.told, queue.taken, by_threads) == ([None], [], files)
    close(syncer, files)


def test_closing_submits_what_waits(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, queue: ScriptedQueue, by_threads: list[Syncable]
) -> None:
    files, outcomes = written(tmp_path, 10), Outcomes()
    syncer = KernelSyncer(loop, queue)
    syncer.sync(files, outcomes.done)
    close(syncer, [])
    assert queue.taken == [file.fileno() for file in files]
    assert outcomes.told == [], "only the loop calls done"
    turn(loop)
    assert (outcomes.told, by_threads) == ([None], [])
    close(syncer, files)


# ---------------------------------------------------------------------- where there is no such queue


def _works(syncer: KernelSyncer | ThreadSyncer, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    files, outcomes = written(tmp_path, 3), Outcomes()
    syncer.sync(files, outcomes.done)
    turn(loop, lambda: outcomes.told)
    assert outcomes.told == [None]
    syncer.close()
    for file in files:
        file.close()


def test_the_kernel_is_preferred(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    syncer = best_syncer(loop)
    assert isinstance(syncer, KernelSyncer)
    assert syncer.means == "the kernel"
    _works(syncer, loop, tmp_path)


def test_without_the_library_threads_do_all(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "hightide.runtime.kernel_queue")
    monkeypatch.setattr("hightide.lone_extensions.PathFinder.find_spec", lambda *_: None)
    monkeypatch.setitem(sys.modules, "caio.linux_aio", None)
    syncer = best_syncer(loop)
    assert isinstance(syncer, ThreadSyncer)
    assert syncer.means.startswith("threads: the kernel does not do it (")
    _works(syncer, loop, tmp_path)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_gives_no_queue_threads_do_all(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refused(size: int) -> linux_aio.Context:
        raise SystemError(code, os.strerror(code))

    monkeypatch.setattr("hightide.runtime.kernel_queue.Context", refused)
    syncer = best_syncer(loop)
    assert isinstance(syncer, ThreadSyncer)
    assert os.strerror(code) in syncer.means
    _works(syncer, loop, tmp_path)


@pytest.mark.parametrize("answer", [ValueError("[EINVAL]"), None], ids=["refused", "failed"])
def test_where_the_kernel_syncs_nothing_this_way_threads_do_all(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: ValueError | None
) -> None:
    class Useless:
        fileno = 0

        def __init__(self, size: int) -> None:
            self.fileno = os.dup(0)

        def submit(self, *operations: object) -> int:
            if answer is not None:
                raise answer
            return 1

        def process_events(self, *arguments: int) -> int:
            return 0

        def __del__(self) -> None:
            os.close(self.fileno)

    monkeypatch.setattr("hightide.runtime.kernel_queue.Context", Useless)
    syncer = best_syncer(loop)
    assert isinstance(syncer, ThreadSyncer)
    _works(syncer, loop, tmp_path)
