"""kill -9 at any moment, in a loop, under load: nothing acknowledged is lost, nothing idempotent appears twice.

The schedule (when to kill, whether also while starting) comes from a seed, which a failure prints; CHAOS_SEED sets
another one. The kills themselves hit wherever the processes happen to be.
"""

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from hightide.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from hightide.wire.messages.init_producer_id import InitProducerIdRequest
from tests.chaos.history import History
from tests.chaos.processes import BrokerProcess
from tests.chaos.producers import LibrdkafkaProducer, LoadThread, RawProducer
from tests.chaos.raw_client import LATEST, RawClient
from tests.requests import TOPIC as TOPIC_RESOURCE
from tests.requests import create_topic, delete_topic, produce, set_topic_config

TOPIC = "t"
PARTITIONS = 3
SEED = int(os.environ.get("CHAOS_SEED", "1"))
CYCLES = 5
CYCLES_LONG = 60
DURABILITIES = ("fsync", "replicated")


class Campaign:
    """A broker, its load, and the promises it made."""

    def __init__(self, directory: Path, durability: str, seed: int) -> None:
        self.random = Random(f"{seed}:{durability}:schedule")
        self.broker = BrokerProcess(directory, hightide_durability=durability)
        self.history = History()
        self.schedule: list[str] = []
        self.start_seconds = self.broker.start()
        self.epochs = [-1] * PARTITIONS
        with RawClient(self.broker.port) as client:
            created = client.call(create_topic(TOPIC, PARTITIONS, segment_bytes="1048576"), 7)
            assert created.topics[0].error_code == 0
        everyone = (self.broker.port, TOPIC, PARTITIONS, self.history, seed)
        self.load: list[LoadThread] = [
            LibrdkafkaProducer("librdkafka", *everyone),
            RawProducer("raw", *everyone),
            RawProducer("raw-once", *everyone, idempotent=False),
        ]
        for producer in self.load:
            producer.start()

    def crash(self) -> None:
        """Kill it after some more acknowledgements, sometimes again while it recovers, and start it."""
        more = self.random.randrange(1, 300)
        self.schedule.append(f"kill after {more} acknowledgements")
        self.history.await_more(more, lambda: self.broker.is_running)
        assert self.broker.is_running, self.broker.log_tail()
        self.broker.kill()
        while self.random.random() < 0.4:
            share = self.random.random()
            self.schedule.append(f"kill at {share:.2f} of a start")
            self.broker.launch()
            assert self.broker.kill_after(share * self.start_seconds), self.broker.log_tail()
        self.broker.start()

    def stop_cleanly(self) -> None:
        self.schedule.append("SIGTERM")
        self.history.await_more(self.random.randrange(1, 100), lambda: self.broker.is_running)
        assert self.broker.terminate() == 0, self.broker.log_tail()
        assert (self.broker.data_directory / ".kafka_cleanshutdown").exists()
        self.broker.start()
        assert not (self.broker.data_directory / ".kafka_cleanshutdown").exists()

    def verify(self) -> None:
        """A fresh client reads everything from the start, while the load goes on."""
        with RawClient(self.broker.port) as client:
            epochs = client.leader_epochs(TOPIC)
            assert all(now > before for now, before in zip(epochs, self.epochs, strict=True)), "R8: an epoch came again"
            self.epochs = epochs
            promises = self.history.promises()
            found = {partition: client.read_all(TOPIC, partition) for partition in range(PARTITIONS)}
        assert self.history.violations(promises, found) == []

    def finish(self) -> None:
        """Let every producer hear of what it sent, then look at everything once more."""
        for producer in self.load:
            producer.stop()
        self.epochs = [-1] * PARTITIONS
        self.verify()
        assert self.broker.unexpected() == []

    def close(self) -> None:
        for producer in self.load:
            producer.stopping.set()
        self.broker.kill()


@contextmanager
def campaign(directory: Path, durability: str, seed: int) -> Iterator[Campaign]:
    running = Campaign(directory, durability, seed)
    try:
        yield running
    finally:
        print(f"CHAOS_SEED={seed}, {durability}, {running.history.count} records acknowledged; the schedule:")
        print("\n".join(running.schedule))
        running.close()


def run(directory: Path, durability: str, seed: int, cycles: int) -> None:
    with campaign(directory, durability, seed) as running:
        for cycle in range(cycles):
            if cycle % 5 == 3:
                running.stop_cleanly()
            else:
                running.crash()
            running.verify()
        running.finish()


@pytest.mark.covers("N7", "N10", "N11")
@pytest.mark.parametrize("durability", DURABILITIES)
def test_nothing_acknowledged_is_lost_and_nothing_appears_twice(tmp_path: Path, durability: str) -> None:
    run(tmp_path, durability, SEED, CYCLES)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("durability", DURABILITIES)
def test_the_same_for_many_lives(tmp_path: Path, durability: str) -> None:
    run(tmp_path, durability, SEED + 1, CYCLES_LONG)


