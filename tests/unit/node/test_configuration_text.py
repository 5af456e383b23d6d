"""Configuration files: what java.util.Properties reads, and TOML."""

import pytest

from hightide.metadata.settings.definition import SettingError
from hightide.node.configuration_text import parse_properties, parse_toml

PROPERTIES = r"""
# a comment
! another
num.partitions=3
log.dirs = /data/one
broker.rack : a b
socket.request.max.bytes 1000
listeners=PLAINTEXT://a:1,\
          PLAINTEXT2://b:2
empty=
alone
path=C:\\data
tab=a\tb\u00e9
colon\:key=1
"""


def test_properties_as_java_reads_them() -> None:
    assert parse_properties(PROPERTIES) == {
        "num.partitions": "3",
        "log.dirs": "/data/one",
        "broker.rack": "a b",
        "socket.request.max.bytes": "1000",
        "listeners": "PLAINTEXT://a:1,PLAINTEXT2://b:2",
        "empty": "",
        "alone": "",
        "path": "C:\\data",
        "tab": "a\tbé",
        "colon:key": "1",
    }


def test_a_continued_last_line_counts() -> None:
    assert parse_properties("a=1\\") == {"a": "1"}


def test_a_malformed_escape_is_an_error() -> None:
    with pytest.raises(SettingError, match="malformed"):
        parse_properties("a=\\u12x4")


def test_toml_with_quoted_keys_bare_keys_and_tables() -> None:
    lines = ['"num.partitions" = 3', 'log.dirs = ["a"]', 'listeners = ["A://x:1", "B://x:2"]', "[auto.create.topics]"]
    text = "\n".join([*lines, "enable = false"])
    assert parse_toml(text) == {
        "num.partitions": "3",
        "log.dirs": "a",
        "listeners": "A://x:1,B://x:2",
        "auto.create.topics.enable": "false",
    }


def test_broken_toml_is_an_error() -> None:
    with pytest.raises(SettingError, match="not TOML"):
        parse_toml("a = ")
