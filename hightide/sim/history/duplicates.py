"""K2: one value at two offsets, though its producer was idempotent. Without idempotence a retry may be kept twice."""

from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import show
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import version_orders


def check(history: History) -> list[Finding]:
    findings = []
    for partition, order in version_orders(history).items():
        senders = history.senders.get(partition, {})
        for value, copies in order.copies.items():
            send = senders.get(value)
            if send is not None and send.idempotent:
                offsets = ", ".join(map(str, sorted(copies)))
                proofs = [witness for witness in copies.values() if witness is not send]
                what = f"{show(value)} is at several offsets: {offsets}"
                findings.append(Finding("K2", str(partition), what, (send, *proofs)))
    return findings
