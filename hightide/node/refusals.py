"""What follows a refused batch on its connection is refused for the same reason (K2).

An idempotent producer has up to five requests under way. The first may be refused for a reason that passes: this broker
does not lead yet, its lease ended, too few replicas are in sync. If it passes before the second request is looked at,
the second has a gap before it that is nobody's fault. To answer it with OUT_OF_ORDER_SEQUENCE_NUMBER, as Kafka does,
makes librdkafka begin another epoch for all partitions, and whatever it had under way to the others, written there and
not acknowledged, is written once more. To append it, where the producer is unknown, lets records pass each other.
So it is told what the first was told, and the producer sends both again, in order.
"""

from struct import Struct
from typing import Final, NamedTuple

from hightide.errors import ApiError, ErrorCode
from hightide.limits import PRODUCER_BATCHES_KEPT, REFUSALS_REMEMBERED_PER_CONNECTION
from hightide.wire.records import Records

_PRODUCER: Final = Struct(">qhi")  # id, epoch, first sequence
_PRODUCER_START: Final = 43
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_HALF: Final = 1 << 30

Key = tuple[str | bytes, int, int]  # topic, partition, producer id
Refused = dict[Key, "Refusal"]


class Refusal(NamedTuple):
    """The first batch that was refused, why, and how many may follow that were sent before this was known.

    Not the exception itself: its traceback would keep the receive buffer.
    """

    epoch: int
    sequence: int
    code: ErrorCode
    message: str
    followers_left: int


def remember(refused: Refused, topic: str | bytes, index: int, records: Records | None, error: ApiError) -> None:
    """A batch was refused and nothing of it appended."""
    if not error.retriable or records is None or len(records) < _PRODUCER_START + _PRODUCER.size:
        return
    producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_START)
    key = (topic, index, producer_id)
    if producer_id < 0 or key in refused:
        return
    if len(refused) >= REFUSALS_REMEMBERED_PER_CONNECTION:
        del refused[next(iter(refused))]
    refused[key] = Refusal(epoch, sequence, error.code, error.message or "", PRODUCER_BATCHES_KEPT - 1)


def check(refused: Refused, topic: str | bytes, index: int, records: Records | None) -> None:
    """Raise the error of an earlier batch that this one follows; the refused one itself may be tried again."""
    if records is None or len(records) < _PRODUCER_START + _PRODUCER.size:
        return
    producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_START)
    key = (topic, index, producer_id)
    refusal = refused.get(key)
    if refusal is None:
        return
    distance = (sequence - refusal.sequence) & _SEQUENCE_MASK
    if epoch != refusal.epoch or not 0 < distance < _HALF or not refusal.followers_left:
        del refused[key]
        return
    refused[key] = refusal._replace(followers_left=refusal.followers_left - 1)
    raise ApiError(refusal.code, refusal.message)
