"""Files into sockets through one pipe: every byte once, in order, and nothing of one connection in another."""

import asyncio
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hightide.limits import MIB
from hightide.node.ports import Part
from hightide.runtime import file_pump
from hightide.runtime.file_pump import PIPE_BYTES, PUMPED_BYTES_MIN, FilePump, for_files
from hightide.runtime.files import OsFiles
from hightide.storage.files import File, FileSlice
from tests.cluster.socket_pairs import connected, turn

pytestmark = pytest.mark.skipif(not file_pump.HAS_SPLICE, reason="this system has no splice")

CORK_SECONDS = 0.2  # so long the kernel keeps what more is to follow
CONTENT = b"".join(number.to_bytes(8) for number in range(5 * MIB // 8))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = OsFiles().open(str(tmp_path / "segment"), create=True)
    file.write_at(CONTENT, 0)
    yield file
    file.close()


@pytest.fixture
def pump() -> Iterator[FilePump]:
    pump = made()
    yield pump
    pump.close()


def made() -> FilePump:
    pump = for_files()
    assert pump is not None
    return pump


class Pair:
    """A socket to send into, and its reader."""

    def __init__(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.reader = socket.create_connection(listening.getsockname())
        self.ours, _ = listening.accept()
        listening.close()
        self.ours.setblocking(False)
        self.reader.setblocking(False)

    def read(self) -> bytes:
        """Everything that is there."""
        pieces: list[bytes] = []
        while True:
            try:
                piece = self.reader.recv(MIB)
            except BlockingIOError:
                return b"".join(pieces)
            pieces.append(piece)

    def fill(self, pump: FilePump, file: File) -> int:
        """Send until the socket takes no more."""
        sent = 0
        while True:
            try:
                sent += pump.send(self.ours.fileno(), file.fileno(), sent, len(CONTENT) - sent)
            except BlockingIOError:
                return sent
            assert sent < len(CONTENT), "the socket takes everything: the file has to be larger"

    def close(self) -> None:
        self.ours.close()
        self.reader.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


@pytest.fixture
def small_pair(pair: Pair) -> Pair:
    """One that takes less than the pipe has."""
    pair.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
    pair.reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    return pair


@pytest.mark.parametrize("length", [1, 4096, PIPE_BYTES - 1, PIPE_BYTES, PIPE_BYTES + 1, 3 * PIPE_BYTES + 77])
@pytest.mark.parametrize("position", [0, 4095])
def test_every_byte_arrives_in_order(pump: FilePump, pair: Pair, file: File, position: int, length: int) -> None:
    sent, received = 0, b""
    while sent < length:
        try:
            sent += pump.send(pair.ours.fileno(), file.fileno(), position + sent, length - sent)
        except BlockingIOError:
            pass
        received += pair.read()
    while len(received) < length:
        received += pair.read()
    assert received == CONTENT[position : position + length]


def test_what_a_socket_does_not_take_is_in_nobody_elses_way(pump: FilePump, small_pair: Pair, file: File) -> None:
    sent = small_pair.fill(pump, file)
    assert 0 < sent < PIPE_BYTES
    other = Pair()
    assert pump.send(other.ours.fileno(), file.fileno(), MIB, 100) == 100
    assert other.read() == CONTENT[MIB : MIB + 100]
    other.close()
    received = small_pair.read()
    while sent < 2 * MIB:
        try:
            sent += pump.send(small_pair.ours.fileno(), file.fileno(), sent, 2 * MIB - sent)
        except BlockingIOError:
            pass
        received += small_pair.read()
    while len(received) < 2 * MIB:
        received += small_pair.read()
    assert received == CONTENT[: 2 * MIB]


def test_a_peer_that_is_gone_leaves_nothing_in_the_pipe(pump: FilePump, pair: Pair, file: File) -> None:
    pair.ours.shutdown(socket.SHUT_WR)
    with pytest.raises(BrokenPipeError):
        pump.send(pair.ours.fileno(), file.fileno(), 0, MIB)
    other = Pair()
    assert pump.send(other.ours.fileno(), file.fileno(), MIB, 100) == 100
    assert other.read() == CONTENT[MIB : MIB + 100]
    other.close()


def test_a_file_that_ends_is_said_to(pump: FilePump, pair: Pair, file: File) -> None:
    assert pump.send(pair.ours.fileno(), file.fileno(), len(CONTENT) - 100, 1000) == 100
    assert pump.send(pair.ours.fileno(), file.fileno(), len(CONTENT), 1000) == 0


def test_a_pipe_that_may_not_grow_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody whose pipes have many pages already is given two for each: `sendfile` has more."""

    def refuse(descriptor: int, command: int, argument: int) -> int:
        raise PermissionError(errno.EPERM, "too many pages")

    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(file_pump, "fcntl", refuse)
    assert for_files() is None
    assert set(os.listdir("/proc/self/fd")) == before


def test_its_descriptors_are_given_back(small_pair: Pair, file: File) -> None:
    before = set(os.listdir("/proc/self/fd"))
    pump = made()
    small_pair.fill(pump, file)
    assert len(set(os.listdir("/proc/self/fd")) - before) == 3
    del pump
    assert set(os.listdir("/proc/self/fd")) == before


def no_pipe() -> tuple[int, int]:
    raise OSError(errno.EMFILE, "too many open files")


def test_where_no_pipe_is_to_be_had_there_is_no_pump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.pipe", no_pipe)
    assert for_files() is None


def tcp_info(sock: socket.socket, offset: int) -> int:
    """One of the 32-bit numbers that the kernel keeps of a connection."""
    return int(struct.unpack_from("=I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), offset)[0])


def unsent(sock: socket.socket) -> int:
    return tcp_info(sock, 144)


def pieces(sock: socket.socket) -> int:
    return tcp_info(sock, 156)


def test_the_last_of_a_slice_waits_for_what_follows_it_and_for_nothing_else(
    pump: FilePump, pair: Pair, file: File
) -> None:
    for _ in range(20):
        assert pump.send(pair.ours.fileno(), file.fileno(), 0, 100) == 100
        assert unsent(pair.ours) == 0
        started = time.monotonic()
        assert pump.send(pair.ours.fileno(), file.fileno(), 0, 100, more=True) == 100
        waiting = unsent(pair.ours)
        pair.ours.send(b"!")
        assert unsent(pair.ours) == 0
        if time.monotonic() - started < CORK_SECONDS / 2:  # else the kernel may have tired of waiting
            assert waiting == 100
            return
    pytest.fail("this machine does not make three system calls in a tenth of a second")


def test_what_follows_a_slice_leaves_with_the_last_of_it(loop: asyncio.AbstractEventLoop, file: File) -> None:
    connection, _, peer = connected(loop)

    def sent_in(parts: list[Part], count: int) -> int:
        """How many pieces they left in; the peer has taken them all then."""
        before = pieces(connection._socket)
        connection.send(parts)
        while count:
            turn(loop)
            try:
                count -= len(peer.recv(MIB))
            except BlockingIOError:
                pass
        return pieces(connection._socket) - before

    for _ in range(20):
        sent_in([FileSlice(file, 0, MIB)], MIB)  # until the peer's window is open for more than what follows
    length = PUMPED_BYTES_MIN + 1000
    for _ in range(20):
        alone = sent_in([FileSlice(file, 0, length)], length)
        started = time.monotonic()
        followed = sent_in([FileSlice(file, 0, length), b"tail"], length + 4)
        if time.monotonic() - started < CORK_SECONDS / 2:
            assert followed == alone
            break
    else:
        pytest.fail("this machine does not send 130 kB in a tenth of a second")
    connection.close()
    peer.close()
    turn(loop)


@pytest.mark.parametrize("has_splice", [True, False])
def test_a_connection_sends_a_long_slice_between_what_it_has_in_memory(
    loop: asyncio.AbstractEventLoop, file: File, has_splice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_pump, "HAS_SPLICE", has_splice)
    connection, _, peer = connected(loop)
    short = PUMPED_BYTES_MIN - 1
    connection.send([b"head", FileSlice(file, 8, 4 * MIB), b"between", FileSlice(file, 16, short), b"tail"])
    wanted = b"head" + CONTENT[8 : 8 + 4 * MIB] + b"between" + CONTENT[16 : 16 + short] + b"tail"
    received = b""
    while len(received) < len(wanted):
        turn(loop)
        try:
            received += peer.recv(MIB)
        except BlockingIOError:
            pass
    assert received == wanted
    assert (connection._turn._pump is not None) == has_splice
    connection.close()
    peer.close()
    turn(loop)
