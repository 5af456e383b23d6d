"""The nodes of a test cluster, whatever they run in."""

from pathlib import Path
from typing import Protocol

from hightide.testing.places import CLIENTS, Place


class Machine(Protocol):
    """What runs a node: a thread of this process, or a process of its own."""

    @property
    def is_running(self) -> bool:
        """Whether it was launched and has not ended."""

    @property
    def is_paused(self) -> bool:
        """Whether it runs and is held."""

    @property
    def pid(self) -> int | None:
        """Its process, when it has one of its own."""

    def launch(self) -> None:
        """Begin to start."""

    def await_ready(self, timeout: float) -> None:
        """Return when it serves clients; ClusterError when it does not."""

    def begin_stop(self) -> None:
        """SIGTERM."""

    def await_end(self, timeout: float) -> bool:
        """Whether it ended in time."""

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""


class ClusterNode:
    """One node as a test sees it."""

    def __init__(self, place: Place, machine: Machine, directory: Path) -> None:
        self.place = place
        self.machine = machine
        self.id = place.node_id
        self.directory = directory

    @property
    def address(self) -> str:
        """host:port for clients."""
        return self.place.address(CLIENTS)

    @property
    def data_directory(self) -> Path:
        """Its log directory."""
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        """Where it writes what it does."""
        return self.directory / "server.log"

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended; also while it is paused."""
        return self.machine.is_running

    @property
    def is_paused(self) -> bool:
        """Whether it runs and is held."""
        return self.machine.is_running and self.machine.is_paused

    @property
    def pid(self) -> int | None:
        """Its process, in a cluster of processes."""
        return self.machine.pid

    def __repr__(self) -> str:
        condition = "paused" if self.is_paused else "running" if self.is_running else "down"
        return f"<node {self.id} on {self.address}, {condition}>"
