"""Produce (0), versions 3-13: the hot path in.

acks=0 is not answered, acks=1 is answered after the leader's write, acks=-1 when the high watermark passed the batch
or the time is up. A duplicate waits exactly like the original (R11). Each partition has its own result; a refused one
never keeps another from being written, but what follows it on its connection shares its fate (`node.refusals`).
Versions before 3 are advertised but closed (KAFKA-18659); 13 names topics by id. There is no transaction coordinator
yet, so transactional batches are refused with INVALID_TXN_STATE. A leader whose lease ended (C13) sends its producers
away: it answers NOT_LEADER_OR_FOLLOWER without a hint, and hangs up.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hightide.errors import ApiError, ErrorCode, InvalidRecordsError
from hightide.node import refusals
from hightide.node.bursts import Produced
from hightide.node.ports import Part
from hightide.node.sessions import NO_ANSWER, PARKED, PUT_ASIDE
from hightide.wire.produce import (
    ZSTD_FROM,
    PartitionResult,
    Produce,
    SingleProduce,
    decode_produce_request,
    decode_single_produce,
    encode_produce_response,
    encode_single_produce_response,
    uses_zstd,
)
from hightide.wire.records import Records

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition
    from hightide.node.sessions import Request
    from hightide.storage.log import Appended

NONE: Final = 0
LEADER: Final = 1
ALL: Final = -1
VALID_ACKS: Final = (NONE, LEADER, ALL)
_ATTRIBUTES: Final = 22  # the low byte of a batch's attributes
_TRANSACTIONAL: Final = 0x10

Results = list[tuple[str | bytes, list[PartitionResult]]]


def handle(node: "Node", request: "Request") -> Sequence[Part] | None:
    """Append every partition's records; answer now, later or (acks=0) never."""
    request.session.stats.produces += 1
    single = decode_single_produce(request.data, request.head, request.position, request.version)
    if single[4] >= 0 and ALL <= single[0] <= LEADER:
        return _handle_one(node, request, single)
    produce = decode_produce_request(request.body, request.version)
    if produce.acks not in VALID_ACKS:
        return _refused(request, produce, ErrorCode.INVALID_REQUIRED_ACKS)
    return _handle_many(node, request, produce)


def _handle_one(node: "Node", request: "Request", produce: SingleProduce) -> Sequence[Part] | None:
    """The ordinary request, one partition, without the objects that several need."""
    acks, timeout_ms, topic, index, start, end = produce
    data, head = request.data, request.head
    if head is not data:
        return SinglePartition(node, request, acks, timeout_ms, topic, index, data[start:end]).handle()
    one = SinglePartition(node, request, acks, timeout_ms, topic, index, head[start:end])
    burst = node.burst
    session = request.session
    if burst.is_open and session.may_put_aside and not session.refused:
        table = session.partitions.get(topic)
        partition = None if table is None else table.get(index)
        if partition is not None and one.may_be_put_aside():
            burst.put_aside(partition, one)
            return PUT_ASIDE
    return one.handle()


def _handle_many(node: "Node", request: "Request", produce: Produce) -> Sequence[Part] | None:
    results: Results = []
    parked = ParkedProduce(node, request, results)
    number = 0
    for topic, partitions in produce.topics:
        of_topic: list[PartitionResult] = []
        results.append((topic, of_topic))
        for index, view in partitions:
            records: Records | None = bytes(view) if view is not None and view.readonly else view  # of a small frame
            result = PartitionResult(index)
            of_topic.append(result)
            number += 1
            try:
                partition, appended = _append(node, request, topic, index, produce.acks, records)
            except ApiError as error:
                fail(node, result, error, topic)
                continue
            result.base_offset = appended.base_offset
            result.append_time = appended.append_time
            result.log_start = appended.log_start
            if produce.acks == ALL and partition.must_wait(appended):
                parked.expect(partition, number, result, appended.last_offset + 1)
    if parked.is_waiting:
        parked.park(produce.timeout_ms)
        return PARKED
    return _answer(request, produce.acks, results)


