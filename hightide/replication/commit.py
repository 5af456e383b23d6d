"""When a record is committed: the arithmetic of DESIGN section 1 that needs no knowledge of replicas.

The law behind both: every set that can commit shares a member with every set that can choose the next leader. In-sync
commit needs *every* member of the in-sync set, from which the controller appoints; majority commit needs a majority,
and so does an election. Mixing the two loses data; so in-sync commit is computed where the in-sync set is known
(`leadership`), majority commit here, and neither takes the other's arguments.
"""

from collections.abc import Sequence


def majority_high_watermark(current: int, synced_ends: Sequence[int], epoch_start: int) -> int:
    """R9: the (n//2+1)-th highest synced end among voters, once it covers a record of the leader's own epoch."""
    if not synced_ends:
        return current
    reached = sorted(synced_ends, reverse=True)[len(synced_ends) // 2]
    return max(current, reached) if reached > epoch_start else current


def effective_minimum(min_in_sync_replicas: int, replica_count: int) -> int:
    """KIP-966: a topic with fewer replicas than the minimum is held to what it has."""
    return min(min_in_sync_replicas, replica_count)
