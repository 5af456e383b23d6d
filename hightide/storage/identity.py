"""Whose log directory this is and in what state it was left: `meta.properties` and `directory.state` (R8, R22).

`meta.properties` is Kafka's (version 1) and never changes. `directory.state` is ours: the format version of everything
in the directory, the boot id of the operating system under which the logs were last opened, the last broker epoch, and
whether an unclean stop is still to be reported to the controller.
"""

from typing import NamedTuple

from hightide.errors import CorruptionError, StorageError
from hightide.rules import Rules
from hightide.storage.checkpoints import read_file, write_atomically
from hightide.storage.files import Files
from hightide.storage.properties import format_properties, parse_properties
from hightide.types import NO_EPOCH, format_uuid, parse_uuid

META_FILE = "meta.properties"
STATE_FILE = "directory.state"
FORMAT_VERSION = 1
_META_VERSION = "1"


class Identity(NamedTuple):
    """Which cluster, which node, which disk."""

    cluster_id: str
    node_id: int
    directory_id: bytes


class State(NamedTuple):
    """What the last process left behind."""

    boot_id: str = ""
    broker_epoch: int = NO_EPOCH
    is_unclean: bool = False


def read_identity(files: Files, directory: str) -> Identity | None:
    """Who wrote this directory; None when nobody did."""
    path = f"{directory}/{META_FILE}"
    try:
        data = read_file(files, path)
    except FileNotFoundError:
        return None
    values = parse_properties(data, path)
    try:
        if values["version"] != _META_VERSION:
            raise CorruptionError(f"{path} has version {values['version']}, this release reads {_META_VERSION}")
        return Identity(values["cluster.id"], int(values["node.id"]), parse_uuid(values["directory.id"]))
    except (KeyError, ValueError) as error:
        raise CorruptionError(f"{path} can't be read: {error}") from error


def write_identity(files: Files, directory: str, identity: Identity, rules: Rules) -> None:
    """Make the directory this node's, for good."""
    values = {
        "version": _META_VERSION,
        "cluster.id": identity.cluster_id,
        "node.id": str(identity.node_id),
        "directory.id": format_uuid(identity.directory_id),
    }
    write_atomically(files, f"{directory}/{META_FILE}", format_properties(values), rules)


def check_identity(directory: str, stored: Identity, node_id: int, cluster_id: str | None) -> None:
    """Refuse somebody else's directory."""
    if stored.node_id != node_id:
        raise StorageError(f"{directory} belongs to node {stored.node_id}, this is node {node_id}")
    if cluster_id is not None and stored.cluster_id != cluster_id:
        raise StorageError(f"{directory} belongs to cluster {stored.cluster_id}, this is cluster {cluster_id}")


def read_state(files: Files, directory: str) -> State:
    """The state; CorruptionError when it is missing or unreadable, StorageError when it is from a later release."""
    path = f"{directory}/{STATE_FILE}"
    try:
        values = parse_properties(read_file(files, path), path)
        version = int(values["format.version"])
        state = State(values["boot.id"], int(values["broker.epoch"]), values["unclean"] == "true")
    except FileNotFoundError as error:
        raise CorruptionError(f"{path} is missing, but {META_FILE} is there") from error
    except (KeyError, ValueError) as error:
        raise CorruptionError(f"{path} can't be read: {error}") from error
    if version > FORMAT_VERSION:
        raise StorageError(f"{directory} has format version {version}, this release reads up to {FORMAT_VERSION}")
    return state


def write_state(files: Files, directory: str, state: State, rules: Rules) -> None:
    """Replace the state, durably."""
    values = {
        "format.version": str(FORMAT_VERSION),
        "boot.id": state.boot_id,
        "broker.epoch": str(state.broker_epoch),
        "unclean": "true" if state.is_unclean else "false",
    }
    write_atomically(files, f"{directory}/{STATE_FILE}", format_properties(values), rules)
