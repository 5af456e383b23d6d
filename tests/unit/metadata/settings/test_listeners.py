"""Addresses in settings."""

import pytest

from hightide.metadata.settings.definition import SettingError
from hightide.metadata.settings.listeners import (
    BrokerAddress,
    ListenerAddress,
    check_advertised,
    check_brokers,
    check_listeners,
    check_protocol_map,
    parse_broker,
    parse_listener,
    parse_protocol_map,
)


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://localhost:9092", ListenerAddress("PLAINTEXT", "localhost", 9092)),
        ("plaintext://:0", ListenerAddress("PLAINTEXT", "127.0.0.1", 0)),
        ("IN://[::1]:9092", ListenerAddress("IN", "::1", 9092)),
    ],
)
def test_listeners_are_read_and_written(text: str, listener: ListenerAddress) -> None:
    assert parse_listener(text) == listener
    assert parse_listener(str(listener)) == listener


@pytest.mark.parametrize("text", ["localhost:9092", "://x:1", "PLAINTEXT://x", "PLAINTEXT://x:70000", "A://x:-1"])
def test_what_is_no_listener(text: str) -> None:
    with pytest.raises(SettingError, match=r"not a listener|no port"):
        parse_listener(text)
    assert check_listeners("listeners", [text])


def test_listeners_differ_in_name_and_address() -> None:
    assert check_listeners("listeners", ["A://x:1", "B://x:2"]) is None
    assert check_listeners("listeners", ["A://x:0", "B://x:0"]) is None
    assert check_listeners("listeners", ["A://x:1", "A://x:2"]) == "each listener must have a different name"
    assert check_listeners("listeners", ["A://x:1", "B://x:1"]) == "each listener must have a different address"
    assert check_listeners("listeners", []) == "at least one listener is needed"


def test_every_address_cannot_be_advertised() -> None:
    assert check_advertised("advertised.listeners", ["A://broker:1"]) is None
    assert "cannot be advertised" in (check_advertised("advertised.listeners", ["A://0.0.0.0:1"]) or "")


def test_brokers() -> None:
    assert parse_broker("1@host:9092") == BrokerAddress(1, "host", 9092)
    assert str(BrokerAddress(2, "::1", 9)) == "2@[::1]:9"
    assert check_brokers("hightide.brokers", ["1@a:1", "2@b:1"]) is None
    assert check_brokers("hightide.brokers", ["1@a:1", "1@b:1"]) == "each broker must have a different id"
    assert check_brokers("hightide.brokers", ["a:1"]) == "'a:1' is not a broker: write id@host:port"


def test_protocol_map() -> None:
    assert parse_protocol_map("a:plaintext, B:SSL") == {"A": "PLAINTEXT", "B": "SSL"}
    assert check_protocol_map("map", "A:PLAINTEXT") is None
    assert check_protocol_map("map", "A") == "'A' is not NAME:PROTOCOL"
