"""Short words for planted histories: what was sent and where it was acknowledged, what was read, step by step.

Time advances by one second with every moment.
"""

from collections.abc import Iterable

from hightide.sim.history.checks import CHECKERS
from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import ACKS_ALL, Mark, Poll, Polled, Send, Value
from hightide.sim.history.recorder import History
from hightide.types import NO_EPOCH, NO_OFFSET, TopicPartition

P = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


class Story:
    """A history that a test tells."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = History(self._clock)

    def _clock(self) -> float:
        self.now += 1.0
        return self.now

    def begin(
        self,
        *values: Value,
        client: str = "producer",
        partition: TopicPartition = P,
        acks: int = ACKS_ALL,
        idempotent: bool = True,
    ) -> Send:
        return self.history.begin_send(client, partition, *values, acks=acks, idempotent=idempotent)

    def end(self, send: Send, offset: int = NO_OFFSET) -> None:
        self.history.acknowledged(send, offset)

    def sent(
        self,
        *values: Value,
        at: int = NO_OFFSET,
        client: str = "producer",
        partition: TopicPartition = P,
        acks: int = ACKS_ALL,
        idempotent: bool = True,
    ) -> Send:
        """Sent and acknowledged, before anything else happens."""
        send = self.begin(*values, client=client, partition=partition, acks=acks, idempotent=idempotent)
        self.end(send, at)
        return send

    def unknown(self, *values: Value, client: str = "producer", idempotent: bool = True) -> Send:
        send = self.begin(*values, client=client, idempotent=idempotent)
        self.history.unknown(send, "timed out")
        return send

    def read(self, *records: tuple[int, Value], client: str = "consumer", partition: TopicPartition = P) -> Poll:
        """One poll that returns these (offset, value)."""
        poll = self.history.begin_poll(client)
        self.history.polled(poll, [Polled(partition, offset, value) for offset, value in records])
        return poll

    def goes(self, to: int | None, client: str = "consumer", partition: TopicPartition = P) -> None:
        self.history.positioned(client, {partition: to})

    def told(
        self,
        offset: int,
        mark: Mark = Mark.LATEST,
        *,
        client: str = "admin",
        epoch: int = NO_EPOCH,
        partition: TopicPartition = P,
    ) -> None:
        asked = self.history.moment()
        self.history.observed(client, partition, mark, offset, asked=asked, leader_epoch=epoch)

    def final(self, *records: tuple[int, Value], partitions: Iterable[TopicPartition] = (P,)) -> None:
        """A complete final read that returns these (offset, value) of `P`."""
        read = self.history.begin_final_read("final", partitions)
        self.read(*records, client="final")
        self.history.caught_up(read)

    def finds(self, checker: str) -> list[str]:
        """What one checker says, without its number and the operations."""
        found: list[Finding] = CHECKERS[checker](self.history)
        assert all(finding.checker == checker for finding in found)
        return [f"{finding.where}: {finding.what}" for finding in found]
