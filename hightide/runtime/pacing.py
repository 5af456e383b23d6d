"""What is sent to another process of this machine is sent at once.

Some systems spread what they send over time (BBR): each piece waits for a timer. That is right for a network, and costs
throughput and CPU between processes that share a memory (docs/decisions/0012). Nothing can be congested there, so their
sockets use the one algorithm that every Linux has and lets everybody choose. It has to be chosen before there is a
connection: one that paces leaves its timers on when another takes its place.
"""

import socket
from typing import Final

_OPTION: Final[int | None] = getattr(socket, "TCP_CONGESTION", None)
_NAME_BYTES_MAX: Final = 16
_UNPACED: Final = b"reno"


def send_unpaced(sock: socket.socket) -> bytes:
    """Of a socket that is about to listen or to connect. Returns what it would have had, b"" where nobody may choose.

    What a listening socket has is inherited by those it accepts.
    """
    if _OPTION is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return b""
    try:
        usual = sock.getsockopt(socket.IPPROTO_TCP, _OPTION, _NAME_BYTES_MAX).rstrip(b"\0")
        sock.setsockopt(socket.IPPROTO_TCP, _OPTION, _UNPACED)
    except OSError:
        return b""
    return usual


def send_as_usual(sock: socket.socket, usual: bytes) -> None:
    """Of an accepted one whose peer is elsewhere: what `send_unpaced` found, again."""
    if _OPTION is not None and usual and usual != _UNPACED:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, _OPTION, usual)
        except OSError:  # it is gone already, or this process may not choose that one
            pass


def is_on_this_machine(sock: socket.socket) -> bool:
    """Whether the peer of an accepted socket is a process beside us."""
    try:
        peer: str = sock.getpeername()[0]
        return is_loopback(peer) or peer == sock.getsockname()[0]
    except OSError:  # gone already
        return True


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    return host.startswith("127.") or host == "::1"
