"""A process may open only so many files: clients that connect without end take none that the log needs."""

import socket
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.processes import BrokerProcess
from tests.chaos.raw_client import RawClient
from tests.requests import create_topic, produce

DESCRIPTORS_MAX = 256
CONNECTIONS = 400


def test_a_flood_of_connections_keeps_nobody_from_writing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, descriptors_max=DESCRIPTORS_MAX) as broker:
        with RawClient(broker.port) as client, ExitStack() as flood:
            for _ in range(CONNECTIONS):
                flood.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=10))
            for number in range(3):  # opens directories, checkpoints and new segments
                assert client.call(create_topic(f"t-{number}", 3), 7).topics[0].error_code == 0
                answer = client.call(produce(f"t-{number}", [b"value"]), 9).responses[0].partition_responses[0]
                assert answer.error_code == 0
        with RawClient(broker.port) as client:
            assert client.topic_names() == {"t-0", "t-1", "t-2"}
        assert broker.terminate() == 0, broker.log_tail()
        assert broker.unexpected() == []
