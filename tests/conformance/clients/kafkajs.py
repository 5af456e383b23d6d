"""KafkaJS, the client of most Node.js programs, in processes of its own (kafkajs/client.js)."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

SOURCES = Path(__file__).resolve().parent.parent / "kafkajs"
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "kafkajs"
SILENCE_SECONDS = 60.0


class NodeMissingError(Exception):
    """Node.js or KafkaJS can't be had; the message says what to do."""


def installed() -> Path:
    """The folder with the script and its packages, brought by npm when it is not there or has changed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NodeMissingError("`node` and `npm` are not installed; on Debian: apt-get install nodejs npm")
    CACHE.mkdir(parents=True, exist_ok=True)
    wanted = (SOURCES / "package.json").read_text()
    mark = CACHE / "installed.json"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.copy(SOURCES / "package.json", CACHE)
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
        done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True)
        if done.returncode:
            raise NodeMissingError(f"npm can't install KafkaJS: {done.stderr[-500:]}")
        mark.write_text(wanted)
    shutil.copy(SOURCES / "client.js", CACHE)
    return CACHE


def run(*arguments: str) -> list[dict[str, Any]]:
    """One command to its end: what it said."""
    done = subprocess.run(
        ["node", "client.js", *arguments], cwd=installed(), capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class KafkaJsMember:
    """A group member; its input kept open keeps it in the group."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        command = ["node", "client.js", "member", bootstrap, topic, group]
        self.process = subprocess.Popen(
            command, cwd=installed(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.values: list[str] = []
        self.assigned: set[int] = set()
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        assert self.process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self.process.stdout,))
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _listen(self, output: IO[str]) -> None:
        for line in output:
            self._said.put(json.loads(line))

    def take(self, seconds: float = SILENCE_SECONDS) -> None:
        """Wait for one line and note what it says."""
        said = self._said.get(timeout=seconds)
        assert "failed" not in said, said
        if "assigned" in said:
            self.assigned = set(said["assigned"])
        else:
            self.values.append(said["value"])

    def until(self, condition: Callable[[], bool]) -> None:
        """Listen until something is so; it says something at least every `SILENCE_SECONDS` until then."""
        while not condition():
            self.take()

    def leave(self) -> None:
        """Leave the group in peace."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self._end()

    def kill(self) -> None:
        """kill -9. Idempotent, and after `leave` too."""
        self.process.kill()
        self.process.wait()
        self._end()

    def _end(self) -> None:
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
