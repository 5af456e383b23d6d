"""Disks that turn bits or are full, under the load of stock clients (T20, R10, R17).

What is corrupt is found before anybody gets it, its replica is fetched again from the others, and the corrupt files are
gone when all is well. A full disk refuses records until there is room, and its broker takes part again by itself.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hightide.limits import MIB
from hightide.testing import Cluster
from hightide.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.chaos.cluster_story import Story
from tests.chaos.raw_client import RawClient
from tests.history_clients import read_everything

pytestmark = pytest.mark.xdist_group("processes")

MORE_THAN_A_SEGMENT = 700  # records of each of two producers, about 1 KB each
DISK_BYTES = 400 * MIB  # three times the reserve, so that it can be taken back
FILLED_LEAVES_BYTES = 1 * MIB


def others(node_id: int) -> set[int]:
    return {1, 2, 3} - {node_id}


def flip(path: Path, position: int) -> None:
    """Turn one bit."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def lead(cluster: Cluster, story: Story, node_id: int) -> None:
    """Give the leadership of partition 0 back to the broker that is preferred for it, once it is in sync."""
    host, _, port = cluster.node(node_id).address.rpartition(":")
    preferred = [TopicPartitions(topic=story.topic, partitions=[0])]

    def leads() -> bool:
        if cluster.leader_of(story.topic) != node_id:
            with RawClient(int(port), host=host) as client:
                client.call(ElectLeadersRequest(topic_partitions=preferred, timeout_ms=30_000), 2)
        return cluster.leader_of(story.topic) == node_id

    cluster.wait_for(leads, f"{node_id} leads")


def kept_aside(cluster: Cluster) -> list[str]:
    return [path.name for node in cluster.nodes for path in node.data_directory.glob("*-quarantine")]


@pytest.mark.covers("T20", "C39")
def test_corruption_of_a_follower_is_found_when_it_starts_and_mended_by_its_leader(cluster: Cluster) -> None:
    with Story(cluster, topic="rotten-follower", assignments={0: [1, 2, 3]}) as story:
        story.go_on()
        cluster.kill(3)
        newest = story.segments(3)[-1]
        flip(newest, newest.stat().st_size - 40)  # in the last batch, which was synced and so is no torn tail
        flip(newest, 100)
        cluster.start(3)
        story.go_on()
        cluster.wait_healthy()
    story.judge()
    assert "is fetched again from its leader" in cluster.logs(3)
    cluster.wait_for(lambda: kept_aside(cluster) == [], "what was corrupt is deleted")


@pytest.mark.covers("T20", "C39")
def test_corruption_of_a_leader_is_never_served_and_mended_by_the_others(cluster: Cluster) -> None:
    """A clean stop is trusted: the scrub or a consumer is the first to look at the old segment."""
    with Story(cluster, topic="rotten-leader", assignments={0: [1, 2, 3]}) as story:
        story.go_on(MORE_THAN_A_SEGMENT)
        cluster.stop(1)
        oldest = story.segments(1)[0]
        flip(oldest, oldest.stat().st_size // 2)
        cluster.start(1)
        cluster.wait_healthy()
        lead(cluster, story, 1)
        story.go_on()
        read_everything(story.history, cluster.bootstrap, story.partitions, client="reader of old records")
        story.go_on()
        cluster.wait_healthy()
    story.judge()
    assert "is fetched again from its leader" in cluster.logs(1)
    cluster.wait_for(lambda: kept_aside(cluster) == [], "what was corrupt is deleted")


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """A disk of its own: memory, mounted there."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine lets nobody mount a small disk: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Use all of a disk but a little, as whatever else writes there would."""
    filler = directory / "filler"
    with filler.open("wb") as file:
        free = os.statvfs(directory)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - FILLED_LEAVES_BYTES)
    return filler


@pytest.mark.covers("T20", "C31", "C39")
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_disk_full(tmp_path: Path, role: str) -> None:
    """A full follower leaves the in-sync set; a full leader refuses records, and its clients wait for room."""
    cluster = Cluster(processes=True, directory=tmp_path / "cluster", settings={"replica.lag.time.max.ms": "1000"})
    full = 1 if role == "leader" else 3
    with small_disk(cluster.node(full).data_directory), cluster:
        with Story(cluster, topic="full", assignments={0: [1, 2, 3]}) as story:
            story.go_on()
            filler = fill(cluster.node(full).data_directory)
            cluster.wait_for(lambda: "records are refused" in cluster.logs(full), "the disk is full")
            if role == "follower":
                story.go_on()
                assert cluster.in_sync("full") == {1, 2}
            filler.unlink()
            story.go_on()
            cluster.wait_healthy()
            assert cluster.node(full).is_running
        story.judge()