def _append(
    node: "Node", request: "Request", topic: str | bytes, index: int, acks: int, records: Records | None
) -> "tuple[Partition, Appended]":
    session = request.session
    refused = session.refused
    if refused:
        refusals.check(refused, topic, index, records)
    try:
        table = session.partitions.get(topic)
        partition = None if table is None else table.get(index)
        if partition is None:
            raise node.missing(topic, index)
        if not records:
            raise ApiError(ErrorCode.INVALID_RECORD, "a partition without records")
        size = len(records)
        attributes = records[_ATTRIBUTES] if size > _ATTRIBUTES else 0
        if attributes & _TRANSACTIONAL:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served here")
        if request.version < ZSTD_FROM and uses_zstd(records):
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 (KIP-110)")
        session.stats.produced_bytes += size
        return partition, partition.append(records, acks, session.clock.wall_ms())
    except ApiError as error:
        refusals.remember(refused, topic, index, records, error)
        raise


def fail(node: "Node", result: PartitionResult, error: ApiError, topic: str | bytes) -> None:
    """Put an error into a result, with a hint at the leader where that helps (KIP-951)."""
    bad = error.record_errors if isinstance(error, InvalidRecordsError) else ()
    result.fail(error.code, error.message, bad)
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = node.leader_hint(topic, result.index)
        if leader is not None and leader[0] != node.settings.node_id:
            result.leader_id, result.leader_epoch = leader


def _answer(request: "Request", acks: int, results: Results) -> Sequence[Part]:
    if acks == NONE:
        # Nobody reads an answer: closing is the one way to say that something went wrong, and Kafka's way too.
        if any(result.error_code for _, partitions in results for result in partitions):
            request.session.connection.close()
        return NO_ANSWER
    return _framed(request, results)


def _framed(request: "Request", results: Results) -> Sequence[Part]:
    """Any answer, with the addresses of the leaders it hints at."""
    hinted = {result.leader_id for _, partitions in results for result in partitions if result.leader_id >= 0}
    session = request.session
    node = session.node
    endpoints = node.addresses_of(hinted, session.listener_name) if hinted else ()
    if node.clock.now() >= node.lease.until and any(
        result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for _, partitions in results for result in partitions
    ):
        # Whoever asks this broker for metadata is told of leaders that may be deposed, and librdkafka asks the broker
        # it is connected to for as long as it is: without the connection it asks another one.
        node.clock.call_soon(session.stop)
    return request.framed(encode_produce_response(request.version, results, endpoints=endpoints))


def _refused(request: "Request", produce: Produce, code: ErrorCode) -> Sequence[Part]:
    """The same error for everything, nothing appended."""
    results: Results = [(topic, [PartitionResult(index) for index, _ in parts]) for topic, parts in produce.topics]
    for _, partitions in results:
        for result in partitions:
            result.fail(code)
    return request.framed(encode_produce_response(request.version, results))


def _appended_frame(request: "Request", topic: str | bytes, index: int, appended: "Appended") -> bytes:
    return encode_single_produce_response(
        request.version, request.correlation_id, topic, index,
        appended.base_offset, appended.append_time, appended.log_start,
    )  # fmt: skip


