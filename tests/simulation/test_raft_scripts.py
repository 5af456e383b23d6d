"""The scripts of the elected quorum: each command's log is the one written in the script."""

from pathlib import Path

import pytest

from tests.simulation.raft_script import Script, parse

SCRIPTS = sorted((Path(__file__).parents[1] / "scripts" / "raft").glob("*.txt"))


@pytest.mark.covers("T8", "N8", "C23")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    _, blocks = parse(path.read_text())
    script = Script()
    assert script.run(blocks) == blocks
    assert script.violation is None


def test_a_log_that_differs_is_noticed() -> None:
    blocks = [("quorum 1\nstart 1", ""), ("show", "1 leader epoch 1 leader 1, log 0..1 [1:-] hw 1")]
    assert Script().run(blocks) != blocks
