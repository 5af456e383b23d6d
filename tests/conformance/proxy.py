"""A TCP proxy between a client and the broker that can swallow the answer to a produce and cut the connection.

That is the failure for which idempotent producers exist: the records are in the log, the producer does not know it and
sends them again. The proxy puts its own port into every answer that names the broker, so clients stay behind it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

PRODUCE = 0


class ProduceDroppingProxy:
    """Forwards whole frames; the answers to the produce requests numbered in `drop`, from 0, are lost with the link."""

    def __init__(self, bootstrap: str, drop: set[int]) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._target = (host, int(port))
        self._drop = drop
        self._lock = threading.Lock()
        self._links: list[socket.socket] = []
        self.produce_requests = 0
        self.dropped = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._address_told = host.encode() + struct.pack(">i", int(port))
        self._address_meant = b"127.0.0.1" + struct.pack(">i", self._listener.getsockname()[1])
        self._start(self._accept)

    def __enter__(self) -> ProduceDroppingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for link in self._links:
            _cut(link)

    def _start(self, target: object, *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._target)
                self._links += [client, broker]
                doomed: set[bytes] = set()
                self._start(self._forward_requests, client, broker, doomed)
                self._start(self._forward_answers, client, broker, doomed)

    def _forward_requests(self, client: socket.socket, broker: socket.socket, doomed: set[bytes]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _read_frame(client)) is not None:
                if struct.unpack_from(">h", frame, 4)[0] == PRODUCE:
                    with self._lock:
                        if self.produce_requests in self._drop:
                            doomed.add(frame[8:12])
                        self.produce_requests += 1
                broker.sendall(frame)
        _cut(broker)

    def _forward_answers(self, client: socket.socket, broker: socket.socket, doomed: set[bytes]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _read_frame(broker)) is not None:
                if frame[4:8] in doomed:
                    self.dropped += 1
                    break
                client.sendall(frame.replace(self._address_told, self._address_meant))
        _cut(client)
        _cut(broker)


def _read_frame(source: socket.socket) -> bytes | None:
    """A frame with its length in front, or None at the end of the stream."""
    data = bytearray()
    wanted = 4
    while len(data) < wanted:
        part = source.recv(wanted - len(data))
        if not part:
            return None
        data += part
        if wanted == 4 and len(data) == 4:
            wanted += struct.unpack(">i", data)[0]
    return bytes(data)


def _cut(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    link.close()