class SinglePartition(Produced):
    """A request for one partition: until it is appended, and with acks=all until it is committed or its time is up."""

    __slots__ = (
        "_acks", "_appended", "_index", "_is_answered", "_node", "_request", "_timeout_ms", "_topic", "deadline_slot",
    )  # fmt: skip

    def __init__(
        self,
        node: "Node",
        request: "Request",
        acks: int,
        timeout_ms: int,
        topic: str | bytes,
        index: int,
        records: Records,
    ) -> None:
        super().__init__(records)
        self._node = node
        self._request = request
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._topic = topic
        self._index = index
        self._appended: Appended | None = None
        self._is_answered = False
        self.deadline_slot = -1

    def handle(self) -> Sequence[Part] | None:
        """Append it alone; what a handler returns."""
        topic, index, acks = self._topic, self._index, self._acks
        try:
            partition, appended = _append(self._node, self._request, topic, index, acks, self.records)
        except ApiError as error:
            result = PartitionResult(index)
            fail(self._node, result, error, topic)
            return _answer(self._request, acks, [(topic, [result])])
        return self._answered(partition, appended)

    def _answered(self, partition: "Partition", appended: "Appended") -> Sequence[Part] | None:
        self.records = b""
        if self._acks == ALL and partition.must_wait(appended):
            self._appended = appended
            partition.wait_for(appended.last_offset + 1, self, self._index)
            self.deadline_slot = self._node.deadlines.add(self, max(0, self._timeout_ms) / 1000)
            return PARKED
        if self._acks == NONE:
            return NO_ANSWER
        return [_appended_frame(self._request, self._topic, self._index, appended)]

    # ------------------------------------------------------------------ with others

    def may_be_put_aside(self) -> bool:
        """Whether nothing in it speaks against it; what is odd is looked at alone."""
        records = self.records
        if len(records) <= _ATTRIBUTES or records[_ATTRIBUTES] & _TRANSACTIONAL:
            return False
        return self._request.version >= ZSTD_FROM

    def append(self) -> None:
        """Append it alone and answer, or say why not."""
        try:
            self._request.conclude(self.handle())
        except Exception:
            self.give_up()

    def appended(self, partition: "Partition", appended: "Appended") -> None:
        """It was appended with others: answer, or wait for the commit."""
        try:
            self._request.session.stats.produced_bytes += len(self.records)
            self._request.conclude(self._answered(partition, appended))
        except Exception:
            self.give_up()

    def give_up(self) -> None:
        """A bug of ours, which is being handled: nobody can tell what became of the batch."""
        self._request.session.fail()

    # ------------------------------------------------------------------ waiting

    def committed(self, number: int) -> None:  # noqa: ARG002
        """The batch is committed."""
        if self._is_answered:
            return
        self._is_answered = True
        self._node.deadlines.remove(self, self.deadline_slot)
        appended = self._appended
        assert appended is not None
        request = self._request
        request.answer([_appended_frame(request, self._topic, self._index, appended)])

    def failed(self, number: int, code: ErrorCode) -> None:
        """The batch will not be committed here."""
        if not self._is_answered:
            self._is_answered = True
            self._node.deadlines.remove(self, self.deadline_slot)
            result = PartitionResult(number)
            fail(self._node, result, ApiError(code), self._topic)
            self._request.answer(_framed(self._request, [(self._topic, [result])]))

    def expired(self) -> None:
        """Time is up: it may still be committed later, which REQUEST_TIMED_OUT says."""
        self.failed(self._index, ErrorCode.REQUEST_TIMED_OUT)


class ParkedProduce:
    """An acks=all request that waits for several partitions, or for its time-out."""

    __slots__ = ("_deadline_slot", "_left", "_node", "_request", "_results")

    def __init__(self, node: "Node", request: "Request", results: Results) -> None:
        self._node = node
        self._request = request
        self._results = results
        self._left: dict[int, PartitionResult] = {}
        self._deadline_slot = -1

    def expect(self, partition: "Partition", number: int, result: PartitionResult, offset: int) -> None:
        """Wait for one partition's high watermark to reach `offset`."""
        self._left[number] = result
        partition.wait_for(offset, self, number)

    @property
    def is_waiting(self) -> bool:
        """Whether any partition is still to be committed."""
        return bool(self._left)

    def park(self, timeout_ms: int) -> None:
        """Begin to wait."""
        self._deadline_slot = self._node.deadlines.add(self, max(0, timeout_ms) / 1000)

    def committed(self, number: int) -> None:
        """A partition's batch is committed."""
        if self._left.pop(number, None) is not None and not self._left:
            self._finish()

    def failed(self, number: int, code: ErrorCode) -> None:
        """A partition's batch will not be committed here."""
        result = self._left.pop(number, None)
        if result is not None:
            fail(self._node, result, ApiError(code), self._topic_of(result))
            if not self._left:
                self._finish()

    def _topic_of(self, result: PartitionResult) -> str | bytes:
        return next(topic for topic, results in self._results if result in results)

    def expired(self) -> None:
        """Time is up: what is not committed yet may still be later, which REQUEST_TIMED_OUT says."""
        for result in self._left.values():
            result.fail(ErrorCode.REQUEST_TIMED_OUT)
        self._left.clear()
        self._finish()

    def _finish(self) -> None:
        self._node.deadlines.remove(self, self._deadline_slot)
        self._request.answer(_framed(self._request, self._results))
