"""How records are printed."""

import json

import pytest

from hightide.cli.output import Format
from hightide.cli.record_format import compile_format, heading_of, printer_of
from hightide.client.consumer import ConsumedRecord

RECORD = ConsumedRecord("t", 3, 42, 1_785_240_000_123, b"key", b"value", [("a", b"1"), ("b", None)])
TOMBSTONE = ConsumedRecord("t", 0, 1, 0, b"k", None, ())
BINARY = ConsumedRecord("t", 0, 2, 0, None, b"\xff\x00", ())


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t[%p]@%o\n", b"t[3]@42\n"),
        (r"%k=%v\t%s", b"key=value\tvalue"),
        ("%T %h", b"1785240000123 a=1,b=NULL"),
        ("%K %V %S", b"3 5 5"),
        (r"100%% \\ \x41\r", b"100% \\ A\r"),
        ("ä€", "ä€".encode()),
        ("", b""),
    ],
)
def test_formats(text: str, printed: bytes) -> None:
    assert compile_format(text)(RECORD) == printed


def test_null_is_empty_with_length_minus_one() -> None:
    assert compile_format("[%v] %V [%h]")(TOMBSTONE) == b"[] -1 []"
    assert compile_format("[%k] %K %v")(BINARY) == b"[] -1 \xff\x00"


@pytest.mark.parametrize(("text", "why"), [("%x", "has no %x"), ("abc%", "ends in '%'"), ("abc\\", "ends in")])
def test_what_is_no_format(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compile_format(text)


def test_values_on_lines_when_nothing_is_said() -> None:
    assert printer_of(None, None)(RECORD) == b"value\n"


def test_a_format_beats_an_output() -> None:
    assert printer_of(Format.JSON, "%o")(RECORD) == b"42"


def test_json_lines_hold_everything() -> None:
    line = printer_of(Format.JSON, None)(RECORD)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_785_240_000_123,
        "key": "key",
        "value": "value",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }


def test_bytes_that_are_no_text_are_base64_under_another_name() -> None:
    document = json.loads(printer_of(Format.JSON, None)(BINARY))
    assert document["value_base64"] == "/wA="
    assert "value" not in document


def test_other_outputs() -> None:
    assert printer_of(Format.NAME, None)(RECORD) == b"t-3@42\n"
    assert printer_of(Format.YAML, None)(TOMBSTONE).startswith(b"---\ntopic: t\npartition: 0\noffset: 1\n")
    row = printer_of(Format.TABLE, None)(RECORD)
    assert row.split() == [b"3", b"42", b"2026-07-28T12:00:00.123Z", b"key", b"value"]
    assert heading_of(Format.TABLE).split()[:2] == [b"PARTITION", b"OFFSET"]
    assert heading_of(None) == b""
