"""`hightide sim`: what it runs, what it prints, and how it ends."""

import json

import pytest

from hightide.cli import sim
from hightide.cli.application import main
from hightide.cli.failures import ExitCode
from hightide.rules import ALL_ON
from hightide.sim.seeds import Case, Report


def report(case: Case, *problems: str) -> Report:
    return Report(case, "00", problems, ("  1.0  broker-1  is killed",), True, 600, 2, 3, 5000, 3600.0, 60.0)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """Seeds are noted instead of run; seed 13 fails."""
    cases: list[Case] = []

    def run(case: Case) -> Report:
        cases.append(case)
        return report(case, *["K4 at 1.0 s: a value is gone"] * (case.seed == 13))

    monkeypatch.setattr(sim, "run_case", run)
    monkeypatch.setattr(sim, "shrink", lambda failed, _: failed._replace(case=failed.case._replace(brokers=1)))
    return cases


def test_every_world_gets_every_seed(ran: list[Case]) -> None:
    assert main(["sim", "--seed", "3", "--seeds", "2"]) == ExitCode.DONE
    assert [(case.world, case.seed) for case in ran] == [
        (world, seed) for seed in (3, 4) for world in ("quorum", "partitions", "groups", "nodes")
    ]


@pytest.mark.parametrize(
    ("options", "worlds"),
    [
        (["--level", "0"], ["quorum", "partitions", "groups"]),
        (["--level", "1"], ["nodes"]),
        (["--world", "quorum"], ["quorum"]),
    ],
)
def test_levels_and_worlds(ran: list[Case], options: list[str], worlds: list[str]) -> None:
    assert main(["sim", *options]) == ExitCode.DONE
    assert [case.world for case in ran] == worlds


def test_a_plan_made_smaller(ran: list[Case]) -> None:
    options = ["--brokers", "3", "--faults", "2,5", "--disorder", "0.3", "--finale", "kill"]
    main(["sim", "--level", "1", "--seed", "9", "--without", "r4_synced_ends_only", *options])
    assert ran == [Case("nodes", 9, ALL_ON.without("r4_synced_ends_only"), 3, frozenset({2, 5}), 0.3, "kill")]
    main(["sim", "--level", "1", "--faults", "none"])
    assert ran[-1].faults == frozenset()


def test_totals(ran: list[Case], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--level", "1", "--seeds", "4", "-o", "json"]) == ExitCode.DONE
    (world,) = json.loads(capsys.readouterr().out)["worlds"]
    assert world == {
        "world": "nodes", "seeds": 4, "counted": 4, "acknowledged": 2400, "leader_changes": 8, "faults": 12,
        "events": 20000, "events_a_second": 83, "simulated_hours": 4.0, "hours_a_minute": 1.0, "failed": 0,
    }  # fmt: skip


def test_the_first_failure_ends_it(ran: list[Case], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--level", "1", "--seed", "12", "--seeds", "100"]) == ExitCode.FAILED
    assert [case.seed for case in ran] == [12, 13]
    out = capsys.readouterr().out
    assert "seed 13 fails" in out
    assert "a value is gone" in out
    assert "broker-1  is killed" in out
    assert "hightide sim --seed 13 --world nodes --brokers 1" in out


def test_time_is_up(ran: list[Case]) -> None:
    assert main(["sim", "--minutes", "0"]) == ExitCode.DONE
    assert ran == []


@pytest.mark.parametrize(
    "options",
    [["--world", "moon"], ["--without", "r99"], ["--faults", "one"], ["--finale", "applause"], ["--level", "7"]],
)
def test_wrong_options(ran: list[Case], options: list[str]) -> None:
    assert main(["sim", *options]) == ExitCode.USAGE
    assert ran == []


def test_several_processes_run_real_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--world", "quorum", "--seeds", "3", "--jobs", "2", "-o", "json"]) == ExitCode.DONE
    (world,) = json.loads(capsys.readouterr().out)["worlds"]
    assert world["seeds"] == 3
    assert world["acknowledged"] > 500


def test_a_run_that_holds_is_told_and_shown_on_request(ran: list[Case], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--level", "1"]) == ExitCode.DONE
    told = capsys.readouterr()
    assert "no promise was broken; 1.00 hours were simulated, 1.0 in a minute of one processor" in told.err
    assert "is killed" not in told.out
    assert main(["sim", "--level", "1", "--timeline"]) == ExitCode.DONE
    assert "broker-1  is killed" in capsys.readouterr().out


def test_the_command_that_runs_it_again_leaves_the_same_rule_out(ran: list[Case]) -> None:
    main(["sim", "--level", "1", "--seed", "9", "--without", "r4_synced_ends_only"])
    assert ran[0].command == "hightide sim --seed 9 --world nodes --without r4_synced_ends_only"
