"""What a goal leaves for the brokers: the arithmetic, which rounds count, and what the page says of it."""

import pytest

from bench.comparison import page, room
from bench.comparison.contests import DISK, FLOOR, HIGHTIDE, KAFKA, MOCK, Contest, Floor, Line, Run
from bench.comparison.result import Document, document
from bench.comparison.room import WorkAlone
from bench.trials import Goal

STEADY = Floor(0.3, 3000.0, None)
WRITE = WorkAlone(FLOOR, "cpu_ms_mb", "receive + CRC-32C + write")
TRIPLE = Goal(3.0, at_least=True)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CORES", 2)


def full_batches(mb_s: float, brokers: float, client: float) -> dict[str, float]:
    return {"mb_s": mb_s, "cpu_ms_mb": brokers, "client_ms_mb": client}


def measured(line: Line, *rounds: dict[str, Run]) -> Document:
    contest = Contest("produce", line.what, {}, [line])
    for runs in rounds:
        contest.add(runs, STEADY, STEADY)
    return document([contest], len(rounds), "2.16.0", "idle")


def test_a_goal_of_throughput_leaves_what_the_client_does_not_take() -> None:
    found = room.room("mb_s", TRIPLE, full_batches(2000.0, 0.25, 0.3), full_batches(1000.0, 0.7, 0.3))
    assert found == pytest.approx({"client_takes": 0.3, "left": 2e3 / 3000 - 0.3, "taken": 0.25})


def test_messages_are_counted_by_their_megabytes() -> None:
    small = {**full_batches(200.0, 0.5, 3.0), "messages_s": 2e6}
    found = room.room("messages_s", Goal(1.25, at_least=True), small, {**small, "mb_s": 400.0})
    assert found["left"] == pytest.approx(2e3 / 500 - 3.0)


def test_requests_are_counted_in_microseconds() -> None:
    ours, theirs = {"requests_s": 80_000.0, "cpu_us": 9.0, "client_us": 7.0}, {"requests_s": 50_000.0}
    assert room.room("requests_s", Goal(2.0, at_least=True), ours, theirs)["left"] == pytest.approx(13.0)


def test_a_goal_of_cpu_leaves_its_share_of_the_others() -> None:
    found = room.room("cpu_ms_mb", Goal(0.2, at_least=False), {"cpu_ms_mb": 0.25}, {"cpu_ms_mb": 0.7})
    assert found == pytest.approx({"left": 0.14, "taken": 0.25})


def test_a_run_that_did_not_watch_its_client_leaves_nothing_said() -> None:
    assert room.room("mb_s", TRIPLE, {"mb_s": 2000.0, "cpu_ms_mb": 0.25}, {"mb_s": 1000.0}) == {}


def test_disturbed_rounds_do_not_count() -> None:
    line = Line("produce", "mb_s", "MB/s", goal=TRIPLE, alone=WRITE)
    kafka = Run(full_batches(1000.0, 0.7, 0.3))
    disturbed = Run(full_batches(200.0, 2.5, 3.0), "the host took 0.2 cores away")
    found = measured(
        line, {HIGHTIDE: Run(full_batches(2000.0, 0.25, 0.3)), KAFKA: kafka}, {HIGHTIDE: disturbed, KAFKA: kafka}
    )
    assert found["rows"][0]["room"]["taken"] == 0.25


def shown(line: Line, runs: dict[str, Run]) -> str:
    text = page.markdown(measured(line, runs))
    return next(row for row in text.partition("missed goals")[2].splitlines() if row.startswith(f"| {line.what}"))


def test_the_page_says_which_missed_goals_leave_less_than_the_same_work_takes_alone() -> None:
    line = Line("produce", "mb_s", "MB/s", goal=TRIPLE, alone=WRITE)
    runs = {HIGHTIDE: Run(full_batches(2000.0, 0.31, 0.4)), KAFKA: Run(full_batches(1000.0, 0.7, 0.4))}
    row = (
        "| produce | 3,000 MB/s |  |  | 0.4 ms/MB | 0.267 ms/MB | 0.31 ms/MB | 0.3 ms/MB (receive + CRC-32C + write) |"
    )
    assert shown(line, runs) == f"{row} less than the same work alone |"


def test_a_goal_that_the_client_alone_misses_leaves_nothing() -> None:
    line = Line("produce", "mb_s", "MB/s", goal=TRIPLE, alone=WRITE)
    runs = {HIGHTIDE: Run(full_batches(2000.0, 0.31, 0.7)), KAFKA: Run(full_batches(1000.0, 0.7, 0.7))}
    assert "| 0.7 ms/MB | nothing |" in shown(line, runs)


@pytest.mark.parametrize(("alone", "beyond"), [(2900.0, True), (3100.0, False)])
def test_a_goal_may_ask_more_than_the_client_does_alone(alone: float, beyond: bool) -> None:
    line = Line("produce", "mb_s", "MB/s", goal=TRIPLE, alone=WRITE)
    kafka, mock = Run(full_batches(1000.0, 0.7, 0.1)), Run(full_batches(alone, 0.0, 0.3))
    row = shown(line, {HIGHTIDE: Run(full_batches(2000.0, 0.31, 0.3)), KAFKA: kafka, MOCK: mock})
    assert f"| 3,000 MB/s | {alone:,.0f} MB/s |" in row
    assert row.endswith("| more than the client alone |") is beyond


@pytest.mark.parametrize(("disk", "beyond"), [(2900.0, True), (3100.0, False)])
def test_a_goal_may_ask_more_than_the_disk_takes_alone(disk: float, beyond: bool) -> None:
    line = Line("synced", "mb_s", "MB/s", goal=TRIPLE, alone=WRITE, on_disk=True)
    runs = {HIGHTIDE: Run(full_batches(2000.0, 0.25, 0.2)), KAFKA: Run(full_batches(1000.0, 0.7, 0.2))}
    row = shown(line, {**runs, DISK: Run({"mb_s": disk})})
    assert f"| 3,000 MB/s |  | {disk:,.0f} MB/s |" in row
    assert row.endswith("| more than the disk alone |") is beyond


@pytest.mark.parametrize(("client", "beyond"), [(0.35, True), (0.32, False)])
def test_a_client_on_one_core_is_as_fast_as_that_core(client: float, beyond: bool) -> None:
    line = Line("consume", "mb_s", "MB/s", goal=TRIPLE, alone=WRITE, client_cores=1)
    runs = {HIGHTIDE: Run(full_batches(2000.0, 0.31, client)), KAFKA: Run(full_batches(1000.0, 0.7, client))}
    row = shown(line, runs)
    assert f"| {1e3 / client:,.0f} MB/s |" in row
    assert row.endswith("| more than the client alone |") is beyond


def test_a_missed_goal_with_room_is_not_excused() -> None:
    figure = "produce_p50_us"
    line = Line("p50", figure, "us", goal=Goal(0.5, at_least=False), alone=WorkAlone(MOCK, figure, "it"))
    runs = {name: Run({figure: value}) for name, value in ((HIGHTIDE, 60.0), (KAFKA, 100.0), (MOCK, 40.0))}
    assert shown(line, runs) == "| p50 | 50 us |  |  |  | 50 us | 60 us | 40 us (it) |  |"


def test_goals_that_are_reached_are_not_in_it() -> None:
    line = Line("produce", "mb_s", "MB/s", goal=TRIPLE, alone=WRITE)
    runs = {HIGHTIDE: Run(full_batches(3000.0, 0.25, 0.2)), KAFKA: Run(full_batches(1000.0, 0.7, 0.2))}
    assert "missed goals" not in page.markdown(measured(line, runs))
