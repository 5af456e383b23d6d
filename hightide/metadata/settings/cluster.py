"""The settings that make single brokers a cluster: the quorum, sessions and leases, replication, placement, balance.

Part of `BROKER_SETTINGS`; apart from it so that both stay short. Sessions, leases, placement and balance are settled by
the controllers: there their values count, and a broker learns the length of its lease with every heartbeat.
"""

from collections.abc import Iterable
from typing import Final

from hightide.metadata.settings.definition import (
    INT64_MAX,
    Check,
    Setting,
    SettingType,
    Value,
    at_least,
    between,
    one_of,
)
from hightide.metadata.settings.listeners import check_brokers

BOOLEAN, STRING, INT, LONG, LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.LIST,
)

CLUSTER_OWN_DEFAULTS: Final = {
    "broker.heartbeat.interval.ms": "failures are noticed sooner (C12)",
    "broker.session.timeout.ms": "failures are noticed sooner (C12)",
    "replica.lag.time.max.ms": "a stuck follower holds producers up for a shorter time (T7)",
    "replica.fetch.backoff.ms": "a leader that changes is followed again within a tenth of a second",
}
CLUSTER_DEV_PROFILE: Final = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "3000"}
CREATE_WAITS: Final = ("none", "leaders", "all")
PLACEMENT_NAMES: Final = ("rack-aware", "round-robin", "load-aware", "consistent-hash")


def _fixed(name: str, kind: SettingType, default: str | None, what: str, check: Check | None = None) -> Setting:
    return Setting(name, kind, default, what, check)


def _dynamic(name: str, kind: SettingType, default: str | None, what: str, check: Check | None = None) -> Setting:
    return Setting(name, kind, default, what, check, dynamic=True)


def check_roles(_name: str, value: Value) -> str | None:
    """One or both of the two roles, each once."""
    roles = value if isinstance(value, list) else []
    if roles and len(set(roles)) == len(roles) and set(roles) <= {"broker", "controller"}:
        return None
    return "must be broker, controller or both"


def check_placement(_name: str, value: Value) -> str | None:
    """A strategy by name, or one of the user's own as `module:function` (T17)."""
    module, separator, function = str(value).partition(":")
    if value in PLACEMENT_NAMES or (separator and function.isidentifier() and _is_module(module)):
        return None
    return f"must be one of: {', '.join(PLACEMENT_NAMES)}; or module:function for a strategy of your own"


