"""What a comparison writes down: the document, how parts are merged into it, the page and the plots."""

from typing import Any
from xml.etree import ElementTree

import pytest

from bench.comparison import page
from bench.comparison.contests import FLOOR, HIGHTIDE, KAFKA, MOCK, Contest, Floor, Line, Point, Run
from bench.comparison.plots import plots
from bench.comparison.result import Document, document, growth, merged, steepest
from bench.comparison.run import ROWS
from bench.trials import Goal

STEADY = Floor(0.4, 2000.0, None)


def held(row: str, line: Line, hightide: float, other: float, rounds: int = 3) -> Contest:
    contest = Contest(row, line.what, {}, [line])
    names = [name for name in line.pair if name is not None]
    for _ in range(rounds):
        runs = {name: Run({line.figure: value}) for name, value in zip(names, (hightide, other), strict=False)}
        for missing in {HIGHTIDE, KAFKA} - set(runs):
            runs[missing] = Run({line.figure: other})
        contest.add(runs, STEADY, STEADY)
    return contest


def of(*contests: Contest) -> Document:
    return document(list(contests), 3, "2.16.0", "other processes using 0.00 cores before the start (load 0.10)")


@pytest.fixture
def result() -> Document:
    produce = Line("produce 1 KiB", "mb_s", "MB/s", goal=Goal(3.0, at_least=True))
    cost = Line("produce 1 KiB: broker CPU per MB", "cpu_ms_mb", "ms/MB", goal=Goal(0.2, at_least=False))
    ceiling = Line("produce 100 B: of the client's ceiling", "messages_s", "messages/s", (HIGHTIDE, MOCK))
    latency = Line("latency at 300 messages/s: produce p99", "produce_p99_us", "us", goal=Goal(0.5, at_least=False))
    contests = [
        held("produce", produce, 1200.0, 400.0),
        held("produce", cost, 0.69, 2.3),
        held("produce", ceiling, 1_900_000.0, 2_000_000.0),
        held("latency", latency, 300.0, 900.0, rounds=2),
    ]
    for x, hightide, kafka in ((1, 10.0, 50.0), (10, 12.0, 55.0), (100, 130.0, 60.0)):
        point = Point("connections", x)
        speed = Line(f"requests, {x} connections", "requests_s", "requests/s", point=point)
        price = Line(f"requests, {x} connections: broker CPU per request", "cpu_us", "us", point=point)
        contests.append(held("connections", speed, 1e6 / hightide, 1e6 / kafka))
        contests.append(held("connections", price, hightide, kafka))
    return of(*contests)


def row(result: Document, what: str) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in result["rows"] if row["what"] == what)
    return found


def test_the_document_has_the_ratio_both_values_and_whether_the_goal_is_reached(result: Document) -> None:
    found = row(result, "produce 1 KiB")
    assert (found["ratio"], found[HIGHTIDE], found[KAFKA], found["reached"]) == (3.0, 1200.0, 400.0, True)
    assert not row(result, "produce 1 KiB: broker CPU per MB")["reached"]


def test_a_row_without_a_figure_reaches_nothing_and_says_why(result: Document) -> None:
    found = row(result, "latency at 300 messages/s: produce p99")
    assert (found["reached"], found["refused"]) == (False, "2 of 2 runs undisturbed, 3 needed")
    assert "ratio" not in found


def test_a_row_that_was_never_run_is_not_reached_either() -> None:
    line = Line("catch-up", "from_start_s", "s", goal=Goal(1.0, at_least=False))
    found = of(Contest("catch-up", "catch-up", {}, [line]))["rows"][0]
    assert (found["refused"], found["reached"]) == ("not run", False)


def test_parts_measured_again_take_the_places_of_their_rows(result: Document) -> None:
    again = of(held("produce", Line("produce 1 KiB", "mb_s", "MB/s", goal=Goal(3.0, at_least=True)), 2000.0, 400.0))
    both = merged(result, again)
    assert [row["what"] for row in both["rows"]] == [row["what"] for row in result["rows"]]
    assert row(both, "produce 1 KiB")["ratio"] == 5.0
    assert row(both, "produce 1 KiB: broker CPU per MB") == row(result, "produce 1 KiB: broker CPU per MB")


