"""Warnings are errors in our tests, but for a few of stock clients (pyproject.toml): here those are provoked for sure.

A warning that is ignored and happens now and then would otherwise be noticed by a test that fails now and then.
"""

import gc
import socket

from kafka.net.inet import create_connection
from kafka.net.selector import NetworkSelector, Task

BACKLOG_FULL = 3  # connections that a listener with a backlog of 0 never gets to accept: the next one has to wait


def test_a_client_of_kafka_python_may_be_closed_while_it_connects() -> None:
    """It drops its socket then (3.0.12), and pytest would blame whichever test runs at the time."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(BACKLOG_FULL)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        selector = NetworkSelector()
        connecting = Task(create_connection(selector, *address))
        assert connecting() is not None, "it waits for its connection"
        connecting.close()
        gc.collect()
        for each in waiting:
            each.close()
        selector.close()
