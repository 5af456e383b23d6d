"""The comparison's rules: which rounds make a ratio, what is refused, and that a failed row stops no other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.comparison import run as comparison_run
from bench.comparison.contests import FLOOR, HIGHTIDE, KAFKA, Contest, Floor, Line, Run
from bench.comparison.effort import Effort
from bench.comparison.loads import better, fastest
from bench.programs import FailedError
from bench.trials import Figure, Goal, Refusal

STEADY = Floor(0.4, 2000.0, None)


def contest(runners: dict[str, Callable[[], Run]], *lines: Line) -> Contest:
    return Contest("consume", "a contest", runners, list(lines) or [Line("speed", "mb_s", "MB/s")])


def runs_of(hightide: float, kafka: float, disturbance: str | None = None) -> dict[str, Run]:
    return {HIGHTIDE: Run({"mb_s": hightide}), KAFKA: Run({"mb_s": kafka}, disturbance)}


class TestLines:
    def test_a_ratio_is_of_two_runs_of_one_round(self) -> None:
        line = Line("speed", "mb_s", "MB/s", goal=Goal(3.0, at_least=True))
        for hightide, kafka in ((900.0, 300.0), (400.0, 100.0), (700.0, 200.0)):
            line.add(runs_of(hightide, kafka), STEADY, STEADY)
        assert line.verdict(3) == Figure(3.5, 3.0, 4.0, runs=3, left_out=0)

    def test_a_disturbed_reference_leaves_the_round_out(self) -> None:
        line = Line("speed", "mb_s", "MB/s")
        line.add(runs_of(900.0, 300.0), STEADY, STEADY)
        line.add(runs_of(900.0, 100.0, "other processes used 1.0 cores"), STEADY, STEADY)
        verdict = line.verdict(2)
        assert isinstance(verdict, Refusal)
        assert "1 of 2 runs undisturbed" in verdict.reason

    def test_memory_is_what_it_is_whoever_else_runs(self) -> None:
        line = Line("memory", "mb_s", "MB", is_timed=False)
        line.add(runs_of(30.0, 300.0, "other processes used 1.0 cores"), STEADY, STEADY)
        assert line.verdict(1) == Figure(0.1, 0.1, 0.1, runs=1, left_out=0)

    def test_a_machine_that_changed_its_speed_leaves_the_round_out(self) -> None:
        line = Line("speed", "mb_s", "MB/s")
        line.add(runs_of(900.0, 300.0), STEADY, Floor(0.9, 900.0, None))
        assert line.trials[0].disturbance == "the machine's speed changed 2.2-fold around the round"

    def test_the_floor_is_a_reference_too(self) -> None:
        line = Line("a follower", "follower_ms_mb", "ms/MB", (HIGHTIDE, FLOOR))
        held = contest({}, line)
        held.add({HIGHTIDE: Run({"follower_ms_mb": 0.6})}, STEADY, STEADY)
        assert line.trials[0].value == pytest.approx(1.5)

    def test_without_a_second_the_figure_itself_counts(self) -> None:
        line = Line("CPU", "mb_s", "ms/MB", (HIGHTIDE, None))
        line.add(runs_of(0.4, 1.0), STEADY, STEADY)
        assert line.trials[0].value == 0.4


def test_a_system_counts_with_the_placement_of_the_client_that_suits_it_better() -> None:
    any_core = {"produce_p50_us": 215.0, "produce_p99_us": 1_566.0}
    one_core = {"produce_p50_us": 278.0, "produce_p99_us": 900.0}
    assert better([any_core, one_core]) is any_core
    assert better([one_core, any_core]) is any_core


def test_a_system_counts_with_the_queue_of_the_client_that_suits_it_better() -> None:
    short, long = Run({"mb_s": 214.0, "cpu_ms_mb": 5.9}), Run({"mb_s": 174.0, "cpu_ms_mb": 5.3})
    assert fastest([short, long]) == short
    assert fastest([long, short]) == short


def test_a_disturbed_queue_leaves_the_other_out_too() -> None:
    disturbed = Run({"mb_s": 174.0}, "the host took 0.2 cores away")
    assert fastest([Run({"mb_s": 214.0}), disturbed]) == Run({"mb_s": 214.0}, "the host took 0.2 cores away")


def test_the_order_alternates() -> None:
    held = contest({HIGHTIDE: lambda: Run({}), KAFKA: lambda: Run({})})
    assert [held.order(number) for number in range(3)] == [[HIGHTIDE, KAFKA], [KAFKA, HIGHTIDE], [HIGHTIDE, KAFKA]]


def test_rounds_on_both_sides_of_a_goal_ask_for_more() -> None:
    held = contest({}, Line("speed", "mb_s", "MB/s", goal=Goal(3.0, at_least=True)))
    for hightide in (290.0, 310.0, 305.0, 295.0):
        held.add(runs_of(hightide, 100.0), STEADY, STEADY)
        assert not held.settled(3)
    held.add(runs_of(310.0, 100.0), STEADY, STEADY)
    assert held.settled(3)


def test_rounds_on_one_side_of_a_goal_are_enough() -> None:
    held = contest({}, Line("speed", "mb_s", "MB/s", goal=Goal(3.0, at_least=True)))
    for hightide in (290.0, 280.0, 285.0):
        held.add(runs_of(hightide, 100.0), STEADY, STEADY)
    assert held.settled(3)


class StillFloor:
    """Loads that measure nothing but a machine that never changes."""

    library_version = ""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort

    def floor(self) -> Floor:
        return STEADY


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def comparison(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> comparison_run.Comparison:  # fmt: skip
    monkeypatch.setattr(comparison_run, "Loads", StillFloor)
    return comparison_run.Comparison(Effort(tmp_path, said.append), ["consume"])


def test_a_failed_row_says_so_and_the_next_goes_on(comparison: comparison_run.Comparison, said: list[str]) -> None:
    def fails() -> Run:
        raise FailedError("the broker ended with code 1:\nits log")

    broken = contest({HIGHTIDE: fails, KAFKA: lambda: Run({"mb_s": 1.0})})
    sound = contest({HIGHTIDE: lambda: Run({"mb_s": 6.0}), KAFKA: lambda: Run({"mb_s": 2.0})})
    comparison._hold_all([broken, sound])
    assert broken.lines[0].verdict(3) == Refusal("failed: the broker ended with code 1:")
    assert sound.lines[0].verdict(3) == Figure(3.0, 3.0, 3.0, runs=3, left_out=0)
    assert any("its log" in text for text in said)


def test_one_failure_costs_a_round_and_not_the_row(comparison: comparison_run.Comparison) -> None:
    turns = iter([False, True, False, False, False, False])

    def fails_once() -> Run:
        if next(turns):
            raise FailedError("no answer for ten seconds")
        return Run({"mb_s": 4.0})

    held = contest({HIGHTIDE: fails_once, KAFKA: lambda: Run({"mb_s": 2.0})})
    comparison._hold_all([held])
    assert held.lines[0].verdict(3) == Figure(2.0, 2.0, 2.0, runs=3, left_out=0)


def test_disturbed_rows_get_more_rounds_while_there_is_time(comparison: comparison_run.Comparison) -> None:
    noises = iter(["noise", "noise", None, None, None])
    held = contest({HIGHTIDE: lambda: Run({"mb_s": 4.0}, next(noises)), KAFKA: lambda: Run({"mb_s": 2.0})})
    comparison._hold_all([held])
    assert held.lines[0].verdict(3) == Figure(2.0, 2.0, 2.0, runs=3, left_out=2)


def test_a_row_that_nothing_helps_leaves_time_to_the_others(
    comparison: comparison_run.Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("bench.comparison.run.time.monotonic", lambda: now[0])

    def a_minute(disturbance: str | None) -> Run:
        now[0] += 60.0
        return Run({"mb_s": 4.0}, disturbance)

    hopeless = contest({HIGHTIDE: lambda: a_minute("noise"), KAFKA: lambda: Run({"mb_s": 2.0})})
    noises = iter(["noise"] * 3 + [None] * 3)
    helped = contest({HIGHTIDE: lambda: a_minute(next(noises)), KAFKA: lambda: Run({"mb_s": 2.0})})
    comparison._hold_all([hopeless, helped])
    assert len(hopeless.lines[0].trials) == 3 + 4  # a fifth of the 20 minutes
    assert helped.lines[0].verdict(3) == Figure(2.0, 2.0, 2.0, runs=3, left_out=3)


def test_rows_that_were_not_asked_for_are_not_run(comparison: comparison_run.Comparison) -> None:
    held = contest({HIGHTIDE: lambda: pytest.fail("it ran"), KAFKA: lambda: pytest.fail("it ran")})
    held.row = "produce"
    comparison._hold_all([held])
    assert comparison.contests == []
