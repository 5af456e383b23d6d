"""Thousands of wrong frames over real sockets: the broker stays up, others are undisturbed, memory stays bounded.

Seeded: CHAOS_SEED sets another stream of frames. tests/simulation/test_frame_fuzz.py does the same without sockets.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cramjam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hightide.errors import ErrorCode
from hightide.limits import DECOMPRESSED_BATCH_BYTES_MAX, MIB
from hightide.wire.messages.api_versions import ApiVersionsRequest
from hightide.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.chaos.corpus import FUZZED, Mutator, Sample, samples, served
from tests.chaos.processes import BrokerProcess
from tests.chaos.raw_client import LATEST, RawClient
from tests.conformance.record_batches import build_batch
from tests.requests import create_topic, fetch, produce, produce_batch, values_of

SEED = int(os.environ.get("CHAOS_SEED", "1"))
FRAMES = 6000
FRAMES_LONG = 200_000
EXAMPLES = 400
ANSWER_SECONDS = 2.0
ROUNDS_AT_LEAST = 20
ATTEMPTS_MAX = 50
WAITING_MAX = 10
# No frame here is larger than a few KiB and none is kept. What may stay is the topics that mutated names made, some 20
# KiB each, and what the allocator does not give back; a leak of a receive buffer per connection (64 KiB) would be
# hundreds of MiB.
GROWTH_BYTES_MAX = 64 * MIB


class Bystander:
    """Writes and reads its own topic all the time, on connections opened before the trouble, and notes what fails."""

    TOPIC = "somebody-elses-affairs"

    def __init__(self, port: int, rounds_at_least: int) -> None:
        self.rounds_at_least = rounds_at_least
        self._writer, self._reader = RawClient(port), RawClient(port)
        assert self._writer.call(create_topic(self.TOPIC), 7).topics[0].error_code == 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rounds = 0
        self.trouble: list[str] = []

    def __enter__(self) -> "Bystander":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._writer.close()
        self._reader.close()

    def company(self) -> Iterator[int]:
        """Numbers of attempts to trouble it, until it did enough beside them: how fast either is does not count."""
        for attempt in range(ATTEMPTS_MAX):
            yield attempt
            if self.rounds >= self.rounds_at_least or self.trouble:
                return

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and not self.trouble:
                self._round(b"round %d" % self.rounds)
                self.rounds += 1
        except (OSError, AssertionError) as error:
            self.trouble.append(repr(error))

    def _round(self, value: bytes) -> None:
        result = self._writer.call(produce(self.TOPIC, [value]), 9).responses[0].partition_responses[0]
        if (result.error_code, result.base_offset) != (0, self.rounds):
            self.trouble.append(f"{value!r} was answered with {result}")
        read = values_of(self._reader.call(fetch(self.TOPIC, self.rounds, max_wait_ms=1000), 12))
        if read != [value]:
            self.trouble.append(f"{value!r} was read as {read}")


@contextmanager
def under_watch(broker: BrokerProcess, rounds_at_least: int = ROUNDS_AT_LEAST) -> Iterator[Bystander]:
    """Whatever happens inside, nobody else may notice, and it may not cost memory for good."""
    before = broker.resident_bytes()
    with Bystander(broker.port, rounds_at_least) as bystander:
        yield bystander
    assert bystander.trouble == []
    assert bystander.rounds >= rounds_at_least
    assert broker.is_running, broker.log_tail()
    assert broker.unexpected() == []
    growth = broker.resident_bytes() - before
    print(f"the broker grew by {growth / MIB:.1f} MiB")
    assert growth < GROWTH_BYTES_MAX


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as running:
        with RawClient(running.port) as client:
            assert client.call(create_topic(FUZZED, 2), 7).topics[0].error_code == 0
            client.call(produce(FUZZED, [b"something to read"]), 9)
        yield running
        assert running.terminate() == 0, running.log_tail()


@pytest.fixture
def corpus(broker: BrokerProcess) -> list[Sample]:
    """Valid requests; each was sent once, so that every handler is loaded before memory is measured."""
    with RawClient(broker.port) as client:
        topic = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=FUZZED)]), 12).topics[0]
        found = samples(served(client.call(ApiVersionsRequest(), 0)), topic.topic_id)
    for sample in found:
        assert exchange(broker.port, len(sample.payload).to_bytes(4) + sample.payload), sample
    return found


def exchange(port: int, frame: bytes) -> bytes:
    """Send a frame on a connection of its own and take what comes until the broker closes it, which it soon must."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as connection:
        taken = bytearray()
        with suppress(ConnectionError):
            connection.sendall(frame)
            while part := connection.recv(65536):
                taken += part
                if len(taken) >= 4 and len(taken) >= 4 + int.from_bytes(taken[:4]):
                    break  # answered; the broker would keep the connection open for the next request
        return bytes(taken)