@pytest.mark.covers("C2", "N11")
def test_topics_settings_and_producer_ids_survive(tmp_path: Path) -> None:
    """What was acknowledged is there in every later life, and no producer id is given twice."""
    random = Random(f"{SEED}:metadata")
    retention: dict[str, int] = {}
    made = itertools.count()
    unsure: set[str] = set()
    given: list[int] = []
    with BrokerProcess(tmp_path) as broker:
        for _ in range(CYCLES):
            with RawClient(broker.port) as client:
                for _ in range(random.randrange(1, 6)):
                    name, value = f"topic-{next(made)}", random.randrange(10**6, 10**9)
                    answer = client.call(create_topic(name, 2, retention_ms=str(value)), 7).topics[0]
                    assert answer.error_code == 0
                    retention[name] = value
                gone = random.choice(list(retention))
                if len(retention) > 1:
                    assert client.call(delete_topic(gone), 5).responses[0].error_code == 0
                    del retention[gone]
                changed = random.choice(list(retention))
                retention[changed] += 1
                answer = client.call(set_topic_config(changed, "retention.ms", str(retention[changed])), 1)
                assert answer.responses[0].error_code == 0
                given += [
                    client.call(InitProducerIdRequest(transactional_id=None), 4).producer_id
                    for _ in range(random.randrange(1, 6))
                ]
                unsure.add(f"unsure-{len(unsure)}")
                client.send(create_topic(max(unsure)), 7)
                client.send(InitProducerIdRequest(transactional_id=None), 4)
                broker.kill_after(random.random() * 0.01)
            broker.start()
            with RawClient(broker.port) as client:
                names = client.topic_names()
                assert set(retention) <= names <= set(retention) | unsure
                assert {name: configured(client, name) for name in retention} == retention
        assert len(set(given)) == len(given)
        assert broker.unexpected() == []


def configured(client: RawClient, topic: str) -> int:
    """The topic's retention.ms."""
    asked = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["retention.ms"]
    )
    (entry,) = client.call(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs
    return int(entry.value)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_clean_stop_answers_everything_it_wrote(tmp_path: Path, durability: str) -> None:
    """A producer that pipelines without end is cut off by SIGTERM: what it was not told about was not written."""
    with BrokerProcess(tmp_path, hightide_durability=durability) as broker:
        with RawClient(broker.port) as client:
            client.call(create_topic(TOPIC), 7)
            endless = Endless(client)
            endless.start()
            answered = [client.receive(0, 9) for _ in range(100)]
            stopping = threading.Thread(target=broker.terminate)
            stopping.start()
            with suppress(OSError):
                while True:
                    answered.append(client.receive(0, 9))
            stopping.join()
            endless.join()
        results = [answer.responses[0].partition_responses[0] for answer in answered]
        assert [(result.error_code, result.base_offset) for result in results] == [
            (0, offset) for offset in range(len(results))
        ]
        broker.start()
        with RawClient(broker.port) as client:
            assert client.offset(TOPIC, 0, LATEST) == len(results)
        assert broker.unexpected() == []


class Endless(threading.Thread):
    """Sends produce requests until the connection ends."""

    def __init__(self, client: RawClient) -> None:
        super().__init__(daemon=True)
        self._client = client

    def run(self) -> None:
        with suppress(OSError):
            while True:
                self._client.send(produce(TOPIC, [b"one of many"]), 9)


def test_a_broker_that_is_stopped_while_it_starts(tmp_path: Path) -> None:
    """SIGTERM at any moment of a start: it ends soon, one way or the other, and the next start finds everything."""
    random = Random(f"{SEED}:stops")
    with BrokerProcess(tmp_path) as broker:
        with RawClient(broker.port) as client:
            client.call(create_topic(TOPIC), 7)
            assert not client.call(produce(TOPIC, [b"kept"]), 9).responses[0].partition_responses[0].error_code
        broker.kill()
        for number in range(6):
            broker.launch()
            code = broker.terminate_after(0.6 * (number + random.random()) / 6)
            assert code in (0, -signal.SIGTERM), broker.log_tail()
        broker.start()
        with RawClient(broker.port) as client:
            assert [value for _, value, _ in client.read_all(TOPIC, 0)] == [b"kept"]
        assert broker.terminate() == 0
        assert broker.unexpected() == []


def test_a_broker_that_is_killed_again_and_again_while_starting_comes_up(tmp_path: Path) -> None:
    """Recovery may be interrupted anywhere and begun again (I30)."""
    random = Random(f"{SEED}:starts")
    with BrokerProcess(tmp_path) as broker:
        with RawClient(broker.port) as client:
            client.call(create_topic(TOPIC, PARTITIONS), 7)
            values = [b"%d" % number + bytes(2000) for number in range(60)]
            for number, value in enumerate(values):
                answer = client.call(produce(TOPIC, [value], partition=number % PARTITIONS), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
            epochs = client.leader_epochs(TOPIC)
        broker.kill()
        seconds = 0.5
        for number in range(8):
            broker.launch()
            assert broker.kill_after(seconds * (number + random.random()) / 8), broker.log_tail()
        broker.start()
        with RawClient(broker.port) as client:
            assert all(now > before for now, before in zip(client.leader_epochs(TOPIC), epochs, strict=True))
            found = [record[1] for partition in range(PARTITIONS) for record in client.read_all(TOPIC, partition)]
            assert sorted(value or b"" for value in found) == sorted(values)
        assert broker.unexpected() == []
