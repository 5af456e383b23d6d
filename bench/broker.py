"""A broker of its own for every run: a fresh process on a fresh directory, so that no run inherits from another."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import requests
from bench.programs import FailedError, MissingError
from hightide.errors import ErrorCode

COMMAND = Path(sys.executable).with_name("hightide")
START_SECONDS_MAX = 20.0
RETRY_SECONDS = 0.001
COMMIT_SECONDS_MAX = 5.0


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment() -> dict[str, str]:
    """Ours without what changes a broker: its settings, and what keeps Python from storing the bytecode it compiled,
    without which every start compiles the whole package again."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("HIGHTIDE_", "PYTHON"))}


class Broker:
    """One `hightide server`; used as a context manager, it is killed and its data removed at the end."""

    def __init__(self, directory: Path, durability: str) -> None:
        if not COMMAND.exists():
            raise MissingError(f"There is no {COMMAND}: 'make setup' installs the hightide command.")
        self.directory = directory
        self.port = free_port()
        self.started = 0.0
        self._config = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self._config.write_text(
            f"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:{self.port}\nlog.dirs={directory / 'data'}\n"
            f"hightide.durability={durability}\n"
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Execute the command; `started` is when."""
        with open(self.directory / "server.log", "ab") as log:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                [COMMAND, "server", "--config", self._config], stdout=log, stderr=log, env=_environment()
            )

    def connect(self) -> socket.socket:
        """Connect as soon as the broker listens."""
        while True:
            try:
                return requests.connect(self.port)
            except OSError:
                self._expect_alive("does not listen")
                time.sleep(RETRY_SECONDS)

    def create_topic(self, topic: str) -> None:
        """Create a topic of one partition, as soon as the broker does."""
        with self.connect() as connection:
            while (error := requests.create_topic(connection, topic)) is not ErrorCode.NONE:
                self._expect_alive(f"does not create a topic: {error.name}")
                time.sleep(RETRY_SECONDS)

    def produce_one(self, frame: bytes) -> float:
        """Send one record until it is acknowledged; seconds since the command was executed."""
        while True:
            try:
                with self.connect() as connection:
                    while (error := requests.produce(connection, frame)) is not ErrorCode.NONE:
                        self._expect_alive(f"takes no record: {error.name}")
                        time.sleep(RETRY_SECONDS)
                    return time.monotonic() - self.started
            except OSError as error:
                self._expect_alive(f"takes no record: {error}")
                time.sleep(RETRY_SECONDS)

    def expect_records(self, topic: str, count: int) -> None:
        """Everything acknowledged is there, or the run counts for nothing."""
        deadline = time.monotonic() + COMMIT_SECONDS_MAX
        with self.connect() as connection:
            while (end := requests.end_offset(connection, topic)) != count:
                if time.monotonic() > deadline:
                    raise FailedError(f"the broker acknowledged {count} records and has {end}")
                time.sleep(0.01)

    def stop(self) -> None:
        """Stop it cleanly and keep its data."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise FailedError(f"the broker does not stop:\n{self._log_tail()}") from None
        if code:
            raise FailedError(f"the broker ended with code {code}:\n{self._log_tail()}")

    def _expect_alive(self, otherwise: str) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise FailedError(f"the broker ended with code {self._process.returncode}:\n{self._log_tail()}")
        if time.monotonic() - self.started > START_SECONDS_MAX:
            raise FailedError(f"the broker {otherwise} after {START_SECONDS_MAX:.0f} s:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        lines = (self.directory / "server.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
