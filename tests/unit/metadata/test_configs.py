"""AlterConfigs and IncrementalAlterConfigs: replace, set, delete, append, subtract, refuse."""

import pytest

from hightide.errors import ErrorCode
from hightide.metadata.config_changes import Operator
from hightide.metadata.entities import ResourceType
from hightide.wire.messages import alter_configs as legacy
from hightide.wire.messages import incremental_alter_configs as incremental
from tests.metadata_quorum import Quorum

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = Operator
REQUEST, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
MISSING, UNREGISTERED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.BROKER_ID_NOT_REGISTERED
THROTTLED = "leader.replication.throttled.replicas"


@pytest.fixture
def quorum() -> Quorum:
    quorum = Quorum()
    quorum.start(1, 2, 3)
    quorum.create("t", 1, 3, configs={"retention.ms": "5"})
    return quorum


def alter(
    quorum: Quorum,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> tuple[ErrorCode, str | None]:
    resource = incremental.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[incremental.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes],
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = quorum.commit(quorum.controller.incremental_alter_configs(request)).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return ErrorCode(response.error_code), response.error_message


def replace(quorum: Quorum, kind: int, name: str, validate_only: bool = False, **values: str | None) -> ErrorCode:
    configs = [legacy.AlterableConfig(name=n.replace("_", "."), value=v) for n, v in values.items()]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = legacy.AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = quorum.commit(quorum.controller.alter_configs(request)).responses
    return ErrorCode(response.error_code)


def settings(quorum: Quorum, kind: ResourceType = TOPIC, name: str = "t") -> dict[str, str]:
    return dict(quorum.image.settings_of(kind, name))


def test_incremental_changes_leave_the_rest(quorum: Quorum) -> None:
    assert alter(quorum, TOPIC, "t", ("segment.ms", SET, "7")) == (ErrorCode.NONE, None)
    assert settings(quorum) == {"retention.ms": "5", "segment.ms": "7"}
    assert alter(quorum, TOPIC, "t", ("retention.ms", DELETE, None), ("never.set", DELETE, None))[0] is ErrorCode.NONE
    assert settings(quorum) == {"segment.ms": "7"}


def test_lists_grow_and_shrink(quorum: Quorum) -> None:
    alter(quorum, TOPIC, "t", (THROTTLED, APPEND, "0:1,0:2"))
    alter(quorum, TOPIC, "t", (THROTTLED, APPEND, "0:2,0:3"))
    assert settings(quorum)[THROTTLED] == "0:1,0:2,0:3"
    alter(quorum, TOPIC, "t", (THROTTLED, SUBTRACT, "0:1,0:9"))
    assert settings(quorum)[THROTTLED] == "0:2,0:3"
    alter(quorum, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert settings(quorum)["cleanup.policy"] == ""
    assert alter(quorum, TOPIC, "t", ("cleanup.policy", APPEND, "compress"))[0] is ErrorCode.INVALID_CONFIG
    alter(quorum, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert settings(quorum)["cleanup.policy"] == "compact"


def test_only_lists_do(quorum: Quorum) -> None:
    what = "Can't APPEND to key retention.ms because its type is not LIST."
    assert alter(quorum, TOPIC, "t", ("retention.ms", APPEND, "5")) == (ErrorCode.INVALID_CONFIG, what)


def test_the_same_value_again_writes_nothing(quorum: Quorum) -> None:
    before = len(quorum.log)
    assert alter(quorum, TOPIC, "t", ("retention.ms", SET, "5"))[0] is ErrorCode.NONE
    assert len(quorum.log) == before


def test_replacing_removes_what_is_not_named(quorum: Quorum) -> None:
    assert replace(quorum, TOPIC, "t", segment_ms="9") is ErrorCode.NONE
    assert settings(quorum) == {"segment.ms": "9"}
    assert replace(quorum, TOPIC, "t") is ErrorCode.NONE
    assert settings(quorum) == {}


def test_validating_changes_nothing(quorum: Quorum) -> None:
    assert alter(quorum, TOPIC, "t", ("segment.ms", SET, "7"), validate_only=True)[0] is ErrorCode.NONE
    assert alter(quorum, TOPIC, "t", ("segment.ms", SET, "x"), validate_only=True)[0] is ErrorCode.INVALID_CONFIG
    assert replace(quorum, TOPIC, "t", validate_only=True) is ErrorCode.NONE
    assert settings(quorum) == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "what"),
    [
        (TOPIC, "no", ("retention.ms", SET, "1"), MISSING, "The topic 'no' does not exist."),
        (TOPIC, "", ("retention.ms", SET, "1"), REQUEST, "Default topic resources are not allowed."),
        (TOPIC, "t", ("retention", SET, "1"), CONFIG, "Unknown topic config name: retention"),
        (TOPIC, "t", ("retention.ms", SET, "-9"), CONFIG, "Invalid value -9 for configuration retention.ms"),
        (TOPIC, "t", ("retention.ms", SET, None), REQUEST, "Null value not supported for : retention.ms"),
        (TOPIC, "t", ("retention.ms", 9, "1"), REQUEST, "Unknown operations type 9"),
        (TOPIC, "t", (THROTTLED, SET, "0:1," * 9000), CONFIG, "The configuration value cannot be added"),
        (BROKER, "x", ("max.connections", SET, "1"), REQUEST, "Node id must be an integer, but it is: x"),
        (BROKER, "9", ("max.connections", SET, "1"), UNREGISTERED, "No node with id 9 found."),
        (BROKER, "", ("node.id", SET, "1"), REQUEST, "Cannot update these configs dynamically: [node.id]"),
        (BROKER, "1", ("max.connections", SET, "-1"), REQUEST, "Invalid value -1 for configuration"),
        (BROKER, "1", ("log.cleaner.threads", SET, "9"), REQUEST, "'log.cleaner.threads' is a Kafka"),
        (BROKER, "1", ("max.connection", SET, "1"), REQUEST, "unknown setting 'max.connection'"),
        (BROKER, "1", ("min.insync.replicas", SET, "1"), CONFIG, "min.insync.replicas is set for a topic"),
        (8, "1", ("x", SET, "1"), REQUEST, "Unknown resource type 8"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be(
    quorum: Quorum, kind: int, name: str, change: tuple[str, int, str | None], code: ErrorCode, what: str
) -> None:
    before = len(quorum.log)
    refused, message = alter(quorum, kind, name, change)
    assert refused is code
    assert (message or "").startswith(what)
    assert len(quorum.log) == before


def test_names_appear_once(quorum: Quorum) -> None:
    twice = alter(quorum, TOPIC, "t", ("segment.ms", SET, "1"), ("segment.ms", SET, "2"))
    assert twice == (ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    resource = legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    request = legacy.AlterConfigsRequest(resources=[resource, resource])
    responses = quorum.commit(quorum.controller.alter_configs(request)).responses
    assert [response.error_message for response in responses] == ["Each resource must appear at most once."] * 2


def test_one_bad_change_spoils_its_resource_only(quorum: Quorum) -> None:
    quorum.create("u", 1, 1)
    resources = [
        incremental.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[
                incremental.AlterableConfig(name="segment.ms", config_operation=SET, value="3"),
                incremental.AlterableConfig(name="flush.ms", config_operation=SET, value=value),
            ],
        )
        for name, value in (("t", "bad"), ("u", "4"))
    ]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources)
    quorum.commit(quorum.controller.incremental_alter_configs(request))
    assert settings(quorum) == {"retention.ms": "5"}
    assert settings(quorum, name="u") == {"segment.ms": "3", "flush.ms": "4"}


def test_broker_settings_take_effect_in_the_controller(quorum: Quorum) -> None:
    assert alter(quorum, BROKER, "", ("log.retention.ms", SET, "77"))[0] is ErrorCode.NONE
    assert quorum.controller.settings.log_retention_ms == 77
    assert alter(quorum, BROKER, "02", ("max.connections", SET, "9"))[0] is ErrorCode.NONE
    assert settings(quorum, BROKER, "2") == {"max.connections": "9"}
    assert settings(quorum, BROKER, "") == {"log.retention.ms": "77"}


def test_a_change_of_min_insync_replicas_recomputes_who_is_eligible(quorum: Quorum) -> None:
    """R23: with 2 needed, the members that left stay eligible; with 1 needed, one in-sync member is enough."""
    alter(quorum, TOPIC, "t", ("min.insync.replicas", SET, "2"))
    quorum.commit(quorum.controller.fence_broker(2))
    quorum.commit(quorum.controller.fence_broker(3))
    assert quorum.partition("t").in_sync_replicas == (1,)
    assert quorum.partition("t").eligible_leader_replicas == (3,)
    before = len(quorum.log)
    alter(quorum, TOPIC, "t", ("min.insync.replicas", DELETE, None))
    assert quorum.partition("t").eligible_leader_replicas == ()
    assert len(quorum.log) == before + 2


def test_the_clusters_min_insync_replicas_counts_where_a_topic_says_nothing(quorum: Quorum) -> None:
    quorum.create("own", 1, 3, configs={"min.insync.replicas": "3"})
    alter(quorum, BROKER, "", ("min.insync.replicas", SET, "3"))
    quorum.commit(quorum.controller.fence_broker(3))
    assert quorum.partition("t").eligible_leader_replicas == quorum.partition("own").eligible_leader_replicas == (3,)
    alter(quorum, BROKER, "", ("min.insync.replicas", DELETE, None))
    assert quorum.partition("t").eligible_leader_replicas == ()
    assert quorum.partition("own").eligible_leader_replicas == (3,)
