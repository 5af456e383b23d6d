"""K20: assertions and unhandled exceptions in logs."""

import asyncio
import traceback

import pytest

from tests.unit.sim.history.stories import Story

TRACEBACK = """\
12:00:01 ERROR hightide.node: Task exception
Traceback (most recent call last):
  File "node.py", line 3, in run
    assert end >= start
           ^^^^^^^^^^^^
AssertionError: end before start
12:00:02 INFO hightide.node: stopping
"""


def test_a_traceback_is_one_finding_named_by_its_exception() -> None:
    story = Story()
    story.history.logged("broker-1", TRACEBACK)
    assert story.finds("K20") == ["broker-1 line 2: AssertionError: end before start"]


def test_logs_are_read_apart_and_numbered_through() -> None:
    story = Story()
    first, second = TRACEBACK.splitlines()[:3], TRACEBACK.splitlines()[3:]
    story.history.logged("broker-1", "\n".join(first))
    story.history.logged("broker-2", "all is well")
    story.history.logged("broker-1", "\n".join(second))
    story.history.logged("broker-1", "Segmentation fault")
    assert story.finds("K20") == [
        "broker-1 line 2: AssertionError: end before start",
        "broker-1 line 8: Segmentation fault",
    ]


def test_a_log_that_ends_in_a_traceback() -> None:
    story = Story()
    story.history.logged("broker-1", "\n".join(TRACEBACK.splitlines()[:4]))
    assert story.finds("K20") == ["broker-1 line 2: a traceback that was cut off"]


def test_exception_groups() -> None:
    async def fail() -> None:
        raise RuntimeError("no leader")

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    story = Story()
    try:
        asyncio.run(together())
    except ExceptionGroup as error:
        story.history.logged("broker-1", "".join(traceback.format_exception(error)))
    assert "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)" in story.finds("K20")[0]


@pytest.mark.parametrize(
    "line",
    [
        "Task exception was never retrieved",
        "future: <Future finished> exception was never retrieved",
        "RuntimeWarning: coroutine 'x' was never awaited",
        "Exception ignored in: <function f>",
        "Exception in callback Session.answer()",
        "Task was destroyed but it is pending!",
        "Fatal Python error: Segmentation fault",
        "Unhandled exception in event loop",
    ],
)
def test_alarms(line: str) -> None:
    story = Story()
    story.history.logged("broker-1", line)
    assert story.finds("K20") == [f"broker-1 line 1: {line}"]


def test_errors_that_were_handled_are_news_only() -> None:
    story = Story()
    story.history.logged("broker-1", "ERROR orders-0 is offline: OSError(5)\nWARNING exception handled, retrying\n")
    assert story.finds("K20") == []
