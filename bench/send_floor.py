"""The machine's floor for a consumed megabyte: what the page cache has into a socket, and nothing else.

Run as a program of its own (`python -m bench.send_floor MEGABYTES FILE`), so that its CPU time is that alone: through a
pipe of a mebibyte, as a broker of ours does, or by `sendfile` where there is no `splice`. The reader is a forked child,
which asks for each mebibyte when it has taken the one before, as a client does: sent without being asked for, the same
bytes cost half as much at times, because the reader's core then does part of the work. Nothing paces them.
"""

import json
import os
import socket
import sys
import time

from hightide.limits import MIB
from hightide.runtime.file_pump import for_files
from hightide.runtime.pacing import send_unpaced

WARMUP_MB = 16
REQUEST = bytes(98)  # as long as a reader's
PUMP = for_files()


def main(megabytes: int, path: str) -> None:
    """Measure and print one JSON object."""
    pieces = -(-megabytes * 1_000_000 // MIB)
    warmup = -(-WARMUP_MB * 1_000_000 // MIB)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for number in range(pieces):
            os.pwrite(file, bytes(MIB), number * MIB)
        listener = socket.socket()
        send_unpaced(listener)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        reader = os.fork()
        if reader == 0:
            _read(listener.getsockname()[1], min(warmup, pieces) + pieces)
            os._exit(0)
        connection, _ = listener.accept()
        with connection:
            _send(connection, file, min(warmup, pieces))
            cpu, started = time.process_time(), time.monotonic()
            _send(connection, file, pieces)
            cpu, seconds = time.process_time() - cpu, time.monotonic() - started
    finally:
        os.close(file)
        os.unlink(path)
    os.waitpid(reader, 0)
    print(json.dumps({"seconds": seconds, "bytes": pieces * MIB, "cpu_seconds": cpu}))


def _send(connection: socket.socket, file: int, pieces: int) -> None:
    send = os.sendfile if PUMP is None else PUMP.send
    for number in range(pieces):
        if len(connection.recv(len(REQUEST), socket.MSG_WAITALL)) < len(REQUEST):
            raise ConnectionResetError("the reader is gone")
        position, end = number * MIB, (number + 1) * MIB
        while position < end:
            position += send(connection.fileno(), file, position, end - position)


def _read(port: int, pieces: int) -> None:
    buffer = memoryview(bytearray(MIB))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(pieces):
            connection.sendall(REQUEST)
            missing = MIB
            while missing:
                got = connection.recv_into(buffer[:missing])
                if not got:
                    raise ConnectionResetError("the sender is gone")
                missing -= got


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
