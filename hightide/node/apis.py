"""The APIs this node serves, and in which versions: what ApiVersions advertises is exactly this table.

The table names handler modules without importing them: a module is loaded when its API is first called, so that a
node starts lean. The version ranges are Kafka 4.3's; one that a handler can't serve yet does not belong here.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from hightide.wire.versions import FLEXIBLE_FROM, VALID_VERSIONS

PRODUCE: Final = 0
API_VERSIONS: Final = 18

# librdkafka turns features off unless Produce is advertised from 0 on; 0-2 are refused all the same (KAFKA-18659).
ADVERTISED_FROM = {PRODUCE: 0}

BROKER_HANDLERS = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    37: "create_partitions",
    42: "delete_groups",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    47: "offset_delete",
    55: "describe_quorum",
    60: "describe_cluster",
    61: "describe_producers",
    64: "unregister_broker",
    74: "list_config_resources",
    75: "describe_topic_partitions",
}


# Handlers that decode the request themselves, where it lies: the hot paths.
RAW = {"produce", "fetch"}


class Api:
    """One served API. Its handler is the module's function, loaded at the first call."""

    __slots__ = ("_handle", "first", "flexible_from", "is_raw", "key", "last", "module")

    def __init__(self, key: int, module: str) -> None:
        self.key = key
        self.module = module
        self.is_raw = module in RAW
        self.first, self.last = VALID_VERSIONS[key]
        self.flexible_from = FLEXIBLE_FROM.get(key, 1 << 15)
        self._handle: Callable[..., Any] | None = None

    def handler(self) -> Callable[..., Any]:
        """The function, imported when it is first wanted."""
        if self._handle is None:
            self._handle = import_module(f"hightide.node.handlers.{self.module}").handle
        return self._handle


# A controller's own listener: the quorum among themselves, brokers, and tools that ask controllers directly.
CONTROLLER_HANDLERS = {
    1: "quorum_fetch",
    18: "api_versions",
    19: "controller_command",
    20: "controller_command",
    33: "controller_command",
    37: "controller_command",
    43: "controller_command",
    44: "controller_command",
    52: "vote",
    53: "begin_quorum_epoch",
    54: "end_quorum_epoch",
    55: "controller_command",
    56: "controller_command",
    59: "fetch_snapshot",
    62: "controller_command",
    63: "controller_command",
    64: "controller_command",
    67: "controller_command",
}

BROKER_APIS = {key: Api(key, module) for key, module in BROKER_HANDLERS.items()}
CONTROLLER_APIS = {key: Api(key, module) for key, module in CONTROLLER_HANDLERS.items()}
