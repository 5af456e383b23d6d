"""A local cluster of child processes: what `hightide up` and the test fixture start.

Node i has the id i, listens on the first port + i - 1, and keeps data, settings and log in `<directory>/node-i`. The
first nodes are the controllers too, one or three of them, on ports of their own. A directory that was used before is
resumed with the settings it holds. A node that dies stays dead: whoever runs the
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
from hightide.types import format_uuid

READY_WORDS = " is ready on "  # the server prints one line with these when it answers requests
READY_TIMEOUT_SECONDS = 60.0  # a recovery after power loss reads what was not synced: minutes are somebody's decision
STOP_TIMEOUT_SECONDS = 30.0
FAILED_START_STOP_SECONDS = 5.0
LOG_LINES_SHOWN = 12
LOG_BYTES_MAX = 10_000_000  # of server.log when a node starts; one more is kept beside it
OUTPUT_CHUNK_BYTES = 4096
FIRST_PORT = 9092
CONTROLLER_PORTS_ABOVE = 1000  # a controller's port is that much above its broker's


class LaunchError(Exception):
    """A node that did not start, in a sentence for people."""


class LocalNode:
    """One node: its place on disk and on the network, and its process while it runs."""

    def __init__(self, node_id: int, directory: Path, host: str, port: int, *, is_controller: bool = True) -> None:
        self.id = node_id
        self.roles = ("broker", "controller") if is_controller else ("broker",)
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
        brokers: int | None = None,
        controllers: int | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        kept = len(list(self.directory.glob("node-*/server.properties")))
        if kept and brokers not in (None, kept):
            raise LaunchError(f"{self.directory} holds a cluster of {kept} nodes, not of {brokers}")
        count = kept or brokers or 1
        if kept:
            self.nodes = [self._kept_node(index + 1, port) for index in range(count)]
        else:
            self.nodes = self._new_nodes(count, controllers, host, FIRST_PORT if port is None else port)
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
        self.launch_node(node_id)
        self.await_node(node_id, timeout)

    def launch_node(self, node_id: int) -> None:
        """Start one node that is not running; `await_node` waits for it."""
        self._launch(self.node(node_id))

    def await_node(self, node_id: int, timeout: float = READY_TIMEOUT_SECONDS) -> None:
        """Wait until a launched node answers; once per launch. LaunchError when it does not."""
        _await_ready(self.node(node_id), timeout)

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

    def _new_nodes(self, count: int, controllers: int | None, host: str, port: int) -> list[LocalNode]:
        """Nodes that never ran, with their settings files."""
        voters = (3 if count >= 3 else 1) if controllers is None else controllers
        if voters not in (1, 3, 5) or voters > count:
            raise LaunchError(f"{voters} controllers among {count} nodes: a quorum has 1, 3 or 5")
        nodes = [
            LocalNode(
                number, self.directory / f"node-{number}", host, _port_of(port, number), is_controller=number <= voters
            )
            for number in range(1, count + 1)
        ]
        shared = _cluster_settings(nodes[:voters], count) if count > 1 else {}
        for node in nodes:
            node.directory.mkdir(parents=True, exist_ok=True)
            node.settings_file.write_text(_settings_text(node, shared), "utf-8")
        return nodes

    def _kept_node(self, node_id: int, port: int | None) -> LocalNode:
        """A node that ran before, moved to another port only when one is asked for."""
        directory = self.directory / f"node-{node_id}"
        kept = _kept_address(directory / "server.properties")
        if kept is None:
            raise LaunchError(f"{directory} has no server.properties, though nodes after it have")
        host, kept_port, is_controller = kept
        wanted = kept_port if port is None else _port_of(port, node_id)
        node = LocalNode(node_id, directory, host, wanted, is_controller=is_controller)
        if node.port != kept_port:
            _move(node, kept_port)
        _follow_data(node)
        return node

    def _launch(self, node: LocalNode) -> None:
        if node.running:
            raise LaunchError(f"node {node.id} runs already, as process {node.pid}")
        if node.port and not _port_free(node.host, node.port):
            raise LaunchError(f"port {node.port} on {node.host} is taken by another program")
        command = [sys.executable, "-m", "hightide", "server", "--config", str(node.settings_file), *self._flags]
        _rotate(node.log_file)
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


def _cluster_settings(controllers: list[LocalNode], count: int) -> dict[str, str]:
    """What all nodes of a new cluster agree on from the start."""
    ports = {node.id: _controller_port(node) for node in controllers}
    shared = {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{node.id}@{node.host}:{ports[node.id]}" for node in controllers),
        "hightide.cluster.id": format_uuid(os.urandom(16)),
        "offsets.topic.replication.factor": str(min(3, count)),
    }
    if count >= 3:
        shared |= {"default.replication.factor": "3", "min.insync.replicas": "2"}
    return shared


def _controller_port(node: LocalNode) -> int:
    """Fixed, because the others must know it: above the broker's, or any free one where that has no fixed port."""
    if node.port and node.port + CONTROLLER_PORTS_ABOVE < 1 << 16:
        return node.port + CONTROLLER_PORTS_ABOVE
    with socket.socket() as probe:
        probe.bind((node.host, 0))
        port: int = probe.getsockname()[1]
    return port


