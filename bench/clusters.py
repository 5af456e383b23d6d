"""Servers of either system as child processes: a cluster is where they listen and how to start, stop and kill them.

`bench.hightide_server` and `bench.kafka_server` make clusters; everything that measures sees only this, so that both
systems are handled alike. Nothing outlives the bench: used as a context manager, a cluster is killed and its data
removed at the end.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import requests
from bench.programs import FailedError

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
POLL_SECONDS = 0.005
LOG_LINES_SHOWN = 15


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Server:
    """One broker process."""

    def __init__(
        self, node_id: int, port: int, directory: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        self.port = port
        self.directory = directory
        self.data = directory / "data"
        self.started = 0.0
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Execute the command; `started` is when."""
        with open(self.directory / "server.out", "ab") as output:
            self.started = time.monotonic()
            # A session of its own: Ctrl-C reaches the bench alone, which ends its servers.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=self._environment, cwd=self.directory, start_new_session=True,
            )  # fmt: skip

    def connect(self) -> socket.socket:
        """Connect as soon as it listens."""
        while True:
            try:
                return requests.connect(self.port)
            except OSError:
                self.expect_alive("does not listen")
                time.sleep(POLL_SECONDS)

    def expect_alive(self, otherwise: str, seconds_max: float = START_SECONDS_MAX) -> None:
        """FailedError when the process ended or had enough time since its start."""
        if not self.alive:
            code = None if self._process is None else self._process.returncode
            raise FailedError(f"node {self.node_id} ended with code {code}:\n{self.log_tail()}")
        if time.monotonic() - self.started > seconds_max:
            raise FailedError(f"node {self.node_id} {otherwise} after {seconds_max:.0f} s:\n{self.log_tail()}")

    def stop(self) -> None:
        """Stop it cleanly and keep its data."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise FailedError(f"node {self.node_id} does not stop:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log_tail(self) -> str:
        """The last lines it wrote."""
        try:
            lines = (self.directory / "server.out").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-LOG_LINES_SHOWN:])


class Cluster:
    """One or three servers of one system, and what a topic needs there to be durable in one way or the other."""

    def __init__(
        self,
        system: str,
        directory: Path,
        servers: Sequence[Server],
        page_cache_topic: Mapping[str, str],
        fsync_topic: Mapping[str, str],
    ) -> None:
        self.system = system
        self.directory = directory
        self.servers = servers
        self._topic_settings = {"page cache": page_cache_topic, "fsync": fsync_topic}
        self._is_paused = False

    @property
    def bootstrap(self) -> str:
        return ",".join(server.address for server in self.servers)

    @property
    def pids(self) -> list[int]:
        """Of the servers that live."""
        return [server.pid for server in self.servers if server.alive]

    @property
    def alive(self) -> bool:
        return all(server.alive for server in self.servers)

    def server(self, node_id: int) -> Server:
        """By its id."""
        return next(server for server in self.servers if server.node_id == node_id)

    def any_server(self) -> Server:
        """The first that lives."""
        found = next((server for server in self.servers if server.alive), None)
        if found is None:
            raise FailedError(f"no server of {self.system} is alive:\n{self.servers[0].log_tail()}")
        return found

    def topic_settings(self, durability: str) -> dict[str, str]:
        """What makes a topic answer from the page cache or after fsync."""
        return dict(self._topic_settings[durability])

    def launch(self) -> None:
        """Execute all commands; `bench.admin.await_brokers` waits for them."""
        for server in self.servers:
            server.launch()

    def pause(self) -> None:
        """Let all stand still (SIGSTOP): they keep their memory and what they learned, and cost nothing."""
        self._is_paused = True
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> bool:
        """Let all go on; whether they stood still. `bench.admin.await_calm` waits until they found together again."""
        was_paused, self._is_paused = self._is_paused, False
        if was_paused:
            self._signal_all(signal.SIGCONT)
        return was_paused

    def _signal_all(self, number: signal.Signals) -> None:
        for server in self.servers:
            if server.alive:
                os.kill(server.pid, number)

    def stop(self) -> None:
        """Stop all cleanly, at once: a quorum stops together."""
        self._signal_all(signal.SIGTERM)
        for server in self.servers:
            if server.alive:
                server.stop()

    def kill(self) -> None:
        """kill -9 to all."""
        for server in self.servers:
            server.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """A file in the form both systems read."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
