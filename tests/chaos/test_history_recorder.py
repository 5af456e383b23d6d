"""Stock clients and the history checkers on a real broker: silent through kill -9, loud when values vanish."""

import time
from pathlib import Path

import pytest

from hightide.sim.history.checks import check_all
from hightide.sim.history.findings import describe
from hightide.sim.history.recorder import History
from hightide.sim.history.windows import measure
from hightide.types import TopicPartition
from tests.chaos.processes import BrokerProcess
from tests.chaos.raw_client import RawClient
from tests.history_clients import (
    AiokafkaLoad,
    ConfluentLoad,
    Follower,
    Observer,
    RecordedLoad,
    read_everything,
    record_log,
)
from tests.requests import create_topic, delete_topic

TOPIC = "journal"
PARTITIONS = [TopicPartition(TOPIC, index) for index in range(3)]
SOME = 150
LOADS = [ConfluentLoad, AiokafkaLoad]


def make_topic(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as client:
        assert client.call(create_topic(TOPIC, len(PARTITIONS), segment_bytes="1048576"), 7).topics[0].error_code == 0


def test_stock_clients_notice_nothing_of_kill_nine(tmp_path: Path) -> None:
    history = History(time.monotonic)
    with BrokerProcess(tmp_path) as broker:
        make_topic(broker)
        where = (broker.address, PARTITIONS)
        with (
            Follower(history, "follower", *where),
            Observer(history, "observer", *where),
            ConfluentLoad(history, "confluent", *where) as confluent,
            AiokafkaLoad(history, "aiokafka", *where) as aiokafka,
        ):
            confluent.await_more(SOME)
            aiokafka.await_more(SOME)
            broker.kill()
            broker.start()
            confluent.await_more(SOME)
            aiokafka.await_more(SOME)
        read_everything(history, *where)
        record_log(history, "broker", broker.log_file)
    found = check_all(history)
    assert found == [], describe(found)
    assert {send.client for send in history.sends} >= {"confluent", "aiokafka"}
    assert {poll.client for poll in history.polls} == {"follower", "final"}
    assert any(told.client == "observer" for told in history.observations)
    while_down = measure(history, longer_than_seconds=0.05).unavailable  # a start takes longer
    assert {window.partition for window in while_down} == set(PARTITIONS)


@pytest.mark.parametrize("load", LOADS)
def test_values_that_vanish_with_their_topic_are_found(load: type[RecordedLoad], tmp_path: Path) -> None:
    history = History(time.monotonic)
    with BrokerProcess(tmp_path) as broker:
        make_topic(broker)
        with load(history, "load", broker.address, PARTITIONS) as producer:
            producer.await_more(SOME)
        with RawClient(broker.port) as client:
            assert client.call(delete_topic(TOPIC), 5).responses[0].error_code == 0
        make_topic(broker)
        read_everything(history, broker.address, PARTITIONS)
    lost = [finding for finding in check_all(history) if finding.checker == "K4"]
    assert len(lost) == producer.acknowledged >= SOME
