"""Memory for requests that are larger than a connection's own buffer, shared by all who connect.

One client may send 100 MiB at once; a hundred of them must not take 10 GiB. So the whole size of such a request is set
aside before its first bytes beyond the ordinary buffer are received, and where nothing is left its connection waits, in
the kernel's buffers. Whoever has its share can finish, so nobody waits for ever; whoever has one and sends nothing
while others wait is cut off.
"""

from typing import Final, Protocol

from hightide.limits import LARGE_REQUESTS_BYTES_MAX, STALLED_REQUEST_SECONDS
from hightide.node.ports import Clock

LOOK_SECONDS: Final = 1.0


class Sender(Protocol):
    """A connection, as seen from here."""

    @property
    def progress(self) -> int:
        """Changes when something is received; negative while the connection itself wants nothing more."""

    def receive_again(self) -> None:
        """There may be room now."""

    def close(self) -> None:
        """Drop it."""


class LargeRequests:
    """Who holds how much, and who waits."""

    def __init__(self, clock: Clock, bytes_max: int = LARGE_REQUESTS_BYTES_MAX) -> None:
        self.held_bytes = 0
        self._clock = clock
        self._bytes_max = bytes_max
        self._holders: dict[Sender, tuple[int, float]] = {}
        """What each had received when it was looked at, and since when it has not received more."""
        self._waiting: dict[Sender, None] = {}
        self._is_looking = False

    def take(self, sender: Sender, count: int) -> bool:
        """Set that many bytes aside, if they are left; one request fits in any case. Else the sender waits."""
        if self._holders and self.held_bytes + count > self._bytes_max:
            self._waiting[sender] = None
            self._look_later()
            return False
        self.held_bytes += count
        self._holders[sender] = (sender.progress, self._clock.now())
        return True

    def give(self, sender: Sender, count: int) -> None:
        """The request was handled, or its connection is gone."""
        self.held_bytes -= count
        self._holders.pop(sender, None)
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            self._clock.call_soon(each.receive_again)

    def forget(self, sender: Sender) -> None:
        """Its connection is gone, and it waits no more."""
        self._waiting.pop(sender, None)

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._clock.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._is_looking = False
        now = self._clock.now()
        for sender, (before, since) in list(self._holders.items()):
            progress = sender.progress
            if progress != before or progress < 0:
                self._holders[sender] = (progress, now)
            elif now - since >= STALLED_REQUEST_SECONDS:
                sender.close()
        if self._waiting:
            self._look_later()
