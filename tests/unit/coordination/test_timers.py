"""The heap of deadlines."""

from hightide.coordination.timers import Kind, Timers


def test_entries_come_in_the_order_of_their_time() -> None:
    timers = Timers()
    assert len(timers) == 0
    late = timers.add(5.0, Kind.SESSION, "g", "m")
    early = timers.add(3.0, Kind.JOIN, "g")
    assert (timers.next_at, len(timers)) == (3.0, 2)
    assert timers.pop(2.9) is None
    popped = [timers.pop(9.0), timers.pop(9.0), timers.pop(9.0)]
    assert [None if each is None else each.number for each in popped] == [early, late, None]


def test_a_heartbeat_costs_no_entry() -> None:
    from tests.unit.coordination.desks import Desk

    desk = Desk()
    (one,) = desk.stable()
    before = len(desk.machine.classic.timers)
    for _ in range(100):
        desk.now += 0.01
        desk.beat(one)
    assert len(desk.machine.classic.timers) == before
