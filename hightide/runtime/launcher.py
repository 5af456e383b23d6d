"""A local cluster of child processes: what `hightide up` and the test fixture start.

Node i has the id i, listens on the first port + i - 1, and keeps data, settings and log in `<directory>/node-i`. A
directory that was used before is resumed with the settings it holds. A node that dies stays dead: whoever runs the
cluster decides about a restart (`start_node`), because a test or a person wants to see the death.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from hightide.node.configuration_text import parse_properties

READY_WORDS = " is ready on "  # the server prints one line with these when it answers requests
READY_TIMEOUT_SECONDS = 60.0  # a recovery after power loss reads what was not synced: minutes are somebody's decision
STOP_TIMEOUT_SECONDS = 30.0
FAILED_START_STOP_SECONDS = 5.0
LOG_LINES_SHOWN = 12
OUTPUT_CHUNK_BYTES = 4096
FIRST_PORT = 9092
ROLES = ("broker", "controller")


class LaunchError(Exception):
    """A node that did not start, in a sentence for people."""


class LocalNode:
    """One node: its place on disk and on the network, and its process while it runs."""

    def __init__(self, node_id: int, directory: Path, host: str, port: int) -> None:
        self.id = node_id
        self.roles = ROLES
        self.host = host
        self.port = port
        self.directory = directory
        self.data_directory = directory / "data"
        self.settings_file = directory / "server.properties"
        self.log_file = directory / "server.log"
        self.resumed = self.settings_file.exists()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process, also after it ended."""
        return None if self.process is None else self.process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def log_tail(self) -> str:
        """The last lines that the node wrote."""
        try:
            lines = self.log_file.read_text("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-LOG_LINES_SHOWN:])


class LocalCluster:
    """Nodes on this machine. `with LocalCluster(directory) as cluster:` starts and stops them all."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        brokers: int = 1,
        host: str = "127.0.0.1",
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.nodes = [self._node(index + 1, host, port) for index in range(brokers)]
        self._flags = [f"--set={name}={value}" for name, value in (settings or {}).items()]

    @property
    def bootstrap(self) -> str:
        """All addresses, for clients."""
        return ",".join(node.address for node in self.nodes)

    def __enter__(self) -> "LocalCluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, timeout: float = READY_TIMEOUT_SECONDS) -> None:
        """Start all nodes and wait until they answer; LaunchError, with nothing left running, when one does not."""
        try:
            for node in self.nodes:
                self._launch(node)
            for node in self.nodes:
                _await_ready(node, timeout)
        except BaseException:
            self.stop(timeout=FAILED_START_STOP_SECONDS)
            raise

    def start_node(self, node_id: int, timeout: float = READY_TIMEOUT_SECONDS) -> None:
        """Start one node that is not running and wait until it answers."""
        node = self.node(node_id)
        self._launch(node)
        _await_ready(node, timeout)

    def node(self, node_id: int) -> LocalNode:
        """A node by its id."""
        return self.nodes[node_id - 1]

    def stop(self, timeout: float = STOP_TIMEOUT_SECONDS) -> None:
        """End every node cleanly, and with SIGKILL those that take longer. Idempotent."""
        for node in self.nodes:
            if node.running and node.process is not None:
                node.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + timeout
        for node in self.nodes:
            if node.process is None:
                continue
            try:
                node.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
            _close_output(node.process)

    def await_death(self) -> LocalNode | None:
        """Wait until a running node ends, and name it; None when none runs. Its output ends when it does."""
        with selectors.DefaultSelector() as selector:
            for node in self.nodes:
                if node.process is not None and node.process.stdout is not None and not node.process.stdout.closed:
                    selector.register(node.process.stdout, selectors.EVENT_READ, node.id)
            while selector.get_map():
                for key, _ in selector.select():
                    if not os.read(key.fd, OUTPUT_CHUNK_BYTES):
                        return self._ended(key.data)
        return None

    def _ended(self, node_id: int) -> LocalNode:
        node = self.node(node_id)
        if node.process is not None:
            node.process.wait()
            _close_output(node.process)
        return node

    def kill(self, node_id: int) -> None:
        """kill -9."""
        process = self.node(node_id).process
        if process is not None:
            process.kill()
            self._ended(node_id)

    def _node(self, node_id: int, host: str, port: int | None) -> LocalNode:
        """A node with its settings file: written now, or kept, and moved to another port only when one is asked for."""
        directory = self.directory / f"node-{node_id}"
        kept = _kept_address(directory / "server.properties")
        if kept is None:
            node = LocalNode(node_id, directory, host, _port_of(FIRST_PORT if port is None else port, node_id))
            directory.mkdir(parents=True, exist_ok=True)
            node.settings_file.write_text(_settings_text(node), "utf-8")
            return node
        kept_host, kept_port = kept
        node = LocalNode(node_id, directory, kept_host, kept_port if port is None else _port_of(port, node_id))
        if node.port != kept_port:
            _move(node, kept_port)
        return node

    def _launch(self, node: LocalNode) -> None:
        if node.running:
            raise LaunchError(f"node {node.id} runs already, as process {node.pid}")
        if node.port and not _port_free(node.host, node.port):
            raise LaunchError(f"port {node.port} on {node.host} is taken by another program")
        command = [sys.executable, "-m", "hightide", "server", "--config", str(node.settings_file), *self._flags]
        with open(node.log_file, "ab") as log:
            # A session of its own: Ctrl-C in a terminal reaches us alone, and we stop the nodes cleanly.
            node.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )


def _await_ready(node: LocalNode, timeout: float) -> None:
    """Wait for the ready line; it also tells the real port when the settings say 0."""
    process = node.process
    assert process is not None
    assert process.stdout is not None
    deadline = time.monotonic() + timeout
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while READY_WORDS.encode() not in said or not said.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise LaunchError(f"node {node.id} is not ready after {timeout:g} s; see {node.log_file}")
            chunk = os.read(process.stdout.fileno(), OUTPUT_CHUNK_BYTES)
            if not chunk:
                status = process.wait()
                raise LaunchError(f"node {node.id} ended with status {status}:\n{node.log_tail()}")
            said += chunk
    node.port = int(said.decode().strip().rpartition(":")[2])


def _port_of(first: int, node_id: int) -> int:
    """Ports count up from the first; 0 lets the system choose each."""
    return first + node_id - 1 if first else 0


def _port_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _close_output(process: "subprocess.Popen[bytes]") -> None:
    if process.stdout is not None:
        process.stdout.close()


def _settings_text(node: LocalNode) -> str:
    return (
        "# Written by `hightide up`, which keeps what you change here.\n"
        f"node.id={node.id}\n"
        f"process.roles={','.join(node.roles)}\n"
        f"listeners=PLAINTEXT://{node.address}\n"
        f"log.dirs={_escaped(str(node.data_directory))}\n"
    )


def _kept_address(settings_file: Path) -> tuple[str, int] | None:
    """Where an existing node listens; None when there is no such node."""
    try:
        text = settings_file.read_text("utf-8")
    except FileNotFoundError:
        return None
    listener = parse_properties(text).get("listeners", "PLAINTEXT://127.0.0.1:9092").split(",")[0]
    host, _, port = listener.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        raise LaunchError(f"{settings_file}: {listener!r} is not a listener; write PLAINTEXT://host:port")
    return host.strip("[]") or "127.0.0.1", int(port)


def _move(node: LocalNode, old_port: int) -> None:
    """Put the new port where the old one stands in the listeners of the file."""
    lines = node.settings_file.read_text("utf-8").splitlines(keepends=True)
    moved = [
        line.replace(f":{old_port}", f":{node.port}") if line.lstrip().startswith("listeners") else line
        for line in lines
    ]
    node.settings_file.write_text("".join(moved), "utf-8")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
