"""One answer in four forms."""

import json

import pytest

from hightide.cli.output import Format, Table, show

DOCUMENT = [{"name": "orders", "partitions": 3}]


def printed(output: Format, capsys: pytest.CaptureFixture[str]) -> str:
    rows = [["orders", 3, None, True, [1, 2]], ["x", 10, "", False, []]]
    table = Table(["NAME", "PARTITIONS", "RACK", "WELL", "REPLICAS"], rows, title="two topics")
    show(output, document=DOCUMENT, names=["orders", "x"], tables=lambda: [table])
    return capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(Format.JSON, capsys)) == DOCUMENT


def test_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Format.YAML, capsys) == "- name: orders\n  partitions: 3\n"


def test_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Format.NAME, capsys) == "orders\nx\n"


def test_a_table_in_a_pipe_is_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Format.TABLE, capsys) == (
        "two topics\n"
        "NAME    PARTITIONS  RACK  WELL  REPLICAS\n"
        "orders  3           -     yes   1,2\n"
        "x       10                no    -\n"
    )


def test_a_table_on_a_terminal_is_drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    drawn = printed(Format.TABLE, capsys)
    assert "two topics" in drawn
    assert all(word in drawn for word in ("PARTITIONS", "orders", "1,2"))
