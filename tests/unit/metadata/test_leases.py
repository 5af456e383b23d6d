"""Leases: whoever may write does not overlap with whoever may be elected (R16, C14, I12).

Real time is the test's; the broker's clock runs slower than the controllers' by up to the stated drift. A broker asks
the old controller, then that one is cut off (its majority is last known to follow it at `cut`) and another one
activates. The lease is the broker's: send time less the age, plus the length that it was told.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hightide.rules import ALL_ON, Rules
from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.metadata_world import SESSION, World

DRIFT = 0.05


def overlap(
    rules: Rules, *, sent: float, delay: float, cut: float | None, activated: float, slow: float = DRIFT
) -> float:
    """How long a lease outlives the moment at which another leader can be elected; negative when it ends before."""
    world = World(rules)
    world.create("t", [1, 2, 3])
    for broker_id in (2, 3):
        world.kill(broker_id)  # nobody else matters, and they are not fenced before time passes
    arrival = sent + delay
    age = 0.0 if cut is None else max(0.0, arrival - cut)
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=world.brokers[1].epoch, current_metadata_offset=world.quorum.image.offset
    )
    reply = world.quorum.commit(world.controller.heartbeat(request, arrival, age))
    lease_end = sent + (reply.lease_ms - reply.lease_age_ms) / 1000 / (1 - slow)
    if cut is not None:
        world.controller.deactivated()
        world.controller.activated(activated, 2)
    now = max(arrival, activated if cut is not None else 0.0)
    while 1 not in world.quorum.commit(world.controller.tick(now)).fenced:
        now += 0.01
    return lease_end - now


times = st.floats(0.0, 20.0)


@given(sent=times, delay=st.floats(0.0, 5.0), is_cut=st.booleans(), before=st.floats(0.0, 10.0), after=times)
def test_leases_end_before_anybody_else_can_be_elected(
    sent: float, delay: float, is_cut: bool, before: float, after: float
) -> None:
    cut = max(0.0, sent + delay - before) if is_cut else None
    activated = (cut or 0.0) + after
    assert overlap(ALL_ON, sent=sent, delay=delay, cut=cut, activated=activated) <= 0.001


@pytest.mark.parametrize(
    ("rule", "trace"),
    [
        ("r16_lease_ages", {"sent": 12.0, "delay": 0.1, "cut": 1.0, "activated": 4.0}),
        ("r16_sessions_restart", {"sent": 1.0, "delay": 0.1, "cut": 1.1, "activated": 1.2}),
        ("r16_lease_below_session", {"sent": 1.0, "delay": 0.1, "cut": None, "activated": 0.0}),
    ],
)
def test_without_a_rule_they_overlap(rule: str, trace: dict[str, float]) -> None:
    assert overlap(ALL_ON, **trace) <= 0.001
    assert overlap(ALL_ON.without(rule), **trace) > 0.1


def test_a_heartbeat_is_told_the_age_rounded_up_and_the_length() -> None:
    world = World()
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=world.brokers[1].epoch, current_metadata_offset=world.quorum.image.offset
    )
    reply = world.controller.heartbeat(request, 0.0, 0.1234).reply
    assert (reply.lease_age_ms, reply.lease_ms, reply.controller_epoch) == (124, int(SESSION * 950), 1)
    assert world.controller.heartbeat(request, 0.0, -1.0).reply.lease_age_ms == 0


def test_nobody_who_is_fenced_and_nobody_without_a_majority_gets_a_lease() -> None:
    world = World()
    world.register(1)
    fenced = BrokerHeartbeatRequest(broker_id=1, broker_epoch=world.brokers[1].epoch, want_fence=True)
    assert world.controller.heartbeat(fenced, 0.0, 0.0).reply.lease_age_ms == -1
    live = BrokerHeartbeatRequest(broker_id=2, broker_epoch=world.brokers[2].epoch, current_metadata_offset=99)
    assert world.controller.heartbeat(live, 0.0, None).reply.lease_age_ms == -1
