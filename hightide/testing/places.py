"""Where the nodes of a test cluster listen, and the settings that say so.

Node i has the loopback address 127.0.0.(10+i) and five ports there: one for clients, one each for controllers and
brokers, and in front of these two a port of the proxy, which is what the other nodes are told. A node's own
connections come from its address, by which the proxy knows it.
"""

import errno
import socket
from collections.abc import Mapping
from random import SystemRandom
from typing import NamedTuple

from hightide.testing.errors import ClusterError

ADDRESSES_ABOVE = 10
NODES_MAX = 200
CLIENTS, CONTROLLERS, BROKERS, CONTROLLERS_PROXY, BROKERS_PROXY = range(5)
PORTS = 5
PORT_BLOCK = 8
# Below the ports that systems give to outgoing connections, which would collide with listening again after a restart.
FIRST_PORT, LAST_PORT = 10_000, 32_000
CLAIMS_MAX = 200


class Place(NamedTuple):
    """One node's address; its ports count from `port`."""

    node_id: int
    host: str
    port: int

    def address(self, which: int) -> str:
        """host:port of one of the five."""
        return f"{self.host}:{self.port + which}"


class Claim:
    """Addresses of a number of nodes that no other test cluster takes until `release`."""

    def __init__(self, count: int) -> None:
        if not 1 <= count <= NODES_MAX:
            raise ClusterError(f"{count} brokers: a test cluster has 1 to {NODES_MAX}")
        random = SystemRandom()
        for _ in range(CLAIMS_MAX):
            port = random.randrange(FIRST_PORT, LAST_PORT, PORT_BLOCK)
            places = [Place(number, f"127.0.0.{ADDRESSES_ABOVE + number}", port) for number in range(1, count + 1)]
            mark = _bound(f"127.0.0.{ADDRESSES_ABOVE}", port)
            if mark is None:
                continue
            if all(_is_free(place.host, port + which) for place in places for which in range(PORTS)):
                self.places = places
                self._mark = mark
                return
            mark.close()
        raise ClusterError(f"no free ports after {CLAIMS_MAX} attempts")

    def release(self) -> None:
        """Others may have them. Idempotent."""
        self._mark.close()


def _bound(host: str, port: int, *, reuse: bool = False) -> socket.socket | None:
    sock = socket.socket()
    if reuse:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise ClusterError(
                f"this system has no address {host}, and each node needs one of its own; "
                f"on macOS, `sudo ifconfig lo0 alias {host} up` makes it"
            ) from None
        return None
    return sock


def _is_free(host: str, port: int) -> bool:
    sock = _bound(host, port, reuse=True)
    if sock is not None:
        sock.close()
    return sock is not None


OFFSETS_PARTITIONS = 6  # of __consumer_offsets: a test has few groups, and begins sooner without Kafka's 50


def node_settings(
    place: Place, places: list[Place], controllers: int, cluster_id: str, data_directory: str
) -> dict[str, str]:
    """The settings of one node, without what the test wishes."""
    count = len(places)
    is_controller = place.node_id <= controllers
    settings = {
        "node.id": str(place.node_id),
        "process.roles": "broker,controller" if is_controller else "broker",
        "log.dirs": data_directory,
        "listeners": f"PLAINTEXT://{place.address(CLIENTS)}",
        "hightide.cluster.id": cluster_id,
        "hightide.profile": "dev",
        "default.replication.factor": str(min(3, count)),
        "offsets.topic.replication.factor": str(min(3, count)),
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
        "min.insync.replicas": "2" if count >= 3 else "1",
    }
    if count > 1:
        settings |= _among_nodes(place, places[:controllers], is_controller)
    return settings


def _among_nodes(place: Place, voters: list[Place], is_controller: bool) -> dict[str, str]:
    listeners = [f"PLAINTEXT://{place.address(CLIENTS)}", f"BROKERS://{place.address(BROKERS)}"]
    if is_controller:
        listeners.append(f"CONTROLLERS://{place.address(CONTROLLERS)}")
    return {
        "listeners": ",".join(listeners),
        "advertised.listeners": f"{listeners[0]},BROKERS://{place.address(BROKERS_PROXY)}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "controller.listener.names": "CONTROLLERS",
        "controller.quorum.voters": ",".join(f"{voter.node_id}@{voter.address(CONTROLLERS_PROXY)}" for voter in voters),
        "hightide.source.host": place.host,
    }


def properties_text(settings: Mapping[str, str]) -> str:
    """The same as a server.properties file."""
    lines = [f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items()]
    return "# Written by hightide.testing.\n" + "".join(lines)
