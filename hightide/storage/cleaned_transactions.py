"""What compaction knows of transactions while it walks over a log: whose records go, and which markers may.

Records of an aborted transaction go at once. A marker stays as long as a record of its transaction was seen in the same
walk, and then until its delete horizon, like a tombstone (KIP-534): a reader that began before must find it.
"""

from collections.abc import Iterable

from hightide.errors import ProtocolError
from hightide.storage.scanning import StoredBatch
from hightide.storage.transaction_index import AbortedTransaction
from hightide.wire.records import ControlType, control_type_of, iterate_records


class CleanedTransactions:
    """The transactions of one walk, batch by batch in the order of the log. `aborted` are all that touch its range."""

    __slots__ = ("_aborted", "_committed", "_ongoing", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._ongoing: dict[int, tuple[AbortedTransaction, bool]] = {}  # by producer; whether a record was seen
        self._committed: set[int] = set()
        self.kept: AbortedTransaction | None = None
        """Whose abort marker the last batch is, if its records were still there: the new index needs the entry."""

    def may_discard(self, batch: StoredBatch) -> bool:
        """Whether this batch says nothing to anybody: records that were aborted, or a marker without records."""
        header = batch.header
        self.kept = None
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            entry = self._aborted.pop()
            self._ongoing[entry.producer_id] = (entry, False)
        if header.is_control:
            return self._marker(batch)
        if not header.is_transactional:
            return False
        ongoing = self._ongoing.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        self._ongoing[header.producer_id] = (ongoing[0], True)
        return True

    def _marker(self, batch: StoredBatch) -> bool:
        producer_id = batch.header.producer_id
        kind = _kind(batch)
        if kind is ControlType.ABORT:
            entry, was_seen = self._ongoing.pop(producer_id, (None, False))
            if was_seen:
                self.kept = entry
            return not was_seen
        if kind is ControlType.COMMIT:
            was_committed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_committed
        # Emptied by an earlier walk: its whole transaction is gone. Anything else is no marker of a transaction.
        return not batch.header.record_count


def _kind(batch: StoredBatch) -> ControlType | None:
    try:
        record = next(iterate_records(batch.buffer, batch.at, batch.header), None)
        return None if record is None else control_type_of(record.key)
    except ProtocolError:
        return None
