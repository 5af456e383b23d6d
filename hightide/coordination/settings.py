"""What a coordinator is told by the broker's settings and by the limits of the system."""

from typing import NamedTuple

from hightide import limits


class GroupSettings(NamedTuple):
    """Times in seconds, as decisions use them; Kafka's defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = limits.GROUP_MEMBERS_MAX
    initial_rebalance_delay: float = 3.0
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offset_metadata_max_bytes: int = 4_096
    groups_max: int = limits.GROUPS_PER_COORDINATOR_MAX
    offsets_max: int = limits.OFFSETS_PER_COORDINATOR_MAX
