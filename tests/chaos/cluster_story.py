"""A cluster under the load of stock clients, all of whose doings are recorded and judged at the end.

with Story(cluster) as story:
    story.go_on()
    cluster.kill(story.leader())
    story.go_on()
    ...  # bring the cluster back
story.judge()
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from hightide.errors import ErrorCode
from hightide.sim.history.checks import check_all
from hightide.sim.history.findings import describe
from hightide.sim.history.recorder import History
from hightide.sim.history.windows import Measured, measure
from hightide.testing import Cluster
from hightide.types import TopicPartition
from tests.chaos.raw_client import LATEST, RawClient
from tests.history_clients import (
    AiokafkaLoad,
    ConfluentLoad,
    Follower,
    Observer,
    RecordedLoad,
    read_everything,
    record_log,
)
from tests.requests import batch, fetch, produce_batch

TOPIC = "journal"
SOME = 100  # acknowledgements that each producer gets before the story goes on
PROGRESS_SECONDS = 60.0
PRODUCE_VERSION, FETCH_VERSION = 9, 12


class Story:
    """Two producers, a reader that follows and one that asks for offsets, until the end of the block.

    `loads` are the kinds of producers; several of one kind get numbers. `assignments` place the partitions instead of
    the brokers. Stories of one cluster have topics of their own.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        topic: str = TOPIC,
        partitions: int = 3,
        assignments: Mapping[int, Collection[int]] | None = None,
        loads: Sequence[type[RecordedLoad]] = (ConfluentLoad, AiokafkaLoad),
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.history = History(time.monotonic)
        count = partitions if assignments is None else len(assignments)
        self.partitions = [TopicPartition(topic, number) for number in range(count)]
        cluster.create_topic(topic, count, assignments=assignments, configs={"segment.bytes": "1048576"})
        where = (cluster.bootstrap, self.partitions)
        self.loads = [load(self.history, f"{load.__name__}-{number}", *where) for number, load in enumerate(loads, 1)]
        self._readers = [
            Follower(self.history, "follower", *where),
            Observer(self.history, "observer", *where),
        ]
        self._stack = ExitStack()
        self._direct = 0

    def __enter__(self) -> Self:
        for client in [*self._readers, *self.loads]:
            self._stack.enter_context(client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def go_on(self, count: int = SOME) -> None:
        """Let every producer have that many more acknowledgements."""
        for load in self.loads:
            load.await_more(count, PROGRESS_SECONDS)

    def leader(self, partition: int = 0) -> int:
        """Who leads a partition; there must be somebody."""
        leader = self.cluster.leader_of(self.topic, partition)
        assert leader is not None, f"nobody leads {self.topic}-{partition}"
        return leader

    def await_new_leader(self, old: int, partition: int = 0) -> int:
        """Wait until somebody else leads; who."""
        cluster = self.cluster
        what = f"somebody else than {old} leads {self.topic}-{partition}"
        cluster.wait_for(lambda: cluster.leader_of(self.topic, partition) not in (None, old), what)
        return self.leader(partition)

    def write_to(self, node_id: int, partition: int = 0, *, acks: int = -1) -> ErrorCode:
        """One value, from a client that talks to this broker alone and believes that it leads; what it was told."""
        with self.writing_to(node_id, partition, acks=acks) as answer:
            return answer()

    @contextmanager
    def writing_to(self, node_id: int, partition: int = 0, *, acks: int = -1) -> Iterator[Callable[[], ErrorCode]]:
        """The same with time between request and answer: what was sent waits at the broker for as long as it sleeps."""
        self._direct += 1
        value = f"direct-{self._direct}".encode()
        send = self.history.begin_send(f"direct-{self._direct}", self.partitions[partition], value, idempotent=False)
        request = produce_batch(self.topic, batch([value]), partition, acks)

        def answer() -> ErrorCode:
            reply = client.receive(request.api_key, PRODUCE_VERSION)
            told = reply.responses[0].partition_responses[0]
            code = ErrorCode(told.error_code)
            if code is ErrorCode.NONE:
                self.history.acknowledged(send, told.base_offset)
            else:
                self.history.failed(send, code.name)
            return code

        with self._client(node_id) as client:
            client.send(request, PRODUCE_VERSION)
            yield answer

    def readable_at(self, node_id: int, partition: int = 0) -> int:
        """Up to which offset this broker lets consumers read; it must let them read everything below."""
        with self._client(node_id) as client:
            end = client.offset(self.topic, partition, LATEST)
            part = client.call(fetch(self.topic, end - 1, partition), FETCH_VERSION).responses[0].partitions[0]
        assert part.error_code == ErrorCode.NONE
        assert part.records, f"node {node_id} says that {partition} ends at {end}, and gives nothing below"
        return end

    def _client(self, node_id: int) -> RawClient:
        host, _, port = self.cluster.node(node_id).address.rpartition(":")
        return RawClient(int(port), host=host)

    def judge(self) -> Measured:
        """After healing: a fresh client reads everything, all replicas hold the same, no checker has anything to say.

        Answers what it cost.
        """
        cluster = self.cluster
        cluster.wait_healthy()
        read_everything(self.history, cluster.bootstrap, self.partitions)
        self.await_identical_replicas()
        for node in cluster.nodes:
            record_log(self.history, f"node-{node.id}", node.log_file)
        found = check_all(self.history)
        assert found == [], describe(found)
        measured = measure(self.history)
        print(f"{len(self.history.sends)} sends, unavailable for {measured.longest_unavailable_seconds:.2f} s at most")
        return measured

    def await_identical_replicas(self) -> None:
        """R21: byte for byte, whatever their segments are."""
        for partition in self.partitions:
            self.cluster.wait_for(
                lambda partition=partition: len(set(self._replicas(partition))) == 1,  # type: ignore[misc]
                f"all replicas of {partition} hold the same bytes",
            )
            assert self._replicas(partition)[0], f"nothing was written to {partition}"

    def _replicas(self, partition: TopicPartition) -> list[bytes]:
        return [
            b"".join(path.read_bytes() for path in self.segments(node.id, partition.partition))
            for node in self.cluster.nodes
        ]

    def segments(self, node_id: int, partition: int = 0) -> list[Path]:
        """The files of one replica, oldest first."""
        return sorted((self.cluster.node(node_id).data_directory / f"{self.topic}-{partition}").glob("*.log"))