def test_a_row_without_a_figure_replaces_none_with_one(result: Document) -> None:
    disturbed = held("produce", Line("produce 1 KiB", "mb_s", "MB/s", goal=Goal(3.0, at_least=True)), 2000.0, 400.0)
    disturbed.lines[0].trials.pop()
    both = merged(result, of(disturbed))
    assert row(both, "produce 1 KiB") == row(result, "produce 1 KiB")


def test_the_page_names_the_rows_that_were_measured_again(result: Document) -> None:
    again = of(held("produce", Line("produce 1 KiB", "mb_s", "MB/s"), 2000.0, 400.0))
    both = merged(result, {**again, "measured_at": "2026-01-02T03:04:05+00:00"})
    assert both["measured_at"] == result["measured_at"]
    sentence = "Measured again 2026-01-02 03:04 UTC, where it gave a figure: produce. 0 of 3 rounds were left out."
    assert sentence in page.markdown(both)
    assert "Measured again" not in page.markdown(result)


def test_curves_are_medians_in_the_order_of_their_points(result: Document) -> None:
    assert growth(result, "connections")["cpu_us"][KAFKA] == [(1, 50.0), (10, 55.0), (100, 60.0)]
    assert growth(result, "partitions") == {}


def test_the_steepest_step_tells_worse_than_linear() -> None:
    assert steepest([(1, 5.0), (10, 5.0), (100, 50.0)]) == pytest.approx(1.0)
    assert steepest([(1, 5.0), (10, 100.0)]) == pytest.approx(1.301, abs=0.001)
    assert steepest([(1, 5.0)]) is None


def test_the_page_tells_reached_missed_and_refused(result: Document) -> None:
    text = page.markdown(result, plots(result))
    assert "| produce 1 KiB | 1,200 MB/s | Kafka 400 MB/s | 3.00x | at least 3.00x, reached | 3 (3.00x-3.00x) |" in text
    assert "0.30x | at most 0.20x, missed" in text
    assert "at most 0.50x, no figure" in text
    assert "- No figure for latency at 300 messages/s: produce p99: 2 of 2 runs undisturbed, 3 needed." in text
    assert "1.90 M/s | client's mock 2.00 M/s | 95% |" in text
    assert "1 of 3 goals reached, 1 without a figure." in text
    assert "![kafka ratios](kafka-ratios.svg)" in text


def test_the_page_judges_growth(result: Document) -> None:
    sentences = page.growth_sentences(result)
    assert [sentence.split(":")[0] for sentence in sentences] == [HIGHTIDE, KAFKA]
    assert "exponent 1.03, worse than linear" in sentences[0]
    assert "exponent 0.04, not worse than linear" in sentences[1]


def test_every_row_has_a_section() -> None:
    assert set(page.SECTIONS) == set(ROWS)


def test_plots_are_well_formed_and_leave_out_what_has_no_ratio_to_kafka(result: Document) -> None:
    files = plots(result)
    assert set(files) == {"kafka-goals.svg", "kafka-ratios.svg", "kafka-connections.svg"}
    texts = {name: "".join(ElementTree.fromstring(text).itertext()) for name, text in files.items()}
    assert "3.00x" in texts["kafka-ratios.svg"]
    assert "ceiling" not in texts["kafka-ratios.svg"]
    assert "latency at 300" not in texts["kafka-ratios.svg"]
    assert KAFKA in texts["kafka-connections.svg"]


def test_a_floor_row_is_a_multiple(result: Document) -> None:
    line = Line("a follower's CPU per MB", "follower_ms_mb", "ms/MB", (HIGHTIDE, FLOOR), Goal(2.0, at_least=False))
    contest = Contest("three-throughput", line.what, {}, [line])
    for _ in range(3):
        contest.add({HIGHTIDE: Run({"follower_ms_mb": 0.6})}, STEADY, STEADY)
    assert "| floor 0.4 ms/MB | 1.50x | at most 2.00x, reached |" in page.markdown(of(contest))
