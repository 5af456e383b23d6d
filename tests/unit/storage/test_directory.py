"""A log directory: its identity, what it remembers, how it was left, and when it refuses."""

import errno
from itertools import count

import pytest

from hightide.errors import CorruptionError, StorageError
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from hightide.sim.images import LOST
from hightide.storage.directory import (
    CLEAN_MARK_FILE,
    HIGH_WATERMARKS_FILE,
    LOG_STARTS_FILE,
    RECOVERY_POINTS_FILE,
    SYNCED_ENDS_FILE,
    LogDirectory,
)
from hightide.storage.identity import META_FILE, STATE_FILE
from hightide.storage.partition_directories import PARTITION_METADATA_FILE, parse_name
from hightide.storage.properties import format_properties, parse_properties
from hightide.storage.space import RESERVE_FILE, Condition
from hightide.types import PartitionKey, TopicPartition, format_uuid

KIB = 1024
ORDERS = TopicPartition("orders", 3)
ORDERS_ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
KEY = PartitionKey(ORDERS_ID, 3)

_numbers = count(1)


def token(length: int) -> bytes:
    return next(_numbers).to_bytes(length, "big")


def opened(
    disk: SimulatedDisk, *, node_id: int = 1, cluster_id: str | None = None, rules: Rules = ALL_ON
) -> LogDirectory:
    return LogDirectory.open(
        disk, "data/d", node_id=node_id, cluster_id=cluster_id, token=token, rules=rules, reserve_bytes=64 * KIB
    )


def checkpoint(directory: LogDirectory, **offsets: dict[TopicPartition, int]) -> None:
    directory.remember(**offsets)
    directory.write_checkpoints()


def power_lost(disk: SimulatedDisk) -> None:
    disk.power_loss(0, (LOST,))


def test_a_new_directory_gets_an_identity_that_lasts() -> None:
    disk = SimulatedDisk()
    first = opened(disk)
    power_lost(disk)
    again = opened(disk)
    assert again.identity == first.identity
    assert again.identity.node_id == 1
    assert len(again.identity.directory_id) == 16
    assert not again.identity.cluster_id.startswith("-")


def test_the_identity_file_is_kafkas() -> None:
    disk = SimulatedDisk()
    directory = opened(disk, cluster_id="s0me-Cluster_Id")
    lines = disk.image()[f"data/d/{META_FILE}"].decode().splitlines()
    assert lines[0].startswith("#")
    assert lines[1:] == [
        "cluster.id=s0me-Cluster_Id",
        f"directory.id={format_uuid(directory.identity.directory_id)}",
        "node.id=1",
        "version=1",
    ]


@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, None), (1, "another")])
def test_somebody_elses_directory_is_refused(node_id: int, cluster_id: str | None) -> None:
    disk = SimulatedDisk()
    opened(disk, cluster_id="ours")
    with pytest.raises(StorageError, match=r"belongs to (node 1|cluster ours)"):
        opened(disk, node_id=node_id, cluster_id=cluster_id)


def test_partitions_without_an_identity_are_not_taken_over() -> None:
    disk = SimulatedDisk()
    opened(disk).open_partition(ORDERS, ORDERS_ID, token)
    disk.lose(f"data/d/{META_FILE}")
    with pytest.raises(StorageError, match=r"has partitions \(orders-3\), but its meta.properties is missing"):
        opened(disk)


