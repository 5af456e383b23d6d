"""The reference for small requests to three brokers: what replicating them takes, without a broker.

Three processes on the broker's own sockets, framing and event loop. The leader writes what the requests of one turn
bring with one write, hands it to two followers that ask for it, and answers a request when both have asked for what
comes behind it; a follower takes one CRC-32C of all it got, writes it and asks again. Nothing is parsed, validated,
kept in order, indexed or remembered. What brokers lose against it is what they do besides.

`python -m bench.replicated_echo lead ANSWER_FILE LOG BATCH_BYTES` prints its port, `… follow PORT LOG` follows it; both
serve until they are killed.
"""

import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.echo_server import new_loop
from hightide.node.ports import Connection
from hightide.runtime.files import OsFiles
from hightide.runtime.network import SocketNetwork
from hightide.storage.files import File
from hightide.wire.checksum import crc32c
from hightide.wire.framing import Frame

FOLLOWERS = 2
FETCH_HEAD = (112).to_bytes(4) + (1).to_bytes(2) + bytes(102)  # as long as a follower's request; its offset follows
ANSWER_HEAD_BYTES = 77  # of a leader's, its length included
OFFSET_AT = 104  # in a follower's request, without its length


@dataclass(frozen=True)
class ReplicatedEcho:
    """One that runs: where its leader listens, and all three processes, the leader first."""

    port: int
    pids: list[int]


@contextmanager
def replicating(answer: Path, batch_bytes: int, directory: Path) -> Iterator[ReplicatedEcho]:
    """A leader and its followers, which answer everything with what is in that file."""
    with ExitStack() as stack:

        def launch(*words: object) -> "subprocess.Popen[str]":
            command = [sys.executable, "-m", "bench.replicated_echo", *map(str, words)]
            server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(server.kill)
            return server

        leader = launch("lead", answer, directory / "echo-0.log", batch_bytes)
        assert leader.stdout is not None
        port = int(leader.stdout.readline())
        followers = [launch("follow", port, directory / f"echo-{number}.log") for number in range(1, FOLLOWERS + 1)]
        for _ in followers:
            leader.stdout.readline()
        yield ReplicatedEcho(port, [server.pid for server in (leader, *followers)])


class Leader:
    """`node.ports.Burst`: writes together what came together, and answers what both followers have."""

    def __init__(self, file: File, answer: bytes, batch_bytes: int) -> None:
        self.log_end = 0
        self._file = file
        self._answer = answer
        self._batch_bytes = batch_bytes
        self._batches: list[Frame] = []
        self._unanswered: deque[tuple[int, Connection]] = deque()
        self._followers: list[Follower] = []

    def accept(self, connection: Connection) -> "Client":
        """A client, until it asks as a follower does."""
        return Client(self, connection)

    def produce(self, connection: Connection, data: Frame) -> None:
        """One request."""
        self._batches.append(data[-self._batch_bytes :])
        self._unanswered.append((self.log_end + self._batch_bytes * len(self._batches), connection))

    def follow(self, connection: Connection) -> "Follower":
        """One more follower."""
        follower = Follower(self, self._file, connection)
        self._followers.append(follower)
        print("followed", flush=True)
        return follower

    def credited(self) -> None:
        """A follower has more than before."""
        if len(self._followers) < FOLLOWERS:
            return
        committed = min(follower.end for follower in self._followers)
        unanswered = self._unanswered
        while unanswered and unanswered[0][0] <= committed:
            unanswered.popleft()[1].send((self._answer,))

    def begin(self) -> None:
        """`Burst`."""

    def settle(self) -> None:
        """`Burst`: one write."""
        if self._batches:
            records = b"".join(self._batches)
            self._batches.clear()
            self._file.write_at(records, self.log_end)
            self.log_end += len(records)

    def end(self) -> None:
        """`Burst`."""

    def wake(self) -> None:
        """`Burst`: whoever waits for records gets them."""
        for follower in self._followers:
            follower.serve()


class Client:
    """`node.ports.Receiver` of a connection that others opened."""

    __slots__ = ("_connection", "_follower", "_leader")

    def __init__(self, leader: Leader, connection: Connection) -> None:
        self._leader = leader
        self._connection = connection
        self._follower: Follower | None = None

    def frame(self, data: Frame) -> None:
        """A request that brings a batch, or one of a follower."""
        if data[1] == 0:
            self._leader.produce(self._connection, data)
            return
        if self._follower is None:
            self._follower = self._leader.follow(self._connection)
        self._follower.fetched(int.from_bytes(data[OFFSET_AT:]))

    def closed(self) -> None:
        """Nothing to clean up."""


class Follower:
    """What the leader knows of one."""

    def __init__(self, leader: Leader, file: File, connection: Connection) -> None:
        self.end = 0
        self._leader = leader
        self._file = file
        self._connection = connection
        self._waits = False

    def fetched(self, offset: int) -> None:
        """It has everything below, and asks for the rest."""
        self.end = offset
        self._waits = True
        self._leader.credited()
        self.serve()

    def serve(self) -> None:
        """Answer, if it asked and there is something."""
        length = self._leader.log_end - self.end
        if self._waits and length:
            self._waits = False
            head = (ANSWER_HEAD_BYTES - 4 + length).to_bytes(4) + bytes(ANSWER_HEAD_BYTES - 4)
            self._connection.send((head, self._file.read_at(self.end, length)))


class Copy:
    """`node.ports.Receiver` in a follower."""

    def __init__(self, file: File, connection: Connection) -> None:
        self._end = 0
        self._file = file
        self._connection = connection
        self.ask()

    def ask(self) -> None:
        """For what comes behind what is here."""
        self._connection.send((FETCH_HEAD + self._end.to_bytes(8),))

    def frame(self, data: Frame) -> None:
        """An answer."""
        records = memoryview(data)[ANSWER_HEAD_BYTES - 4 :]
        crc32c(records)
        self._file.write_at(records, self._end)
        self._end += len(records)
        self.ask()

    def closed(self) -> None:
        """The leader is gone."""
        sys.exit()


def lead(answer: bytes, file: File, batch_bytes: int) -> None:
    """Serve for ever."""
    loop = new_loop()
    network = SocketNetwork(loop)
    leader = Leader(file, answer, batch_bytes)
    network.announce(leader)
    listener = network.listen("127.0.0.1", 0, leader.accept)
    listener.start()
    print(listener.port, flush=True)
    loop.run_forever()


def follow(port: int, file: File) -> None:
    """Copy for ever."""
    loop = new_loop()
    loop.run_until_complete(SocketNetwork(loop).connect("127.0.0.1", port, lambda connection: Copy(file, connection)))
    loop.run_forever()


if __name__ == "__main__":
    if sys.argv[1] == "lead":
        lead(Path(sys.argv[2]).read_bytes(), OsFiles().open(sys.argv[3], create=True), int(sys.argv[4]))
    else:
        follow(int(sys.argv[2]), OsFiles().open(sys.argv[3], create=True))
