"""A bench row prints a figure only from runs that can be believed."""

from bench.trials import Figure, Goal, Refusal, Row, Trial, compared


def row_of(*trials: Trial) -> Row:
    return Row("share", "replicated", "all", "share", trials=list(trials))


def test_the_median_of_undisturbed_runs_is_the_figure() -> None:
    row = row_of(Trial(0.8), Trial(0.1, "other processes used 1.0 cores"), Trial(0.82), Trial(0.78))
    assert row.verdict(3) == Figure(0.8, 0.78, 0.82, runs=3, left_out=1)


def test_too_few_undisturbed_runs_print_none() -> None:
    row = row_of(Trial(0.8), Trial(0.8), Trial(0.8, "the host took 0.4 cores away"))
    verdict = row.verdict(3)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "2 of 3 runs undisturbed, 3 needed (the last: the host took 0.4 cores away)"


def test_runs_that_disagree_print_none() -> None:
    verdict = row_of(Trial(0.4), Trial(0.5), Trial(0.8), Trial(0.9)).verdict(3)
    assert isinstance(verdict, Refusal)
    assert "spreads over" in verdict.reason


def test_the_median_of_many_runs_is_known_better_than_they_agree() -> None:
    runs = [Trial(value) for value in (0.80, 1.0, 1.2)]
    assert isinstance(row_of(*runs, Trial(0.7), Trial(1.3)).verdict(3), Refusal)
    assert isinstance(row_of(*runs * 4, Trial(0.7), Trial(1.3)).verdict(3), Figure)


def test_a_run_is_compared_with_the_reference_on_both_sides() -> None:
    trial = compared(90.0, 100.0, 140.0, [None, None, None], {})
    assert (trial.value, trial.disturbance) == (0.75, None)


def test_a_reference_that_changed_meanwhile_disturbs_the_run() -> None:
    assert compared(90.0, 100.0, 200.0, [None], {}).disturbance == "the machine's speed changed 2.0-fold around the run"


def test_one_disturbed_run_of_the_three_is_enough() -> None:
    assert compared(1.0, 1.0, 1.0, [None, "noise", None], {}).disturbance == "noise"


def test_goals_have_a_direction() -> None:
    assert Goal(0.75, at_least=True).reached(0.75)
    assert not Goal(0.75, at_least=True).reached(0.74)
    assert Goal(1.3, at_least=False).reached(1.3)
    assert not Goal(1.3, at_least=False).reached(1.31)
