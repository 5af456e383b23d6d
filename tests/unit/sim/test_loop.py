"""asyncio on virtual time: its own tools work, the order is law or luck, processes pause and die."""

import asyncio
import gc

import pytest

from hightide.sim.clock import MachineTime
from hightide.sim.scheduler import LivelockError, NothingHappensError
from tests.unit.sim.worlds import SmallWorld


def test_time_passes_only_when_nothing_else_is_to_do() -> None:
    world = SmallWorld()

    async def story() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert world.loop.run_until_complete(story()) == pytest.approx(3600)
    assert world.scheduler.now == pytest.approx(3600)


def test_the_tools_of_asyncio_work() -> None:
    world = SmallWorld()

    async def story() -> list[object]:
        lock, event = asyncio.Lock(), asyncio.Event()
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        seen: list[object] = []

        async def produce() -> None:
            async with lock:
                for number in range(3):
                    await queue.put(number)
            event.set()

        task = asyncio.create_task(produce())
        seen += [await queue.get() for _ in range(3)]
        await event.wait()
        await task
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        seen += await asyncio.gather(*(asyncio.sleep(1, number) for number in range(3)))
        done, pending = await asyncio.wait([asyncio.create_task(asyncio.sleep(1))], timeout=0.5)
        assert not done
        for each in pending:
            each.cancel()
        return seen

    assert world.loop.run_until_complete(story()) == [0, 1, 2, 0, 1, 2]
    assert world.scheduler.now == pytest.approx(11.5, abs=0.01)


def in_order(seed: int, disorder: float) -> list[int]:
    world = SmallWorld(seed, disorder)
    seen: list[int] = []

    async def story() -> None:
        for number in range(20):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(1)

    world.loop.run_until_complete(story())
    return seen


def test_ready_callbacks_run_in_order_or_as_the_seed_says() -> None:
    assert in_order(1, 0.0) == list(range(20))
    assert in_order(1, 1.0) == in_order(1, 1.0) != list(range(20))
    assert in_order(1, 1.0) != in_order(2, 1.0)
    assert sorted(in_order(1, 1.0)) == list(range(20))


def test_timers_of_one_instant_keep_their_order() -> None:
    world = SmallWorld()
    seen: list[int] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        for number in (2, 1, 3):
            loop.call_at(loop.time() + number, seen.append, number)
            loop.call_at(loop.time() + number, seen.append, number + 10)
        loop.call_later(2.5, seen.append, 99).cancel()
        await asyncio.sleep(4)

    world.loop.run_until_complete(story())
    assert seen == [1, 11, 2, 12, 3, 13]


def test_a_paused_process_holds_its_callbacks_and_timers() -> None:
    world = SmallWorld()
    other = world.make_loop("other")
    seen: list[float] = []

    async def ticks() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(round(world.scheduler.now, 1))

    async def story() -> None:
        other.create_task(ticks())
        await asyncio.sleep(2.5)
        other.pause()
        await asyncio.sleep(10)
        assert seen == [1, 2]
        other.resume()
        await asyncio.sleep(1.2)

    world.loop.run_until_complete(story())
    assert seen == [1, 2, 12.5, 13.5]


def test_a_dead_process_does_nothing_more_and_its_coroutines_end() -> None:
    world = SmallWorld()
    other = world.make_loop("other")
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("worked")
        finally:
            seen.append("ended")
            asyncio.get_running_loop().call_soon(seen.append, "never")

    async def story() -> None:
        other.create_task(work())
        other.create_task(work())
        await asyncio.sleep(0.5)
        other.die(lambda: seen.append("buried"))
        await asyncio.sleep(5)

    world.loop.run_until_complete(story())
    gc.collect()
    assert seen == ["ended", "ended", "buried"]
    assert world.errors == []


def test_a_process_may_die_by_its_own_hand() -> None:
    world = SmallWorld()
    other = world.make_loop("other")
    seen: list[str] = []

    async def suicide() -> None:
        other.die(lambda: seen.append("buried"))
        seen.append("last words")
        await asyncio.sleep(0)
        seen.append("never")

    async def story() -> None:
        other.create_task(suicide())
        await asyncio.sleep(1)

    world.loop.run_until_complete(story())
    assert seen == ["last words", "buried"]


def test_exceptions_that_nobody_catches_are_reported() -> None:
    world = SmallWorld()

    async def story() -> None:
        asyncio.get_running_loop().call_soon(int, "x")
        await asyncio.sleep(1)

    world.loop.run_until_complete(story())
    assert world.errors == ["invalid literal for int() with base 10: 'x'"]


def test_waiting_for_what_never_comes_is_an_error() -> None:
    world = SmallWorld()

    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingHappensError):
        world.loop.run_until_complete(story())
    world.loop.die(lambda: None)


def test_callbacks_without_end_are_an_error() -> None:
    world = SmallWorld()

    def again() -> None:
        world.loop.call_soon(again)

    async def story() -> None:
        again()
        await asyncio.sleep(1)

    with pytest.raises(LivelockError):
        world.loop.run_until_complete(story())
    world.loop.die(lambda: None)


@pytest.mark.parametrize(
    "reach", ["getaddrinfo", "run_in_executor", "create_connection", "add_reader", "add_signal_handler", "sock_recv"]
)
def test_the_loop_offers_nothing_of_the_real_world(reach: str) -> None:
    world = SmallWorld()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError):
            await getattr(loop, reach)(None, None)

    world.loop.run_until_complete(story())


def test_tasks_have_the_same_names_in_every_run() -> None:
    def names() -> list[str]:
        world = SmallWorld()

        async def story() -> list[str]:
            tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(3)]
            await asyncio.wait(tasks)
            return [task.get_name() for task in tasks]

        named: list[str] = world.loop.run_until_complete(story())
        return named

    assert names() == names()


# Clocks.


def test_clocks_of_machines_step_drift_and_freeze() -> None:
    world = SmallWorld()
    time = MachineTime(world.scheduler, boot_seconds=500)
    loop = world.make_loop("machine", time)
    fired: list[float] = []

    async def story() -> None:
        wall = time.wall_ms()
        time.step(-5000)
        assert time.wall_ms() == wall - 5000
        assert loop.time() == pytest.approx(500)
        time.drift(0.5)
        loop.call_later(10, lambda: fired.append(world.scheduler.now))
        await asyncio.sleep(19)
        assert fired == []
        await asyncio.sleep(2)
        assert fired == [pytest.approx(20)]
        time.drift(0.0)
        loop.call_later(1, lambda: fired.append(world.scheduler.now))
        frozen = loop.time()
        await asyncio.sleep(50)
        assert loop.time() == frozen
        assert len(fired) == 1
        time.drift(1.0)
        await asyncio.sleep(1.1)
        assert len(fired) == 2

    world.loop.run_until_complete(story())


def test_a_reboot_changes_the_monotonic_clock_and_not_the_wall_clock() -> None:
    world = SmallWorld()
    time = MachineTime(world.scheduler, boot_seconds=500)

    async def story() -> None:
        await asyncio.sleep(10)
        wall = time.wall_ms()
        time.reboot(7)
        assert time.monotonic() == pytest.approx(7)
        assert abs(time.wall_ms() - wall) <= 1

    world.loop.run_until_complete(story())