def throw(port: int, frames: Iterable[bytes]) -> None:
    """Send each frame on a connection of its own, and end the sending side: the broker then has all it will get.

    It closes at once, but for a request that waits with more bytes behind it: then it looks no further for a while.
    """
    waiting = 0
    for frame in frames:
        connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        with connection, suppress(ConnectionError):
            try:
                connection.sendall(frame)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except TimeoutError:
                waiting += 1
                assert waiting <= WAITING_MAX, "connections are not closed"


def test_mutated_requests(broker: BrokerProcess, corpus: list[Sample]) -> None:
    mutator = Mutator(f"{SEED}:live", corpus)
    with under_watch(broker) as bystander:
        for _ in bystander.company():
            throw(broker.port, (mutator.frame() for _ in range(FRAMES)))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_more_mutated_requests(broker: BrokerProcess, corpus: list[Sample]) -> None:
    mutator = Mutator(f"{SEED}:long", corpus)
    with under_watch(broker) as bystander:
        for _ in bystander.company():
            throw(broker.port, (mutator.frame() for _ in range(FRAMES_LONG)))


def test_generated_frames(broker: BrokerProcess, corpus: list[Sample]) -> None:
    """Headers of real APIs with bodies of anything, and APIs and versions that nobody has."""
    apis = st.sampled_from([(sample.api_key, sample.version) for sample in corpus]) | st.tuples(
        st.integers(-(2**15), 2**15 - 1), st.integers(-(2**15), 2**15 - 1)
    )
    clients = st.sampled_from([b"\xff\xff", b"\xff\xff\0", b"\0\1x", b"\0\1x\0", b"\x7f\xff"])

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(api=apis, client=clients, body=st.binary(max_size=500), announced=st.just(0) | st.integers(-50, 50))
    def thrown(api: tuple[int, int], client: bytes, body: bytes, announced: int) -> None:
        payload = b"".join(number.to_bytes(2, signed=True) for number in api) + (77).to_bytes(4) + client + body
        throw(broker.port, [((len(payload) + announced) & 0xFFFFFFFF).to_bytes(4) + payload])
        assert broker.is_running

    with under_watch(broker) as bystander:
        for _ in bystander.company():
            thrown()


BOMBS: dict[int, Callable[[bytes], Any]] = {  # by the number of the codec
    1: cramjam.gzip.compress,
    2: cramjam.snappy.compress_raw,
    3: cramjam.lz4.compress,
    4: cramjam.zstd.compress,
}
BOMB_BYTES = 300 * MIB
# A batch is opened in one piece of at most DECOMPRESSED_BATCH_BYTES_MAX, once as it comes and once as it is stored.
OPENED_BYTES_MAX = 2 * DECOMPRESSED_BATCH_BYTES_MAX + 50 * MIB


def test_bombs(broker: BrokerProcess, corpus: list[Sample]) -> None:
    """A batch of some MiB that inflates to hundreds, where the broker has to look inside: refused within its means."""
    with RawClient(broker.port) as client:
        made = client.call(create_topic("opened", compression_type="uncompressed", max_message_bytes="20000000"), 7)
        assert made.topics[0].error_code == 0
        highest = broker.peak_bytes()
        payloads = {codec: bytes(compress(bytes(BOMB_BYTES))) for codec, compress in BOMBS.items()}
        with under_watch(broker, rounds_at_least=2) as bystander:
            for codec, payload in (each for _ in bystander.company() for each in payloads.items()):
                bomb = build_batch([b"x"], attributes=codec, payload=payload)
                answer = client.call(produce_batch("opened", bomb), 9).responses[0].partition_responses[0]
                assert answer.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE), len(payload)
                assert client.offset("opened", 0, LATEST) == 0
        assert broker.peak_bytes() - highest < OPENED_BYTES_MAX


def test_streams_of_rubbish(broker: BrokerProcess, corpus: list[Sample]) -> None:
    """Many frames on one connection: a wrong one ends it, whatever was promised before and behind it."""
    mutator = Mutator(f"{SEED}:streams", corpus)
    good = [len(sample.payload).to_bytes(4) + sample.payload for sample in corpus]
    with under_watch(broker) as bystander:
        for _ in bystander.company():
            for number in range(200):
                throw(broker.port, [b"".join([*good[number % len(good) :][:5], *(mutator.frame() for _ in range(10))])])