@pytest.mark.parametrize(
    "name", [META_FILE, STATE_FILE, RECOVERY_POINTS_FILE, HIGH_WATERMARKS_FILE, LOG_STARTS_FILE, SYNCED_ENDS_FILE]
)
@pytest.mark.parametrize("damage", ["flipped", "zeroed", "emptied", "missing"])
def test_a_damaged_file_of_the_directory_is_refused_by_name(name: str, damage: str) -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    directory.open_partition(ORDERS, ORDERS_ID, token)
    checkpoint(directory, recovery_points={ORDERS: 5}, high_watermarks={ORDERS: 5}, log_starts={ORDERS: 1})
    disk.kill()
    path = f"data/d/{name}"
    data = disk.image()[path]
    if damage == "flipped":
        disk.flip(path, len(data) // 2)
    elif damage == "zeroed":
        disk.overwrite(path, bytes(len(data)))
    elif damage == "emptied":
        disk.overwrite(path, b"")
    else:
        disk.lose(path)
    with pytest.raises(StorageError, match=name):
        opened(disk)


def test_every_flipped_bit_of_a_checkpoint_is_noticed() -> None:
    disk = SimulatedDisk()
    checkpoint(opened(disk), recovery_points={ORDERS: 500, TopicPartition("t", 0): 7})
    disk.kill()
    path = f"data/d/{RECOVERY_POINTS_FILE}"
    for position in range(len(disk.image()[path])):
        for bit in range(8):
            damaged = disk.copy()
            damaged.flip(path, position, 1 << bit)
            with pytest.raises(CorruptionError, match=RECOVERY_POINTS_FILE):
                opened(damaged)


def test_a_directory_of_a_later_release_is_refused() -> None:
    disk = SimulatedDisk()
    opened(disk)
    path = f"data/d/{STATE_FILE}"
    values = parse_properties(disk.image()[path], path)
    disk.overwrite(path, format_properties({**values, "format.version": "2"}))
    with pytest.raises(StorageError, match="format version 2, this release reads up to 1"):
        opened(disk)


# Clean and unclean.


def test_a_new_directory_is_neither_clean_nor_unclean() -> None:
    directory = opened(SimulatedDisk())
    assert not directory.clean
    assert not directory.is_unclean


def test_a_clean_close_is_seen_once() -> None:
    disk = SimulatedDisk()
    opened(disk).close(clean=True)
    power_lost(disk)
    directory = opened(disk)
    assert directory.clean
    assert not directory.is_unclean
    power_lost(disk)
    directory = opened(disk)
    assert not directory.clean, "the mark was removed, durably, before any log was opened (R8)"
    assert directory.is_unclean


def test_a_kill_is_not_unclean_but_a_power_loss_is_until_the_controller_knows() -> None:
    disk = SimulatedDisk()
    opened(disk)
    disk.kill()
    assert not opened(disk).is_unclean
    power_lost(disk)
    assert opened(disk).is_unclean
    disk.kill()
    directory = opened(disk)
    assert directory.is_unclean, "a kill during recovery does not make it clean (R8)"
    directory.acknowledge_unclean()
    power_lost(disk)
    disk.boots -= 1
    assert not opened(disk).is_unclean


def test_a_mark_of_another_broker_epoch_says_nothing() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    directory.store_broker_epoch(7)
    directory.close(clean=True)
    assert disk.image()[f"data/d/{CLEAN_MARK_FILE}"] == b'{"version":0,"brokerEpoch":7}'
    disk.overwrite(f"data/d/{CLEAN_MARK_FILE}", b'{"version":0,"brokerEpoch":6}')
    disk.kill()
    again = opened(disk)
    assert not again.clean
    assert again.state.broker_epoch == 7


def test_an_unclean_close_leaves_no_mark() -> None:
    disk = SimulatedDisk()
    opened(disk).close(clean=False)
    assert not disk.exists(f"data/d/{CLEAN_MARK_FILE}")


# What it remembers.


def test_offsets_are_remembered_durably() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    checkpoint(directory, recovery_points={ORDERS: 10}, high_watermarks={ORDERS: 12}, log_starts={ORDERS: 3})
    directory.synced_ends.record(KEY, 0, 15)
    directory.synced_ends.sync()
    checkpoint(directory, high_watermarks={TopicPartition("other", 0): 1})
    power_lost(disk)
    facts = opened(disk).facts(ORDERS, ORDERS_ID)
    assert (facts.recovery_point, facts.high_watermark, facts.log_start) == (10, 12, 3)
    assert facts.recorded_synced_end == 15
    assert facts.synced_floor == 15
    assert disk.image()[f"data/d/{RECOVERY_POINTS_FILE}"].split() == b"0 1 orders 3 10".split()


def test_a_checkpoint_that_is_written_late_does_not_undo_what_happened_since() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    other = TopicPartition("other", 0)
    directory.remember(recovery_points={ORDERS: 100, other: 100})
    directory.lower(ORDERS, ORDERS_ID, 1, 50)
    directory.forget(other, OTHER_ID)
    directory.write_checkpoints()
    power_lost(disk)
    directory = opened(disk)
    assert directory.facts(ORDERS, ORDERS_ID).recovery_point == 50
    assert directory.facts(other, OTHER_ID).recovery_point == 0


def test_a_truncation_first_lowers_every_promise() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    checkpoint(directory, recovery_points={ORDERS: 10}, high_watermarks={ORDERS: 12}, log_starts={ORDERS: 3})
    directory.synced_ends.record(KEY, 0, 15)
    directory.synced_ends.sync()
    directory.lower(ORDERS, ORDERS_ID, 1, 11)
    power_lost(disk)
    facts = opened(disk).facts(ORDERS, ORDERS_ID)
    assert (facts.recovery_point, facts.high_watermark, facts.recorded_synced_end) == (10, 11, 11)


def test_a_recreated_topic_inherits_no_offsets() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    directory.open_partition(ORDERS, ORDERS_ID, token)
    checkpoint(directory, recovery_points={ORDERS: 10}, high_watermarks={ORDERS: 12}, log_starts={ORDERS: 3})
    directory.forget(ORDERS, ORDERS_ID)
    disk.rename("data/d/orders-3", "data/d/orders-3.x-delete")
    directory.open_partition(ORDERS, OTHER_ID, token)
    power_lost(disk)
    directory = opened(disk)
    assert directory.facts(ORDERS, OTHER_ID).synced_floor == 0
    assert directory.facts(ORDERS, OTHER_ID).log_start == 0
    directory.partitions.remove_deleted()
    assert not [name for name in disk.list("data/d") if name.endswith("-delete")]


# Partition directories (R22).


def test_a_partition_directory_has_its_topic_id_before_its_first_byte() -> None:
    disk = SimulatedDisk()
    path = opened(disk).open_partition(ORDERS, ORDERS_ID, token)
    power_lost(disk)
    directory = opened(disk)
    assert path == "data/d/orders-3"
    assert [(entry.partition, entry.topic_id) for entry in directory.partitions.list()] == [(ORDERS, ORDERS_ID)]
    text = disk.image()[f"{path}/{PARTITION_METADATA_FILE}"].decode()
    assert text.splitlines()[:2] == ["version: 0", f"topic_id: {format_uuid(ORDERS_ID)}"]
    assert directory.open_partition(ORDERS, ORDERS_ID, token) == path


def test_another_topics_directory_is_set_aside_untouched() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    path = directory.open_partition(ORDERS, ORDERS_ID, token)
    disk.open(f"{path}/00.log", create=True).write_at(b"records of the old topic", 0)
    assert directory.open_partition(ORDERS, OTHER_ID, token) == path
    assert disk.list(path) == [PARTITION_METADATA_FILE]
    (stray,) = directory.partitions.strays()
    assert stray.startswith("orders-3.")
    assert disk.image()[f"data/d/{stray}/00.log"] == b"records of the old topic"


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_records_of_nobody_knows_which_topic_are_refused(damage: str) -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    path = directory.open_partition(ORDERS, ORDERS_ID, token)
    disk.open(f"{path}/00.log", create=True).write_at(b"records", 0)
    if damage == "flipped":
        disk.flip(f"{path}/{PARTITION_METADATA_FILE}", 25)
    else:
        disk.lose(f"{path}/{PARTITION_METADATA_FILE}")
    with pytest.raises(CorruptionError, match=r"orders-3 has files, but no readable partition\.metadata"):
        directory.open_partition(ORDERS, ORDERS_ID, token)
    assert disk.image()[f"{path}/00.log"] == b"records"


def test_a_crash_while_a_partition_is_made_is_made_good() -> None:
    for operation in range(1, 20):
        disk = SimulatedDisk()
        directory = opened(disk)
        disk.crash_at(operation)
        try:
            directory.open_partition(ORDERS, ORDERS_ID, token)
        except BaseException:
            disk.kill()
            path = opened(disk).open_partition(ORDERS, ORDERS_ID, token)
            assert PARTITION_METADATA_FILE in disk.list(path)
        else:
            assert operation > 5
            return


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-3", ORDERS),
        ("a-b-c-0", TopicPartition("a-b-c", 0)),
        ("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0)),
        ("orders", None),
        ("orders-", None),
        ("-3", None),
        ("orders-03", None),
        ("orders-3.0a-delete", None),
        ("orders-3.0a-stray", None),
        ("orders-٣", None),
    ],
)
def test_names_of_partition_directories(name: str, partition: TopicPartition | None) -> None:
    assert parse_name(name) == partition


