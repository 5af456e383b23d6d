"""The scripts of in-sync partitions: what happens is what is written, and each ends otherwise without its rule."""

from pathlib import Path

import pytest

from hightide.rules import ALL_ON
from tests.simulation.partition_script import expectations, run_script

SCRIPTS = sorted((Path(__file__).parents[1] / "scripts" / "replica").glob("*.txt"))
BROKEN = [(path, rule, name) for path in SCRIPTS for rule, name in expectations(path.read_text()).items()]


@pytest.mark.covers("C15", "C20", "C21", "C22", "C23", "C25", "T4", "T6", "C31")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text()
    happened, finding = run_script(text)
    assert happened == text
    assert finding is None


@pytest.mark.parametrize(("path", "rule", "name"), BROKEN, ids=[f"{path.stem}-{rule}" for path, rule, _ in BROKEN])
def test_without_its_rule_a_script_ends_with_a_finding(path: Path, rule: str, name: str) -> None:
    _, finding = run_script(path.read_text(), ALL_ON.without(rule))
    assert finding is not None
    assert finding.name == name


def test_another_log_than_the_written_one_is_noticed() -> None:
    text = "brokers 1\ntopic t 1 min=1\nproduce t\n----\nproduce 0: NOT_LEADER_OR_FOLLOWER\n"
    happened, _ = run_script(text)
    assert happened != text
    assert "produce 0: NONE" in happened
