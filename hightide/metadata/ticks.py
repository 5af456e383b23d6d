"""What time does to a cluster: sessions end, and leadership goes back to where it is preferred."""

from typing import NamedTuple

from hightide.metadata.balance import balance_leaders
from hightide.metadata.decision import Decision, Plan, View
from hightide.metadata.liveness import Liveness
from hightide.metadata.registrations import fence_brokers
from hightide.types import PartitionKey


class Ticked(NamedTuple):
    """What happened: brokers given up, leaders moved home, partitions whose new leader may miss records (R7)."""

    fenced: tuple[int, ...] = ()
    balanced: int = 0
    possible_losses: tuple[PartitionKey, ...] = ()
    balanced_at: float | None = None
    session_ends_at: float | None = None
    """When the next session ends if nothing is heard: there is no reason to notice it late."""


def tick(view: View, liveness: Liveness, now: float, balanced_at: float | None) -> Decision[Ticked]:
    """Fence every broker whose session ended, together: nobody who is about to be fenced is elected on the way."""
    plan = Plan(view)
    timeout = view.settings.broker_session_timeout_ms / 1000
    expired = liveness.expired(view.image, now, timeout)
    losses: tuple[PartitionKey, ...] = ()
    if expired:
        fencing = fence_brokers(view, expired)
        plan.add(fencing.records)
        losses = fencing.reply.possible_losses
    balanced = 0
    if balanced_at is None:
        balanced_at = now
    elif view.settings.auto_leader_rebalance_enable and _is_due(view, now, balanced_at):
        records, has_more = balance_leaders(plan.view)
        plan.add(records)
        balanced = len(records)
        balanced_at = balanced_at if has_more else now
    ends_at = liveness.next_end(view.image, now, timeout, besides=expired)
    return Decision(plan.records, Ticked(tuple(expired), balanced, losses, balanced_at, ends_at))


def _is_due(view: View, now: float, balanced_at: float) -> bool:
    return now - balanced_at >= view.settings.leader_imbalance_check_interval_seconds
