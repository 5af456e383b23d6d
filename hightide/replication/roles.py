"""When a broker may take the roles that metadata gives it (R8).

A process that restarted replays metadata of its former life first, in which it may still lead. Acting on that would let
two lives write in one leader epoch; so it takes no role until its own registration is in what it has replayed. The
commit of that registration fenced the former life, and every partition that one led got a new leader epoch by it.
"""

from collections.abc import Mapping

from hightide.replication.events import BrokerState
from hightide.rules import Rules


def may_take_roles(node_id: int, broker_epoch: int, brokers: Mapping[int, BrokerState], rules: Rules) -> bool:
    """Whether replayed metadata knows this life: `broker_epoch` is what the controller answered to registering it."""
    if not rules.r8_roles_after_own_registration:
        return True
    registered = brokers.get(node_id)
    return registered is not None and registered.epoch == broker_epoch
