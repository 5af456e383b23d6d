"""Produce (0), versions 3-13: the hot path in.

acks=0 is not answered, acks=1 is answered after the leader's write, acks=-1 when the high watermark passed the batch or
the time is up. A duplicate waits exactly like the original (R11). Each partition has its own result; a refused one never
keeps another from being written. Versions before 3 are advertised but closed (KAFKA-18659); 13 names topics by id.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode, InvalidRecordsError, ProtocolError, StorageError
from hightide.node.ports import Part
from hightide.node.sessions import NO_ANSWER, PARKED
from hightide.wire.produce import (
    PartitionResult,
    ProduceHead,
    decode_produce_request,
    encode_produce_response,
    encode_single_produce_response,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition
    from hightide.node.sessions import Request

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


class ParkedProduce:
    """An acks=all request that waits for its partitions, or for its time-out."""

    __slots__ = ("_left", "_node", "_request", "_results", "deadline_slot")

    def __init__(self, node: "Node", request: "Request", results: list[tuple[str | bytes, list[PartitionResult]]]):
        self._node = node
        self._request = request
        self._results = results
        self._left: dict[int, PartitionResult] = {}
        self.deadline_slot = -1

    def expect(self, index: int, result: PartitionResult) -> None:
        """One more partition to wait for."""
        self._left[index] = result

    def committed(self, index: int) -> None:
        """A partition's batch is committed."""
        if self._left.pop(index, None) is not None and not self._left:
            self._finish()

    def failed(self, index: int, code: ErrorCode) -> None:
        """A partition's batch will not be committed here."""
        result = self._left.pop(index, None)
        if result is not None:
            result.fail(code)
            if not self._left:
                self._finish()

    def expired(self) -> None:
        """Time is up: what is not committed yet may still be later, which the error says."""
        for result in self._left.values():
            result.fail(ErrorCode.REQUEST_TIMED_OUT)
        self._left.clear()
        self._finish()

    def _finish(self) -> None:
        self._node.deadlines.remove(self)
        request = self._request
        request.answer(request.framed(encode_produce_response(request.version, self._results)))
