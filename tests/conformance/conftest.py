"""Fixtures of the conformance suite: one broker for the session, one of each client on it.

The broker is a fresh hightide, or the cluster named by HIGHTIDE_CONFORMANCE_BOOTSTRAP (see cluster.py).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.clients.aio import AiokafkaClient
from tests.conformance.clients.java import JavaClient, JavaDriver
from tests.conformance.clients.kafka_python import KafkaPythonClient
from tests.conformance.clients.kcat import KcatClient
from tests.conformance.clients.librdkafka import ConfluentClient
from tests.conformance.clients.message import Client
from tests.conformance.cluster import Cluster, HightideProcess
from tools.java_tools import JavaMissingError

PYTHON_CLIENTS = {client.name: client for client in (ConfluentClient, AiokafkaClient, KafkaPythonClient)}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    bootstrap = os.environ.get("HIGHTIDE_CONFORMANCE_BOOTSTRAP")
    if bootstrap:
        data_dir = os.environ.get("HIGHTIDE_CONFORMANCE_DATA_DIR")
        yield Cluster(bootstrap, Path(data_dir) if data_dir else None)
        return
    process = HightideProcess(tmp_path_factory.mktemp("hightide"))
    yield Cluster(process.bootstrap, process.data_dir)
    process.stop()


@pytest.fixture(scope="session")
def java() -> Iterator[JavaDriver]:
    try:
        driver = JavaDriver()
    except JavaMissingError as error:
        pytest.skip(str(error))
    yield driver
    driver.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, cluster: Cluster) -> Client:
    """The client named by the test's parameter (`@every_client`)."""
    return make_client(request.param, cluster, request)


@pytest.fixture
def readers(request: pytest.FixtureRequest, cluster: Cluster) -> list[Client]:
    """Every client that this run can use, to read what another one wrote."""
    names = [*PYTHON_CLIENTS, KcatClient.name]
    # `-m "not java"` must not start a JVM, and a machine without Java still tests the others.
    if "not java" not in request.config.option.markexpr and shutil.which("javac"):
        names.append(JavaClient.name)
    return [make_client(name, cluster, request) for name in names]


def make_client(name: str, cluster: Cluster, request: pytest.FixtureRequest) -> Client:
    if name == JavaClient.name:
        return JavaClient(cluster.bootstrap, request.getfixturevalue("java"))
    if name == KcatClient.name:
        if shutil.which("kcat") is None:
            pytest.skip("`kcat` is not installed; on Debian: apt-get install kcat")
        return KcatClient(cluster.bootstrap)
    made: Client = PYTHON_CLIENTS[name](cluster.bootstrap)
    return made