def _is_module(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def quorum_settings() -> Iterable[Setting]:
    """Who the controllers are, and how they agree."""
    yield _fixed(
        "hightide.cluster.id",
        STRING,
        None,
        "The id of the cluster, the same for all its nodes: given to a new data directory, checked in an old one.",
    )
    yield _fixed(
        "controller.quorum.voters",
        LIST,
        "",
        "The controllers as id@host:port,...; empty is a quorum of this process alone.",
        check_brokers,
    )
    yield _fixed("controller.listener.names", LIST, None, "The listeners of the controller, which clients do not see.")
    yield _fixed(
        "inter.broker.listener.name",
        STRING,
        None,
        "The listener that brokers use among themselves; when it is not set, PLAINTEXT or the first that clients see.",
    )
    yield _fixed(
        "controller.quorum.election.timeout.ms",
        INT,
        "1000",
        "How long a candidate waits for votes before it tries again.",
        at_least(1),
    )
    yield _fixed(
        "controller.quorum.fetch.timeout.ms",
        INT,
        "2000",
        "A voter without news of the leader for this time elects; a leader not fetched by a majority resigns.",
        at_least(1),
    )
    yield _fixed(
        "controller.quorum.election.backoff.max.ms",
        INT,
        "1000",
        "The longest random pause after an election that nobody won.",
        at_least(0),
    )
    yield _fixed(
        "controller.quorum.request.timeout.ms",
        INT,
        "2000",
        "How long an answer of another controller is waited for.",
        at_least(1),
    )


def metadata_log_settings() -> Iterable[Setting]:
    """The metadata log: when a snapshot is taken, and how much of the log stays behind it (T19)."""
    yield _fixed(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        "20971520",
        "A snapshot of the metadata is taken when that much was committed since the last one.",
        at_least(1),
    )
    yield _fixed(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        "3600000",
        "A snapshot is taken after this time if anything was committed since the last one; 0 takes none for that.",
        at_least(0),
    )
    yield _fixed(
        "metadata.max.retention.bytes",
        LONG,
        "104857600",
        "How much of the metadata log and its snapshots is kept; the newest snapshot and what follows it always are. "
        "-1 is no limit.",
        at_least(-1),
    )
    yield _fixed(
        "metadata.max.retention.ms",
        LONG,
        "604800000",
        "How long metadata records that a snapshot holds stay in the log too; -1 is no limit.",
        at_least(-1),
    )
    yield _fixed(
        "metadata.log.segment.bytes",
        INT,
        "1073741824",
        "The largest segment of the metadata log. A snapshot begins a new one earlier.",
        at_least(8 * 1024 * 1024),
    )
    yield _fixed(
        "metadata.log.segment.ms",
        LONG,
        "604800000",
        "The metadata log begins a new segment at the latest after this time.",
        at_least(1),
    )


def session_settings() -> Iterable[Setting]:
    """When a broker is given up, and how long it may write without a controller."""
    yield _fixed(
        "broker.heartbeat.interval.ms",
        INT,
        "1000",
        "How often a broker tells the controller that it lives.",
        at_least(1),
    )
    yield _fixed(
        "broker.session.timeout.ms",
        INT,
        "6000",
        "A broker that was silent for this time loses its roles. The same on every controller.",
        at_least(1),
    )
    yield _fixed(
        "hightide.session.check.interval.ms",
        INT,
        "500",
        "How often the controller looks for sessions that ended.",
        at_least(1),
    )
    yield _fixed(
        "hightide.lease.ms",
        INT,
        None,
        "How long a leader accepts writes after a heartbeat; when it is not set, the session less the clocks' drift.",
        at_least(1),
    )
    yield _fixed(
        "hightide.lease.drift.percent",
        INT,
        "5",
        "How much faster one machine's clock may run than another's; a lease is shorter than a session by this.",
        between(0, 50),
    )
    yield _fixed(
        "hightide.lease.strict",
        BOOLEAN,
        "true",
        "Whether a leader whose lease ended refuses writes; false lets acks=all go on while every member of the "
        "maximal in-sync set acknowledges: as available as Kafka without controllers.",
    )


def replication_settings() -> Iterable[Setting]:
    """How followers follow."""
    yield _fixed(
        "replica.lag.time.max.ms",
        LONG,
        "10000",
        "A follower that was not caught up with its leader for this time leaves the in-sync set.",
        at_least(1),
    )
    yield _fixed(
        "replica.fetch.wait.max.ms", INT, "500", "How long a leader holds a follower's fetch without news.", at_least(1)
    )
    yield _fixed("replica.fetch.min.bytes", INT, "1", "How much a follower waits for within that time.", at_least(0))
    yield _fixed(
        "replica.fetch.max.bytes", INT, "1048576",
        "What one fetch asks of a partition; up to four times as much (fsync: eight) where others leave it room.",
        at_least(0),
    )  # fmt: skip
    yield _fixed(
        "replica.fetch.response.max.bytes", INT, "10485760", "The most that one fetch asks of a leader.", at_least(0)
    )
    yield _dynamic(
        "leader.replication.throttled.rate",
        LONG,
        str(INT64_MAX),
        "Bytes a second that this broker sends to those of leader.replication.throttled.replicas that are behind.",
        at_least(0),
    )
    yield _dynamic(
        "follower.replication.throttled.rate",
        LONG,
        str(INT64_MAX),
        "Bytes a second that this broker fetches for its replicas of follower.replication.throttled.replicas that are "
        "behind.",
        at_least(0),
    )
    yield _fixed("replica.fetch.backoff.ms", INT, "100", "The pause of a follower after a failed fetch.", at_least(0))


def controller_settings() -> Iterable[Setting]:
    """Where replicas go, who leads them, and what the creator of a topic waits for."""
    yield _dynamic(
        "hightide.placement",
        STRING,
        "rack-aware",
        "Where new replicas go: round-robin, rack-aware (the same over alternating racks), load-aware (fewest "
        "replicas and leaders first), consistent-hash (a broker more or less moves least), or module:function for a "
        "strategy of your own.",
        check_placement,
    )
    yield _fixed(
        "hightide.create.wait",
        STRING,
        "leaders",
        "What the creator of a topic waits for: none, leaders or all replicas to be open.",
        one_of(*CREATE_WAITS),
    )
    yield _fixed(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        "true",
        "Whether leadership goes back to the first replica of each assignment by itself.",
    )
    yield _fixed("leader.imbalance.check.interval.seconds", LONG, "300", "How often that is looked at.", at_least(1))