# Space (R10).


def test_a_full_disk_refuses_records_and_gives_its_reserve_to_checkpoints() -> None:
    disk = SimulatedDisk(capacity=256 * KIB)
    directory = opened(disk)
    disk.open("data/filler", create=True).write_at(bytes(disk.free_bytes("")), 0)
    checkpoint(directory, recovery_points={ORDERS: 10})
    assert directory.space.condition is Condition.READ_ONLY
    assert not directory.space.accepts_records
    assert "full" in directory.space.reason
    assert disk.free_bytes("") > 60 * KIB
    directory.space.check()
    assert directory.space.condition is Condition.READ_ONLY, "not before twice the reserve is free"
    disk.capacity = 1024 * KIB
    directory.space.check()
    assert directory.space.reason == ""
    assert len(disk.image()[f"data/d/{RESERVE_FILE}"]) == 64 * KIB
    disk.kill()
    assert opened(disk).facts(ORDERS, ORDERS_ID).recovery_point == 10


def test_records_are_refused_before_the_disk_is_full() -> None:
    disk = SimulatedDisk(capacity=256 * KIB)
    directory = opened(disk)
    disk.open("data/filler", create=True).write_at(bytes(disk.free_bytes("") - 10 * KIB), 0)
    directory.space.check()
    assert directory.space.condition is Condition.READ_ONLY


