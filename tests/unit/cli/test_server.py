"""The options of `hightide server`, parsed by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from hightide.cli import server
from hightide.cli.failures import CommandError, ExitCode


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ([], (None, {})),
        (["--config", "f"], ("f", {})),
        (["--config=f"], ("f", {})),
        (["--set", "a=1", "--set=b=x=y", "--set", "c="], (None, {"a": "1", "b": "x=y", "c": ""})),
        (["--set", "a=1", "--set", "a=2"], (None, {"a": "2"})),
        (["--config", "f", "--help"], None),
    ],
)
def test_options(arguments: list[str], parsed: tuple[str | None, dict[str, str]] | None) -> None:
    assert server.parse(arguments) == parsed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--bogus"], "has no option '--bogus'"),
        (["file"], "has no option 'file'"),
        (["--config"], "--config wants a value"),
        (["--set", "a"], "'a' is not KEY=VALUE"),
        (["--set", "=1"], "'=1' is not KEY=VALUE"),
    ],
)
def test_wrong_options(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence) as caught:
        server.parse(arguments)
    assert caught.value.code is ExitCode.USAGE


def test_flags_beat_the_environment_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nnode.id=5\nlog.retention.hours=1\n")
    monkeypatch.setenv("HIGHTIDE_NUM_PARTITIONS", "3")
    monkeypatch.setenv("HIGHTIDE_NODE_ID", "6")
    settings = server.load_settings(str(file), {"num.partitions": "4"})
    assert (settings.num_partitions, settings.node_id, settings.log_retention_ms) == (4, 6, 3_600_000)


def test_wrong_settings_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert server.main(["--set", "num.partition=2", "--set", "node.id=x"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "did you mean 'num.partitions'?" in said
    assert "node.id" in said


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert server.main(["--config", "/nowhere/at.all"]) == ExitCode.NOT_FOUND
    assert capsys.readouterr().err == "hightide: there is no file /nowhere/at.all\n"


def test_a_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xff\xfe\x00")
    assert server.main(["--config", str(file)]) == ExitCode.FAILED
    assert "cannot be read" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert server.main(["--help"]) == ExitCode.DONE
    assert capsys.readouterr().out == server.USAGE


def test_a_server_starts_without_the_tools_of_the_other_commands() -> None:
    heavy = ("typer", "rich", "click", "argparse", "inspect", "json", "asyncio", "difflib")
    script = (
        "import sys\n"
        "from hightide.cli.entry import main\n"
        "assert main(['server', '--help']) == 0\n"
        "from hightide.cli.server import load_settings\n"
        "load_settings(None, {})\n"
        f"print('loaded:', [name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"
