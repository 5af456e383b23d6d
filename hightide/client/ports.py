"""What a world must offer to the client: connections and time. A subset of `node.ports`, which any node's world meets.

The client stands below the node in the layers, so it states its own wishes here; `runtime` and `sim` fulfil both.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from hightide.wire.framing import Frame

Bytes = bytes | bytearray | memoryview


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Never call it. Idempotent."""


class Clock(Protocol):
    """Time: monotonic for time-outs, wall clock only for the timestamps of records."""

    def now(self) -> float:
        """Monotonic seconds."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> Timer:
        """Call back on the client's loop."""


class Transport(Protocol):
    """The sending half of a connection."""

    def send(self, parts: Sequence[Bytes]) -> None:
        """Send parts in order."""

    def close(self) -> None:
        """Drop the connection; `FrameReceiver.closed` follows once. Idempotent."""


class FrameReceiver(Protocol):
    """The receiving half of a connection."""

    def frame(self, data: Frame) -> None:
        """One whole frame without its length; a view dies when the call returns."""

    def closed(self) -> None:
        """The connection is gone; called exactly once."""


class Network(Protocol):
    """Outgoing connections."""

    async def connect(self, host: str, port: int, receiver: Callable[[Transport], FrameReceiver]) -> Transport:
        """Connect to a peer; OSError when that fails."""
