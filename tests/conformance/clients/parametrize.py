"""`@every_client`: run a test once with each client library, Java marked as such."""

from __future__ import annotations

import pytest

from tests.conformance.clients.aio import AiokafkaClient
from tests.conformance.clients.java import JavaClient
from tests.conformance.clients.kafka_python import KafkaPythonClient
from tests.conformance.clients.kcat import KcatClient
from tests.conformance.clients.librdkafka import ConfluentClient


def client_parameters(*without: str) -> pytest.MarkDecorator:
    """Parametrize the `client` fixture; `without` names those that cannot say what the test is about."""
    names = [ConfluentClient.name, AiokafkaClient.name, KafkaPythonClient.name, KcatClient.name]
    parameters = [pytest.param(name) for name in names if name not in without]
    if JavaClient.name not in without:
        parameters.append(pytest.param(JavaClient.name, marks=pytest.mark.java))
    return pytest.mark.parametrize("client", parameters, indirect=True)


every_client = client_parameters()
