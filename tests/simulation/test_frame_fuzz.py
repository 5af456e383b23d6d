"""Any bytes as requests to a whole node in memory: an answer or a closed connection, never an unexpected error.

Faster than over sockets (tests/chaos has that), and Hypothesis shrinks what it finds.
"""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hightide.sim.disk import SimulatedDisk
from hightide.wire.headers import RequestHeader
from hightide.wire.messages.api_versions import ApiVersionsRequest
from hightide.wire.primitives import Reader
from tests.chaos.corpus import FUZZED, NOT_FUZZED, OWN_FROM, Mutator, samples, served
from tests.memory_world import MemoryBroker
from tests.properties.messages import API_SUBJECTS, Subject, wide
from tests.requests import create_topic, fetch, produce, values_of

MUTATED_FRAMES = 4000
REQUESTS = {
    subject.message_class.api_key: subject  # type: ignore[attr-defined]
    for subject in API_SUBJECTS
    if subject.schema.kind == "request"
}
CLIENT_APIS = sorted(key for key in REQUESTS if key not in NOT_FUZZED and key < OWN_FROM)


class Target:
    """A broker with a topic to abuse and another to look after."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(SimulatedDisk())

    async def start(self) -> None:
        await self.broker.start()
        self.served = served(await self.broker.call(ApiVersionsRequest(), 0))
        for name in (FUZZED, "bystander"):
            await self.broker.call(create_topic(name, 2), 7)
            await self.broker.call(produce(name, [b"kept"]), 9)
        topic = self.broker.node.image.topic_named(FUZZED)
        assert topic is not None
        self.corpus = samples(self.served, topic.topic_id)

    async def feed(self, frames: Iterable[bytes]) -> None:
        """Each frame on a connection of its own; then everything that it began comes to its end."""
        for frame in frames:
            self.broker.world.network.client().give(frame)
        await self._quiet()

    async def _quiet(self) -> None:
        node = self.broker.node
        for _ in range(3):
            await asyncio.wait_for(node.assignments.settled(), 60)
            for _ in range(60):
                await asyncio.sleep(0)
        for session in node.sessions:
            session.connection.close()
        await asyncio.sleep(0)

    async def check(self) -> None:
        """Nobody died of it."""
        node = self.broker.node
        assert node.stats.unexpected_errors == 0
        assert not node.failed.is_set()
        assert not node.parked_fetches
        self.broker.connection = self.broker.world.network.client()
        answer = await self.broker.call(produce("bystander", [b"more"]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert values_of(await self.broker.call(fetch("bystander"), 12))[0] == b"kept"


def test_every_sample_is_valid() -> None:
    """Else the mutator would be mutating rubbish: each is answered as it stands."""

    async def scenario() -> None:
        target = Target()
        await target.start()
        assert {(sample.api_key, sample.version) for sample in target.corpus} == {
            (key, version) for key, versions in target.served.items() for version in versions
        }
        for sample in target.corpus:
            connection = target.broker.world.network.client()
            connection.give(sample.payload)
            reply = await asyncio.wait_for(connection.replies.get(), 10)
            assert reply is not None, f"API {sample.api_key} in version {sample.version} was not answered"
            assert Reader(reply).read_int32() == 77
        await target.check()
        await target.broker.node.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_mutated_requests(seed: int) -> None:
    async def scenario() -> None:
        target = Target()
        await target.start()
        mutator = Mutator(seed, target.corpus)
        for _ in range(MUTATED_FRAMES // 50):
            await target.feed(mutator.frame()[4:] for _ in range(50))
            await target.check()
        await target.broker.node.stop()

    asyncio.run(scenario())


def framed(subject: Subject, version: int) -> st.SearchStrategy[bytes]:
    """Well-formed requests that mean anything at all, in the version they are announced in."""
    header = bytearray()
    key = subject.message_class.api_key  # type: ignore[attr-defined]
    RequestHeader(key, version, 77, "fuzzer").write(header)
    return wide(subject, version).map(lambda message: bytes(header) + message.encode(version))


def any_request() -> st.SearchStrategy[bytes]:
    """Of an API for clients, served or not."""
    versions = [(key, version) for key in CLIENT_APIS for version in REQUESTS[key].versions]
    return st.sampled_from(versions).flatmap(lambda chosen: framed(REQUESTS[chosen[0]], chosen[1]))


def any_bytes() -> st.SearchStrategy[bytes]:
    """A header that may be valid, and a body that is not."""
    keys = st.sampled_from(CLIENT_APIS) | st.integers(-(2**15), 2**15 - 1)
    versions = st.integers(-2, 20) | st.integers(-(2**15), 2**15 - 1)
    clients = st.sampled_from([b"\xff\xff", b"\xff\xff\0", b"\0\1x", b"\0\1x\0", b"\x7f\xff"])
    return st.builds(_frame_of, keys, versions, clients, st.binary(max_size=200)) | st.binary(max_size=40)


def _frame_of(key: int, version: int, client: bytes, body: bytes) -> bytes:
    return key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True) + (77).to_bytes(4) + client + body


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), phases=set(Phase) - {Phase.explain})
@given(frames=st.lists(any_request() | any_bytes(), min_size=1, max_size=20))
def test_generated_requests(frames: list[bytes]) -> None:
    async def scenario() -> None:
        target = Target()
        await target.start()
        await target.feed(frames)
        await target.check()
        await target.broker.node.stop()

    asyncio.run(scenario())
