"""The safety rules of the log, each a switch that production never touches.

A rule that no test can catch when it is off does not exist. So every place that keeps a rule asks this object, and
the mutation gate builds one with a single field turned off and expects a checker to notice. Production uses `ALL_ON`.
"""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """Field names carry the number of the rule; docs/concepts/reliability.md tells what each forbids."""

    r1_truncate_by_epoch: bool = True
    r1_cut_to_own_epoch_end: bool = True
    r1_discard_diverging_answer: bool = True
    r2_fence_leader_epoch: bool = True
    r2_drop_answers_of_other_epochs: bool = True
    r3_epoch_before_append: bool = True
    r4_synced_ends_only: bool = True
    r4_unknown_position_blocks: bool = True
    r4_positions_of_this_epoch: bool = True
    r4_positions_of_this_life: bool = True
    r4_proposed_members_count: bool = True
    r4_minimum_of_committed_set: bool = True
    r5_join_at_high_watermark: bool = True
    r5_join_at_epoch_start: bool = True
    r5_join_live_only: bool = True
    r6_proposals_end_by_image: bool = True
    r6_adopt_from_image: bool = True
    r6_compare_and_set: bool = True
    r6_epochs_before_identity: bool = True
    r6_identical_retry_succeeds: bool = True
    r6_refusal_ends_attempts: bool = True
    r7_leader_has_everything: bool = True
    r7_eligible_empty_at_minimum: bool = True
    r7_removed_are_not_eligible: bool = True
    r7_all_last_known_back: bool = True
    r7_lost_never_return: bool = True
    r7_longest_log_leads: bool = True
    r7_unclean_only_if_allowed: bool = True
    r8_new_epoch_every_start: bool = True
    r8_roles_after_own_registration: bool = True
    r8_uncleanness_stays: bool = True
    r8_unfence_after_replay: bool = True
    r8_other_directory_is_lost: bool = True
    r8_older_epoch_is_lost: bool = True
    r8_short_log_is_lost: bool = True
    r8_unclean_replicated_leaves: bool = True
    r8_former_life_is_refused: bool = True
    r9_prevote: bool = True
    r9_durable_vote: bool = True
    r9_up_to_date_votes: bool = True
    r9_synced_ends: bool = True
    r9_own_epoch: bool = True
    r9_never_resume_epoch: bool = True
    r9_check_quorum: bool = True
    r9_keep_committed: bool = True
    r9_snapshots_on_boundaries: bool = True
    r9_directory_ids: bool = True
    r10_offline_on_failed_sync: bool = True
    r10_unready_replicas_leave: bool = True
    r11_producer_state_after_append: bool = True
    r11_duplicates_park: bool = True
    r13_empty_above_high_watermark: bool = True
    r13_high_watermark_after_append: bool = True
    r14_answer_after_commit: bool = True
    r14_fence_generations: bool = True
    r14_fence_instances: bool = True
    r14_static_changes_are_stored: bool = True
    r14_load_to_the_end: bool = True
    r14_state_ends_with_leadership: bool = True
    r16_lease: bool = True
    r16_lease_after_replay: bool = True
    r16_lease_ages: bool = True
    r16_lease_below_session: bool = True
    r16_sessions_restart: bool = True
    r17_quarantine_synced_corruption: bool = True
    r17_doubtful_replicas_leave: bool = True
    r17_last_member_stays: bool = True
    r17_refetch_in_a_new_epoch: bool = True
    r17_doubtful_voters: bool = True
    r18_atomic_checkpoints: bool = True
    r19_rewrite_unsynced_tail: bool = True
    r19_void_sync_after_truncation: bool = True
    r19_list_synced_logs_only: bool = True
    r19_sync_directory_entries: bool = True
    r20_compact_committed_only: bool = True
    r20_compact_decided_only: bool = True
    r20_compact_synced_only: bool = True
    r20_keep_active_segment: bool = True
    r20_keep_epoch_starts: bool = True
    r20_sync_before_swap: bool = True
    r20_swap_before_delete: bool = True
    r20_void_after_truncation: bool = True
    r20_refetch_below_horizon: bool = True
    r21_followers_verify: bool = True
    r22_topic_id_before_first_byte: bool = True
    r23_minimum_recomputes_eligible: bool = True
    r23_minimum_with_its_sets: bool = True
    r23_switch_waits_for_reports: bool = True
    r24_judge_appended: bool = True
    r25_credit_synced_sessions_only: bool = True

    def without(self, name: str) -> "Rules":
        """The same rules with one turned off, for the mutation gate."""
        return replace(self, **{name: False})


ALL_ON = Rules()
RULE_NAMES = tuple(field.name for field in fields(Rules))
