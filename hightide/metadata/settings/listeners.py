"""Addresses in settings: listeners (`NAME://host:port`) and the static broker list (`id@host:port`).

An empty host listens on loopback: a broker is reachable from elsewhere only when somebody said so.
"""

from typing import NamedTuple

from hightide.metadata.settings.definition import SettingError, Value, split_list

LOOPBACK = "127.0.0.1"


class ListenerAddress(NamedTuple):
    """Where a broker listens, or says that it listens."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{_join(self.host, self.port)}"


class BrokerAddress(NamedTuple):
    """An entry of the static broker list (T10)."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{_join(self.host, self.port)}"


def parse_listener(text: str) -> ListenerAddress:
    """One listener; SettingError when it is none."""
    name, separator, rest = text.partition("://")
    if not separator or not name:
        raise SettingError(f"'{text}' is not a listener: write NAME://host:port")
    host, port = _split(text, rest)
    return ListenerAddress(name.upper(), host or LOOPBACK, port)


def parse_broker(text: str) -> BrokerAddress:
    """One entry of the static broker list; SettingError when it is none."""
    node_id, separator, rest = text.partition("@")
    if not separator or not (node_id.isascii() and node_id.isdigit()):
        raise SettingError(f"'{text}' is not a broker: write id@host:port")
    host, port = _split(text, rest)
    return BrokerAddress(int(node_id), host, port)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Listener name to security protocol; SettingError when a pair is malformed."""
    protocols = {}
    for pair in split_list(text):
        name, separator, protocol = pair.partition(":")
        if not separator or not name or not protocol:
            raise SettingError(f"'{pair}' is not NAME:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def check_listeners(_name: str, value: Value) -> str | None:
    """Listeners with different names and ports, at least one."""
    try:
        listeners = [parse_listener(part) for part in value] if isinstance(value, list) else []
    except SettingError as error:
        return str(error)
    if not listeners:
        return "at least one listener is needed"
    if len({listener.name for listener in listeners}) < len(listeners):
        return "each listener must have a different name"
    ports = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(ports)) < len(ports):
        return "each listener must have a different address"
    return None


def check_advertised(name: str, value: Value) -> str | None:
    """Listeners that a client can connect to."""
    problem = check_listeners(name, value)
    if problem is None and isinstance(value, list) and any(parse_listener(part).host == "0.0.0.0" for part in value):
        return "0.0.0.0 cannot be advertised: clients could not connect to it"
    return problem


def check_protocol_map(_name: str, value: Value) -> str | None:
    """A map from names to protocols; which of them are used is checked with the listeners."""
    try:
        parse_protocol_map(str(value))
    except SettingError as error:
        return str(error)
    return None


def check_brokers(_name: str, value: Value) -> str | None:
    """Brokers with different ids."""
    try:
        brokers = [parse_broker(part) for part in value] if isinstance(value, list) else []
    except SettingError as error:
        return str(error)
    if len({broker.node_id for broker in brokers}) < len(brokers):
        return "each broker must have a different id"
    return None


def _split(text: str, address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise SettingError(f"'{text}' has no port between 0 and 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
