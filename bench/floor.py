"""The machine's floor for a produced megabyte: receive it, take its CRC, write it, and nothing else.

Run as a program of its own (`python -m bench.floor MEGABYTES FILE [ahead]`), so that its CPU time is that work alone.
The system calls and the CRC are the broker's: `recv_into` a buffer of 1 MiB until a batch is whole, CRC-32C over a
memoryview, `pwrite` to a growing file. With `ahead` blocks are made ready behind the file's end before it grows, as
hightide does it; without, the floor is what any broker does. The sender is a forked child.
"""

import json
import os
import socket
import sys
import time

from hightide.limits import MIB
from hightide.runtime.files import OsFiles
from hightide.runtime.pacing import send_unpaced
from hightide.storage.files import File
from hightide.wire.checksum import crc32c

WARMUP_MB = 16
ROOM_MIB = 16


def main(megabytes: int, path: str, room_mib: int) -> None:
    """Measure and print one JSON object."""
    batches = -(-megabytes * 1_000_000 // MIB)
    warmup = -(-WARMUP_MB * 1_000_000 // MIB)
    listener = socket.create_server(("127.0.0.1", 0))
    sender = os.fork()
    if sender == 0:
        _send(listener.getsockname()[1], warmup + batches)
        os._exit(0)
    connection, _ = listener.accept()
    file = OsFiles().open(path, create=True)
    try:
        _receive(connection, file, 0, warmup, room_mib)
        cpu, started = time.process_time(), time.monotonic()
        _receive(connection, file, warmup, batches, room_mib)
        cpu, seconds = time.process_time() - cpu, time.monotonic() - started
    finally:
        file.close()
        os.unlink(path)
    os.waitpid(sender, 0)
    print(json.dumps({"seconds": seconds, "bytes": batches * MIB, "cpu_seconds": cpu}))


def _receive(connection: socket.socket, file: File, first: int, count: int, room_mib: int) -> None:
    view = memoryview(bytearray(MIB))
    for number in range(first, first + count):
        filled = 0
        while filled < MIB:
            got = connection.recv_into(view[filled:])
            if not got:
                raise ConnectionResetError("the sender is gone")
            filled += got
        crc32c(view)
        if room_mib and number % room_mib == 0:
            file.make_room(number * MIB, room_mib * MIB)
        file.write_at(view, number * MIB)


def _send(port: int, count: int) -> None:
    batch = memoryview(bytes(range(256)) * (MIB // 256))
    with socket.socket() as connection:
        send_unpaced(connection)
        connection.connect(("127.0.0.1", port))
        for _ in range(count):
            connection.sendall(batch)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], ROOM_MIB if sys.argv[3:] == ["ahead"] else 0)
