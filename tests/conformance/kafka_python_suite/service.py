"""Stands in for kafka-python's `test/service.py`, which its source distribution leaves out.

The suite imports these names to start brokers of its own; pointed at a running one (KAFKA_URI) it never does.
"""

from __future__ import annotations


class ExternalService:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to stop."""


class SpawnedService:
    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("the suite runs against a broker that is already there")
