"""The facts are read as Kafka's own generator reads them."""

import json
from pathlib import Path
from typing import Any

import pytest

from codegen import schema
from codegen.layouts import Step, branches
from codegen.modules import name_classes, plan_modules


def _fields(group: str, message: str) -> dict[str, schema.Field]:
    found = next(each for each in schema.load()[group] if each.name == message)
    return {field.name: field for structure in [*found.structures, found] for field in structure.fields}


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("TopicData", "topic_data"),
        ("topicId", "topic_id"),
        ("KRaftVersion", "k_raft_version"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
    ],
)
def test_names_become_snake_case(name: str, snake: str) -> None:
    assert schema.snake_case(name) == snake


def test_version_ranges() -> None:
    assert schema.parse_versions("none") == schema.NO_VERSIONS
    assert schema.parse_versions("3") == schema.Versions(3, 3)
    assert schema.parse_versions("3-5") == schema.Versions(3, 5)
    assert 31_000 in schema.parse_versions("3+")


def test_a_json_null_is_no_default_but_the_word_is() -> None:
    group_fields = _fields("group", "ConsumerGroupCurrentMemberAssignmentValue")
    assert group_fields["assignment_epochs"].default == schema.EMPTY
    assert _fields("metadata", "PartitionChangeRecord")["isr"].default is None


def test_versions_missing_are_the_tagged_versions() -> None:
    assert _fields("transaction", "TransactionLogValue")["next_producer_id"].versions == schema.Versions(
        1, schema.NEVER
    )


def test_a_shared_structure_lives_in_all_versions_of_its_users() -> None:
    found = next(each for each in schema.load()["rpc"] if each.name == "AddPartitionsToTxnRequest")
    topic = next(structure for structure in found.structures if structure.name == "AddPartitionsToTxnTopic")
    assert topic.versions == {0, 1, 2, 3, 4, 5}


def test_structures_of_one_name_in_one_module_take_their_messages_name() -> None:
    modules = plan_modules(schema.load())
    names = [structure.class_name for message in modules["vote"][1] for structure in message.structures]
    assert "VoteRequestTopicData" in names
    assert "VoteResponseTopicData" in names
    assert "NodeEndpoint" in names
    with pytest.raises(ValueError, match="two classes"):
        name_classes([schema.Message("Same"), schema.Message("Same")])


@pytest.mark.parametrize(
    "additions",
    [
        {"fields": [{"message": "FetchRequest", "field": {"tag": 2}}], "messages": {}},
        {"fields": [], "messages": {"rpc": [{"name": "Own", "apiKey": 93}]}},
        {"fields": [], "messages": {"metadata": [{"name": "OwnRecord", "recordType": 29}]}},
    ],
)
def test_our_additions_keep_out_of_kafkas_numbers(
    additions: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "additions.json"
    path.write_text(json.dumps(additions))
    monkeypatch.setattr(schema, "ADDITIONS", path)
    with pytest.raises(ValueError, match="10000"):
        schema.load()


def test_our_own_api_and_record_are_generated_like_kafkas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {
        "validVersions": "0",
        "flexibleVersions": "0+",
        "fields": [{"name": "Id", "type": "int32", "versions": "0+"}],
    }
    additions = {
        "fields": [],
        "messages": {
            "rpc": [
                own | {"name": "TideRequest", "type": "request", "apiKey": 10_000},
                own | {"name": "TideResponse", "type": "response", "apiKey": 10_000},
            ],
            "metadata": [own | {"name": "TideRecord", "type": "metadata", "recordType": 10_000}],
        },
    }
    path = tmp_path / "additions.json"
    path.write_text(json.dumps(additions))
    monkeypatch.setattr(schema, "ADDITIONS", path)
    modules = plan_modules(schema.load())
    assert [message.name for message in modules["tide"][1]] == ["TideRequest", "TideResponse"]
    assert modules["metadata_log"][1][-1].number == 10_000


def test_steps_that_change_together_share_a_branch() -> None:
    steps: list[Step] = [
        {0: ("a",), 1: ("b",), 2: ("b",)},
        {0: ("c",), 1: ("d",), 2: ("d",)},
        {0: ("e",), 1: ("e",), 2: ("e",)},
        {0: (), 1: (), 2: ("f",)},
    ]
    assert branches(steps) == [
        "if version >= 1:", "    b", "    d", "else:", "    a", "    c", "e", "if version >= 2:", "    f",
    ]  # fmt: skip
