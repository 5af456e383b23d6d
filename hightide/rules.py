"""The safety rules of the log, each a switch that production never touches.

A rule that no test can catch when it is off does not exist. So every place that keeps a rule asks this object, and
the mutation gate builds one with a single field turned off and expects a checker to notice. Production uses `ALL_ON`.
"""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """Field names carry the number of the rule; docs/concepts/reliability.md tells what each forbids."""

    r3_epoch_before_append: bool = True
    r4_synced_ends_only: bool = True
    r8_new_epoch_every_start: bool = True
    r10_offline_on_failed_sync: bool = True
    r11_producer_state_after_append: bool = True
    r11_duplicates_park: bool = True
    r13_empty_above_high_watermark: bool = True
    r17_quarantine_synced_corruption: bool = True
    r18_atomic_checkpoints: bool = True
    r19_rewrite_unsynced_tail: bool = True
    r19_void_sync_after_truncation: bool = True
    r19_sync_directory_entries: bool = True
    r21_followers_verify: bool = True
    r22_topic_id_before_first_byte: bool = True

    def without(self, name: str) -> "Rules":
        """The same rules with one turned off, for the mutation gate."""
        return replace(self, **{name: False})


ALL_ON = Rules()
RULE_NAMES = tuple(field.name for field in fields(Rules))
