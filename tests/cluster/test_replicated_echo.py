"""The bench's reference for replication: what it answers is in all three files, or it would be no reference."""

import socket
from pathlib import Path

from bench import requests
from bench.replicated_echo import FOLLOWERS, replicating

CONNECTIONS, ROUNDS = 3, 50


def test_what_is_answered_was_written_by_all_three(tmp_path: Path) -> None:
    answer = requests.produce_answer("echo")
    (tmp_path / "answer.bin").write_bytes(answer)
    batch = requests.batch(100)
    frame = requests.produce_frame("echo", -1, 100)
    with replicating(tmp_path / "answer.bin", len(batch), tmp_path) as servers:
        assert len(servers.pids) == 1 + FOLLOWERS
        connections = [requests.connect(servers.port) for _ in range(CONNECTIONS)]
        for number in range(1, ROUNDS + 1):
            for connection in connections:
                connection.sendall(frame)
            for connection in connections:
                assert connection.recv(len(answer), socket.MSG_WAITALL) == answer
            for log in sorted(tmp_path.glob("echo-*.log")):
                assert log.stat().st_size == number * CONNECTIONS * len(batch)
        for connection in connections:
            connection.close()
    logs = [log.read_bytes() for log in sorted(tmp_path.glob("echo-*.log"))]
    assert logs == [frame[-len(batch) :] * ROUNDS * CONNECTIONS] * (1 + FOLLOWERS)
