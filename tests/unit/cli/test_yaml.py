"""What we print as YAML reads back as what it was."""

import json

import pytest

from hightide.cli.yaml import to_yaml


def test_a_document() -> None:
    document = {
        "name": "orders",
        "internal": False,
        "settings": {"retention.ms": "1000"},
        "partitions": [{"partition": 0, "replicas": [1, 2], "offline": []}, {"partition": 1, "replicas": []}],
        "nothing": None,
    }
    assert to_yaml(document) == (
        "name: orders\n"
        "internal: false\n"
        "settings:\n"
        '  retention.ms: "1000"\n'
        "partitions:\n"
        "  - partition: 0\n"
        "    replicas:\n"
        "      - 1\n"
        "      - 2\n"
        "    offline: []\n"
        "  - partition: 1\n"
        "    replicas: []\n"
        "nothing: null\n"
    )


@pytest.mark.parametrize("text", ["true", "No", "null", "1", "1.5", "", "a: b", "- a", "# a", "ä\n", '"', "y", "a "])
def test_texts_that_could_be_misread_are_quoted(text: str) -> None:
    assert to_yaml([text]) == f"- {json.dumps(text, ensure_ascii=False)}\n"


@pytest.mark.parametrize("text", ["orders", "a.b-c_d", "host/path", "t-0@5"])
def test_plain_texts_stay_plain(text: str) -> None:
    assert to_yaml({text: text}) == f"{text}: {text}\n"


@pytest.mark.parametrize(("value", "printed"), [({}, "{}\n"), ([], "[]\n"), (3, "3\n"), ([[1], []], "- - 1\n- []\n")])
def test_small_things(value: object, printed: str) -> None:
    assert to_yaml(value) == printed
