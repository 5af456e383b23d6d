"""`LocalCluster`: directories that people move, logs that grow."""

import shutil
from pathlib import Path

from hightide.node.configuration_text import parse_properties
from hightide.runtime.launcher import LOG_BYTES_MAX, LocalCluster


def data_directory(cluster: LocalCluster, node_id: int) -> str:
    return parse_properties(cluster.node(node_id).settings_file.read_text("utf-8"))["log.dirs"]


def test_a_moved_directory_brings_its_data(tmp_path: Path) -> None:
    before = LocalCluster(tmp_path / "before", brokers=3)
    for node in before.nodes:
        node.data_directory.mkdir()
    shutil.move(tmp_path / "before", tmp_path / "after")
    after = LocalCluster(tmp_path / "after")
    assert [data_directory(after, number) for number in (1, 2, 3)] == [
        str(tmp_path / "after" / f"node-{number}" / "data") for number in (1, 2, 3)
    ]


def test_data_that_somebody_put_elsewhere_stay_there(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "cluster", brokers=1)
    elsewhere = tmp_path / "elsewhere" / "data"
    elsewhere.mkdir(parents=True)
    settings = cluster.node(1).settings_file
    settings.write_text(settings.read_text().replace(data_directory(cluster, 1), str(elsewhere)))
    cluster.node(1).data_directory.mkdir()
    assert data_directory(LocalCluster(tmp_path / "cluster"), 1) == str(elsewhere)


def test_a_large_log_is_put_aside_when_its_node_starts(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=1, port=0)
    log_file = cluster.node(1).log_file
    with log_file.open("wb") as file:
        file.truncate(LOG_BYTES_MAX + 1)
    cluster.launch_node(1)
    cluster.kill(1)
    assert log_file.with_suffix(".log.1").stat().st_size == LOG_BYTES_MAX + 1
    cluster.launch_node(1)
    cluster.kill(1)
    assert log_file.stat().st_size < LOG_BYTES_MAX
