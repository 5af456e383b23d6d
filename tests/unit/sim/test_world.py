"""A simulated world: the real world raises in it, logs go to its timeline, and plans are functions of their seed."""

import asyncio
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hightide.sim.guard import RealWorldError
from hightide.sim.plan import KINDS, make_plan
from hightide.sim.seeds import Case
from hightide.sim.topology import node_settings
from hightide.sim.world import World


@pytest.mark.parametrize(
    "reach",
    [
        lambda: time.time(),
        lambda: time.monotonic(),
        lambda: time.sleep(0),
        lambda: socket.socket(),
        lambda: Path("/dev/null").read_text(),
        lambda: os.open("/dev/null", os.O_RDONLY),
        lambda: os.urandom(1),
        lambda: random.random(),
        lambda: threading.Thread(target=print).start(),
    ],
)
def test_the_real_world_raises(reach: Callable[[], Any]) -> None:
    world = World(1)

    async def story() -> None:
        with pytest.raises(RealWorldError):
            reach()

    world.run(story())
    world.close()
    assert time.time() > 0, "and comes back afterwards"


def test_other_threads_keep_the_real_world() -> None:
    """The clusters and clients of a test run live on in threads of their own while a world runs."""
    world, begun, ended = World(1), threading.Event(), threading.Event()
    found: list[object] = []

    def work() -> None:
        begun.wait(60)
        try:
            with socket.socket() as opened:
                found.append(isinstance(opened, socket.socket))
            found.append(time.monotonic() > 0)
            logging.getLogger("hightide.test").error("not of that world")
        except RealWorldError as error:
            found.append(error)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()

    async def story() -> None:
        begun.set()
        while not ended.is_set():
            await asyncio.sleep(1)

    world.run(story())
    world.close()
    thread.join()
    assert found == [True, True]
    assert world.trace.problems == []
    assert not any("not of that world" in line for line in world.trace.timeline)


def test_warnings_are_lines_and_tracebacks_are_problems() -> None:
    world = World(1)
    log = logging.getLogger("hightide.test")

    async def story() -> None:
        log.info("not for people")
        log.warning("the disk is %s", "full")
        try:
            raise KeyError("k")
        except KeyError:
            log.exception("it broke")

    world.run(story())
    world.close()
    assert any("the disk is full" in line for line in world.trace.timeline)
    assert not any("not for people" in line for line in world.trace.timeline)
    assert [problem.check for problem in world.trace.problems] == ["K20"]
    assert "test_world.py" in world.trace.problems[0].text


def test_a_world_starts_and_stops_nodes_by_their_settings() -> None:
    world = World(1)
    nodes = [world.add_node(f"broker-{number}", node_settings(number, 1)) for number in (1,)]
    lonely = world.add_node("broker-2", {"node.id": "2", "listeners": "PLAINTEXT://broker-2:9092"})

    async def story() -> None:
        for node in (*nodes, lonely):
            node.start()
        assert await world.until(lambda: all(node.is_up for node in (*nodes, lonely))), world.trace.timeline
        lonely.stop()
        assert await world.until(lambda: lonely.node is None)
        lonely.lose_power()
        lonely.start()
        assert await world.until(lambda: lonely.is_up)
        await asyncio.sleep(10)

    world.run(story())
    world.close()
    assert world.trace.problems == []
    assert lonely.lives == 2


def test_plans_are_functions_of_their_seed() -> None:
    assert make_plan(7) == make_plan(7)
    assert make_plan(7).faults != make_plan(8).faults
    assert make_plan(7, 1).faults == make_plan(7, 5).faults, "a plan can be shrunk to fewer nodes"
    kinds = {fault.kind for seed in range(200) for fault in make_plan(seed).faults}
    assert kinds == KINDS.keys()
    quiet = [seed for seed in range(50) if len(make_plan(seed).faults) < 4]
    assert len(quiet) < 10


def test_a_case_tells_how_to_run_it_again() -> None:
    case = Case("nodes", 9, brokers=3, faults=frozenset({4, 2}), disorder=0.05, finale="power loss")
    assert case.command == (
        "hightide sim --seed 9 --world nodes --brokers 3 --faults 2,4 --disorder 0.05 --finale 'power loss'"
    )
    assert [fault.number for fault in case.plan.faults] == [
        fault.number for fault in make_plan(9, 3).faults if fault.number in (2, 4)
    ]
