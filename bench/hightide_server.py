"""hightide for the comparison: one or three `hightide server` processes on loopback, as `hightide up` configures them.

Durability is a topic's: the bench's topics say `replicated` or `fsync`. One setting differs from the defaults, on both
systems alike: deleted files go at once, so that no run pays for the one before it.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.clusters import Cluster, Server, free_ports, write_properties
from bench.programs import MissingError
from hightide.types import format_uuid

NAME = "hightide"
COMMAND = Path(sys.executable).with_name("hightide")


def hightide_cluster(directory: Path, brokers: int, settings: Mapping[str, str]) -> Cluster:
    """A cluster that was not started yet, on a fresh directory."""
    if not COMMAND.exists():
        raise MissingError(f"There is no {COMMAND}: 'make setup' installs the hightide command.")
    shutil.rmtree(directory, ignore_errors=True)
    all_ports = free_ports(2 * brokers)
    ports, controller_ports = all_ports[:brokers], all_ports[brokers:]
    shared = dict(settings)
    if brokers > 1:
        voters = (f"{node_id}@127.0.0.1:{port}" for node_id, port in enumerate(controller_ports, 1))
        shared["controller.quorum.voters"] = ",".join(voters)
        shared["controller.listener.names"] = "CONTROLLER"
        shared["hightide.cluster.id"] = format_uuid(os.urandom(16))
    servers = []
    for node_id, port in enumerate(ports, 1):
        place = directory / f"node-{node_id}"
        place.mkdir(parents=True)
        listeners = f"PLAINTEXT://127.0.0.1:{port}"
        if brokers > 1:
            listeners += f",CONTROLLER://127.0.0.1:{controller_ports[node_id - 1]}"
        own = {"node.id": str(node_id), "listeners": listeners, "log.dirs": str(place / "data")}
        write_properties(place / "server.properties", own | shared)
        command = [str(COMMAND), "server", "--config", str(place / "server.properties")]
        servers.append(Server(node_id, port, place, command, _environment()))
    return Cluster(
        NAME, directory, servers, {"hightide.durability": "replicated"}, {"hightide.durability": "fsync"}
    )  # fmt: skip


def _environment() -> dict[str, str]:
    """Ours without what changes a broker: its settings, and what keeps Python from storing the bytecode it compiled,
    without which every start compiles the whole package again."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("HIGHTIDE_", "PYTHON"))}
