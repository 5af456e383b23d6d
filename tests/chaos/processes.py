"""A broker as a real process on one directory and one port, to be killed and started as often as a test likes."""

import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
READY_SECONDS = 30.0
STOP_SECONDS = 30.0
# What no log may ever show (K20): a bug that closed a connection, or an exception that nobody caught.
UNEXPECTED = re.compile(r"^.*(unexpected error|Traceback|never retrieved|Exception in callback).*$", re.MULTILINE)


class BrokerProcess:
    """`hightide server`. Everything it says goes to one file over all its lives."""

    def __init__(self, directory: Path, *, descriptors_max: int | None = None, **settings: str) -> None:
        self._descriptors_max = descriptors_max
        self.data_directory = directory / "data"
        self.log_file = directory / "server.log"
        self.port = free_port()
        self.lives = 0
        properties = {
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data_directory),
        } | {name.replace("_", "."): value for name, value in settings.items()}
        self._properties = directory / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "BrokerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> float:
        """Start it and wait until it answers; the seconds that took."""
        began = time.monotonic()
        self.launch()
        self._await_ready()
        return time.monotonic() - began

    def launch(self) -> None:
        """Start it and do not wait."""
        assert not self.is_running
        self.lives += 1
        command = [sys.executable, "-m", "hightide", "server", "--config", str(self._properties)]
        if self._descriptors_max is not None:
            command = ["prlimit", f"--nofile={self._descriptors_max}", *command]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd=ROOT
            )

    def _await_ready(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + READY_SECONDS
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"is ready on" not in said:
                assert selector.select(max(0.0, deadline - time.monotonic())), f"not ready:\n{self.log_tail()}"
                chunk = os.read(process.stdout.fileno(), 4096)
                assert chunk, f"ended at its start with {process.wait()}:\n{self.log_tail()}"
                said += chunk

    def kill(self) -> None:
        """kill -9, and wait until it is gone. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS)
            assert process.stdout is not None
            process.stdout.close()

    def kill_after(self, seconds: float) -> bool:
        """kill -9 after a while; False when it ended by itself before."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return True
        return False

    def terminate_after(self, seconds: float) -> int:
        """SIGTERM after a while; its exit code."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.terminate()

    def terminate(self) -> int:
        """SIGTERM; its exit code."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOP_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def log_tail(self, characters: int = 4000) -> str:
        return self.log_file.read_text("utf-8", "replace")[-characters:]

    def unexpected(self) -> list[str]:
        """Lines of its log that tell of a bug."""
        return [match[0] for match in UNEXPECTED.finditer(self.log_file.read_text("utf-8", "replace"))]

    def resident_bytes(self) -> int:
        """Memory it holds now."""
        return self._status("VmRSS:")

    def peak_bytes(self) -> int:
        """The most it ever held."""
        return self._status("VmHWM:")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"the process has no {name}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
