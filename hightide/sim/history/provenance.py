"""K12: a value that nobody sent there, or that is not what was sent, or that was read before it was sent."""

from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import Polled, Send, Value, show
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import version_orders
from hightide.types import TopicPartition


def check(history: History) -> list[Finding]:
    findings = []
    seen: set[Polled] = set()
    nobody: dict[Value, Send] = {}
    for poll in history.polls:
        for record in poll.records:
            partition, offset, value = record
            send = history.senders.get(partition, nobody).get(value)
            if (send is not None and send.begun < poll.ended) or record in seen:
                continue
            seen.add(record)
            what, witness = f"{show(value)} was read before it was sent", send
            if send is None:
                what, witness = _stranger(history, *record)
            operations = (poll,) if witness is None else (witness, poll)
            findings.append(Finding("K12", f"{partition} offset {offset}", what, operations))
    return findings


def _stranger(history: History, partition: TopicPartition, offset: int, value: Value) -> tuple[str, Send | None]:
    """What a value that was not sent there may be: one sent elsewhere, or what became of the acknowledged one."""
    what = f"{show(value)} was read and nobody sent it there"
    for senders in history.senders.values():
        if value in senders:
            return f"{what}, but to {senders[value].partition}", senders[value]
    for claimed, witness in version_orders(history)[partition].conflicts.get(offset, []):
        if isinstance(witness, Send):
            return f"{what}; {show(claimed)} was acknowledged", witness
    return what, None