def _settings_text(node: LocalNode, shared: Mapping[str, str]) -> str:
    listeners = f"PLAINTEXT://{node.address}"
    voters = dict(voter.split("@") for voter in shared.get("controller.quorum.voters", "").split(",") if voter)
    if str(node.id) in voters:
        listeners += f",CONTROLLER://{voters[str(node.id)]}"
    settings = {
        "node.id": str(node.id),
        "process.roles": ",".join(node.roles),
        "listeners": listeners,
        "log.dirs": _escaped(str(node.data_directory)),
        **shared,
    }
    lines = [f"{name}={value}\n" for name, value in settings.items()]
    return "# Written by `hightide up`, which keeps what you change here.\n" + "".join(lines)


def _kept_address(settings_file: Path) -> tuple[str, int, bool] | None:
    """Where an existing node listens, and whether it is a controller; None when there is no such node."""
    try:
        text = settings_file.read_text("utf-8")
    except FileNotFoundError:
        return None
    settings = parse_properties(text)
    listener = settings.get("listeners", "PLAINTEXT://127.0.0.1:9092").split(",")[0]
    host, _, port = listener.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        raise LaunchError(f"{settings_file}: {listener!r} is not a listener; write PLAINTEXT://host:port")
    is_controller = "controller" in settings.get("process.roles", "broker,controller")
    return host.strip("[]") or "127.0.0.1", int(port), is_controller


def _move(node: LocalNode, old_port: int) -> None:
    """Put the new port where the old one stands in the listeners of the file."""
    lines = node.settings_file.read_text("utf-8").splitlines(keepends=True)
    moved = [
        line.replace(f":{old_port}", f":{node.port}", 1) if line.lstrip().startswith("listeners") else line
        for line in lines
    ]
    node.settings_file.write_text("".join(moved), "utf-8")


def _follow_data(node: LocalNode) -> None:
    """Where the whole directory was moved or copied, the data in it are meant, not those that were at its old place."""
    lines = node.settings_file.read_text("utf-8").splitlines(keepends=True)
    stored = parse_properties("".join(lines)).get("log.dirs", "")
    if not node.data_directory.is_dir() or Path(stored) == node.data_directory or Path(stored).name != "data":
        return
    if Path(stored).parent.name == node.directory.name and not Path(stored).exists():
        own = f"log.dirs={_escaped(str(node.data_directory))}\n"
        moved = [own if line.lstrip().startswith("log.dirs") else line for line in lines]
        node.settings_file.write_text("".join(moved), "utf-8")


def _rotate(log_file: Path) -> None:
    """Begin a new log when the old one is large, and keep that one: nothing else ever removes a line."""
    if log_file.exists() and log_file.stat().st_size > LOG_BYTES_MAX:
        log_file.replace(log_file.with_suffix(".log.1"))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
