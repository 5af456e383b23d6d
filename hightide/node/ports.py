"""What a world must offer to run a node: network, clock, disk and fsync.

`runtime` implements these on sockets, files and threads, `sim` on virtual time, tests in memory. The node opens no
socket or file, starts no thread and reads no clock by itself, so the same node runs in every world.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from hightide.storage.compaction_plans import Cleaned, CompactionJob, Finished
from hightide.storage.files import Files, FileSlice, Syncable
from hightide.wire.framing import Frame

Part = bytes | bytearray | memoryview | FileSlice


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Never call it. Idempotent."""


class Clock(Protocol):
    """Time: monotonic for decisions, wall clock only for timestamps in records."""

    def now(self) -> float:
        """Monotonic seconds."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, which may jump."""

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> Timer:
        """Call back on the node's loop."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> object:
        """Call back at the end of this turn of the loop."""


class Connection(Protocol):
    """One peer. Everything is called on the node's loop."""

    peer: str

    @property
    def is_sending(self) -> bool:
        """Whether parts given to `send` have not left yet."""

    def send(self, parts: Sequence[Part]) -> None:
        """Send parts in order, buffering what the peer does not take; slices are released when sent or dropped."""

    def pause(self) -> None:
        """Read and deliver no more frames until `resume`. Idempotent."""

    def resume(self) -> None:
        """Deliver frames again, those already received first. Idempotent."""

    def close(self) -> None:
        """Drop the connection; `Receiver.closed` follows once. Idempotent."""

    def finish(self) -> None:
        """Close after everything given to `send` has left."""


class Receiver(Protocol):
    """What the node makes of a connection."""

    def frame(self, data: Frame) -> None:
        """One whole frame without its length. A view is writable and dies when the call returns."""

    def closed(self) -> None:
        """The connection is gone, for whatever reason; called exactly once."""


class Burst(Protocol):
    """What the node makes of frames that came together."""

    def begin(self) -> None:
        """Frames of several connections follow, one after the other."""

    def settle(self) -> None:
        """Be done with those so far."""

    def end(self) -> None:
        """These were all."""

    def wake(self) -> None:
        """Their answers have left: serve those who wait for what came, where nothing else is expected."""


class Listener(Protocol):
    """An open listening port."""

    host: str
    port: int

    def start(self) -> None:
        """Begin to accept."""

    def close(self) -> None:
        """Accept no more. Idempotent."""


class Network(Protocol):
    """Connections in and out."""

    def announce(self, burst: Burst) -> None:
        """Tell it of frames that came together over connections that others opened."""

    def listen(self, host: str, port: int, accept: Callable[[Connection], Receiver | None]) -> Listener:
        """Bind, so that the port is known; `Listener.start` begins to accept (None refuses a connection).

        Port 0 picks a free one. OSError when the address is taken.
        """

    async def connect(self, host: str, port: int, receiver: Callable[[Connection], Receiver]) -> Connection:
        """Connect to a peer; OSError when that fails."""


class Syncer(Protocol):
    """Runs fsync away from the loop."""

    def sync(self, files: Sequence[Syncable], done: Callable[[Exception | None], None]) -> None:
        """Sync all of them, then call `done` on the loop with the first OSError or StorageError, if any."""


class Compactor(Protocol):
    """Compacts logs away from the loop, one at a time, in a process that knows nothing but files."""

    def compact(
        self, job: CompactionJob, bytes_per_second: float, report: Callable[[Cleaned | Finished | Exception], None]
    ) -> None:
        """Begin a job. `report` is called on the loop for every group, and last with Finished or what went wrong.

        CorruptionError: stored bytes are bad. OSError: the disk refused. HelperError: anything else.
        """

    def cancel(self) -> None:
        """End the job under way, if there is one; nothing more is told of it."""


class Entropy(Protocol):
    """Random bytes, for ids."""

    def token(self, length: int) -> bytes:
        """That many random bytes."""


class World(Protocol):
    """Everything together."""

    @property
    def network(self) -> Network:
        """Connections."""

    @property
    def clock(self) -> Clock:
        """Time."""

    @property
    def files(self) -> Files:
        """Disk."""

    @property
    def syncer(self) -> Syncer:
        """fsync."""

    @property
    def compactor(self) -> Compactor:
        """Compaction."""

    @property
    def entropy(self) -> Entropy:
        """Random bytes."""
