"""The settings of consumer groups and of the topic that keeps them. Part of `BROKER_SETTINGS`."""

from collections.abc import Iterable
from typing import Final

from hightide.metadata.settings.definition import Setting, SettingType, at_least

INT, LONG = SettingType.INT, SettingType.LONG

GROUPS_DEV_PROFILE: Final = {"group.initial.rebalance.delay.ms": "0"}


def group_settings() -> Iterable[Setting]:
    """What members may ask for, and how long offsets are kept."""
    yield Setting(
        "group.min.session.timeout.ms", INT, "6000", "The shortest session that a member may ask for.", at_least(0)
    )
    yield Setting(
        "group.max.session.timeout.ms", INT, "1800000", "The longest session that a member may ask for.", at_least(0)
    )
    yield Setting("group.max.size", INT, "2147483647", "How many members a group may have.", at_least(1))
    yield Setting(
        "group.initial.rebalance.delay.ms",
        INT,
        "3000",
        "How long the first rebalance of an empty group waits for more members.",
        at_least(0),
    )
    yield Setting(
        "offsets.retention.minutes",
        INT,
        "10080",
        "How long the offsets of a group without members are kept.",
        at_least(1),
    )
    yield Setting("offsets.retention.check.interval.ms", LONG, "600000", "How often that is looked at.", at_least(1))
    yield Setting("offset.metadata.max.bytes", INT, "4096", "The largest note that a commit may carry.", at_least(0))
    yield Setting(
        "offsets.commit.timeout.ms",
        INT,
        "5000",
        "How long an answer to a group waits for the replicas of what it rests on.",
        at_least(1),
    )
    yield Setting(
        "offsets.topic.num.partitions",
        INT,
        "50",
        "The partitions of __consumer_offsets, when it is created.",
        at_least(1),
    )
    yield Setting(
        "offsets.topic.replication.factor",
        SettingType.SHORT,
        "3",
        "The replicas of __consumer_offsets, when it is created; when this is not set, at most the live brokers.",
        at_least(1),
    )
    yield Setting(
        "offsets.topic.segment.bytes", INT, "104857600", "The segment size of __consumer_offsets.", at_least(1)
    )
