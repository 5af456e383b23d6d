"""What clients sent, were told and read, and the checks that hold over any number of crashes (RELIABILITY, K1-K15)."""

import threading
from collections.abc import Callable, Mapping, Sequence

Found = Mapping[int, Sequence[tuple[int, bytes | None, int]]]  # by partition: offset, value, leader epoch


class History:
    """One topic's records. Every value is unique, and sent once or with idempotence: it may appear once at most.

    All threads write here; an acknowledgement wakes who waits for more.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._sent: dict[bytes, tuple[str, int]] = {}
        self._offsets: dict[bytes, tuple[int, int]] = {}
        self._ends: dict[int, int] = {}
        self.failures: list[str] = []

    def sending(self, value: bytes, sender: str, number: int) -> None:
        """A producer is about to send; its numbers rise, and whoever keeps order keeps that of each partition."""
        with self._lock:
            self._sent[value] = (sender, number)

    def acknowledged(self, value: bytes, partition: int, offset: int) -> None:
        with self._lock:
            self._offsets[value] = (partition, offset)
            self._lock.notify_all()

    def failed(self, what: str) -> None:
        """A client was told something that it never may be."""
        with self._lock:
            self.failures.append(what)
            self._lock.notify_all()

    @property
    def count(self) -> int:
        """Acknowledged records."""
        return len(self._offsets)

    def await_more(self, count: int, still: Callable[[], bool], seconds: float = 60.0) -> None:
        """Return when that many more records were acknowledged."""
        with self._lock:
            wanted = len(self._offsets) + count
            in_time = self._lock.wait_for(
                lambda: len(self._offsets) >= wanted or bool(self.failures) or not still(), seconds
            )
            assert in_time, f"only {len(self._offsets)} of {wanted} records were acknowledged in {seconds} s"

    def promises(self) -> dict[bytes, tuple[int, int]]:
        """Partition and offset of every record acknowledged so far: whoever reads everything after this must see it."""
        with self._lock:
            return dict(self._offsets)

    def violations(self, promises: dict[bytes, tuple[int, int]], found: Found) -> list[str]:
        """Everything that a reader of the whole topic can hold against the broker."""
        with self._lock:
            return [*self.failures, *self._compare(promises, found)]

    def _compare(self, promises: dict[bytes, tuple[int, int]], found: Found) -> list[str]:
        wrong: list[str] = []
        places: dict[bytes, list[tuple[int, int]]] = {}
        for partition, records in found.items():
            offsets = [offset for offset, _, _ in records]
            if offsets != list(range(len(offsets))):
                wrong.append(f"partition {partition} has gaps or repeats in its offsets")
            if len(offsets) < self._ends.get(partition, 0):
                wrong.append(f"K15: partition {partition} ended at {self._ends[partition]}, now at {len(offsets)}")
            self._ends[partition] = len(offsets)
            epochs = [epoch for _, _, epoch in records]
            if epochs != sorted(epochs):
                wrong.append(f"I11: leader epochs fall in partition {partition}")
            latest: dict[str, int] = {}
            for offset, value, _ in records:
                places.setdefault(value or b"", []).append((partition, offset))
                sender, number = self._sent.get(value or b"", ("nobody", offset))
                if number < latest.get(sender, -1):
                    wrong.append(f"K9: number {number} of {sender} stands behind {latest[sender]} at {offset}")
                latest[sender] = number
        for value, where in places.items():
            if value not in self._sent:
                wrong.append(f"K12: {value[:40]!r} was never sent, and stands at {where}")
            elif len(where) > 1:
                wrong.append(f"K2: {value[:40]!r} stands at {where}")
        for value, place in promises.items():
            if value not in places:
                wrong.append(f"K4: {value[:40]!r} was acknowledged at {place} and is gone")
            elif place not in places[value]:
                wrong.append(f"K1: {value[:40]!r} was acknowledged at {place} and stands at {places[value]}")
        return wrong
