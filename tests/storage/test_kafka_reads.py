"""Kafka's own classes read the small files of a log directory, checksums and all."""

import subprocess
from pathlib import Path

import pytest

from hightide.runtime.files import OsFiles
from hightide.storage.directory import LogDirectory
from hightide.storage.epochs import EpochHistory
from hightide.types import TopicPartition, format_uuid
from tests.storage.machine import ORDERS, ORDERS_ID, token
from tools import java_tools

SOURCE = Path(__file__).parent / "java" / "ReadDirectory.java"


@pytest.mark.java
def test_kafka_reads_identity_checkpoints_epochs_and_topic_id(tmp_path: Path) -> None:
    try:
        command = java_tools.java_command(str(SOURCE))
    except java_tools.JavaMissingError as error:
        pytest.skip(str(error))
    files = OsFiles()
    directory = LogDirectory.open(
        files, f"{tmp_path}/d", node_id=3, cluster_id="a-Cluster_id", token=token, reserve_bytes=4096
    )
    path = directory.open_partition(ORDERS, ORDERS_ID, token)
    other = TopicPartition("a-b.c", 11)
    directory.remember(
        recovery_points={ORDERS: 70, other: 2**40},
        high_watermarks={ORDERS: 71, other: 0},
        log_starts={ORDERS: 5},
        clean_ends={ORDERS: 60},
    )
    directory.write_checkpoints()
    epochs = EpochHistory.load(files, path)
    epochs.assign(3, 5)
    epochs.assign(12, 64)
    epochs.write()
    done = subprocess.run([*command, f"{tmp_path}/d", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"MetaProperties(version=1, clusterId=a-Cluster_id, nodeId=3, directoryId={format_uuid(token(16))})",
        f"recovery-point {{a-b.c-11={2**40}, orders-0=70}}",
        "replication {a-b.c-11=0, orders-0=71}",
        "log-start {orders-0=5}",
        "cleaner {orders-0=60}",
        "[EpochEntry[epoch=3, startOffset=5], EpochEntry[epoch=12, startOffset=64]]",
        format_uuid(ORDERS_ID),
    ]
    directory.close(clean=False)
