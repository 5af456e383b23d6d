"""The mutation gate of the elected quorum: each rule off in turn, and a named invariant reports it.

Random seeds are blind to some rules: figure 8 of the Raft paper needs five voters and a story. So each rule has a
script, whose head says what it ends with; what the campaign finds besides is in mutations.tsv.
"""

import pytest

from hightide.rules import ALL_ON, RULE_NAMES
from tests.simulation import mutations
from tests.simulation.mutations import ScriptedTrace
from tests.simulation.raft_script import Script, parse

TRACES = [trace for trace in mutations.scripts() if trace.path.parent.name == "raft"]


def test_every_rule_of_the_quorum_has_a_script() -> None:
    assert {trace.rule for trace in TRACES} >= {name for name in RULE_NAMES if name.startswith("r9_")}


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.rule)
def test_a_script_finds_it(trace: ScriptedTrace) -> None:
    _, blocks = parse(trace.path.read_text())
    kept = Script()
    kept.run(blocks)
    assert kept.violation is None
    broken = Script(ALL_ON.without(trace.rule))
    broken.run(blocks)
    assert broken.violation is not None
    assert broken.violation.name == trace.finding