def test_a_directory_on_a_full_disk_opens_with_the_bytes_of_its_reserve() -> None:
    disk = SimulatedDisk(capacity=256 * KIB)
    opened(disk).store_broker_epoch(4)
    disk.open("data/filler", create=True).write_at(bytes(disk.free_bytes("")), 0)
    disk.kill()
    disk.boots += 1
    directory = opened(disk)
    assert directory.space.condition is Condition.READ_ONLY
    directory.store_broker_epoch(5)
    disk.kill()
    assert opened(disk).state.broker_epoch == 5


def test_a_directory_without_room_for_a_reserve_starts_read_only() -> None:
    directory = opened(SimulatedDisk(capacity=32 * KIB))
    assert directory.space.condition is Condition.READ_ONLY


def test_a_failed_sync_takes_the_directory_offline_for_good() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    disk.fail("sync", f"*{RECOVERY_POINTS_FILE}*", code=errno.EIO)
    with pytest.raises(StorageError, match="Input/output error"):
        checkpoint(directory, recovery_points={ORDERS: 10})
    assert directory.space.condition is Condition.OFFLINE
    with pytest.raises(StorageError, match="Input/output error"):
        checkpoint(directory, high_watermarks={ORDERS: 10})
    directory.space.check()
    assert not directory.space.accepts_records
    directory.close(clean=True)
    assert not disk.exists(f"data/d/{CLEAN_MARK_FILE}"), "nothing that failed is called clean"


def test_a_group_commit_that_failed_takes_the_directory_offline() -> None:
    directory = opened(SimulatedDisk())
    directory.space.sync_failed(OSError(errno.EIO, "Input/output error"))
    assert directory.space.condition is Condition.OFFLINE
    directory.space.write_failed(OSError(errno.ENOSPC, "No space left on device"))
    assert directory.space.condition is Condition.OFFLINE


def test_refusing_an_unreadable_partition_forgets_nothing_about_it() -> None:
    """R17: what must not be missing is remembered until somebody restores the file or deletes the topic."""
    disk = SimulatedDisk()
    directory = opened(disk)
    partition, topic_id = TopicPartition("orders", 0), b"t" * 16
    path = directory.open_partition(partition, topic_id, token)
    disk.open(f"{path}/00000000000000000000.log", create=True).close()
    directory.remember(high_watermarks={partition: 7}, recovery_points={partition: 5}, log_starts={partition: 0})
    directory.write_checkpoints()
    disk.lose(f"{path}/partition.metadata")
    with pytest.raises(CorruptionError, match="says which topic"):
        directory.open_partition(partition, topic_id, token)
    assert directory.facts(partition, topic_id).high_watermark == 7
