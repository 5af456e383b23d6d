"""What this node can say of the metadata quorum, for DescribeQuorum."""

from typing import TYPE_CHECKING

from hightide.metadata.entities import Endpoint
from hightide.metadata.quorum_description import QuorumFacts, QuorumMember
from hightide.replication.quorum_progress import NEVER, Fetcher
from hightide.types import NO_TIMESTAMP

if TYPE_CHECKING:
    from hightide.node.node import Node


def quorum_facts(node: "Node") -> QuorumFacts | None:
    """The quorum as its leader sees it; None on any other node."""
    machine, clock = node.metadata.quorum.machine, node.clock
    progress = machine.progress
    if progress is None:
        return None
    now, wall_ms = clock.now(), clock.wall_ms()

    def at(moment: float) -> int:
        return NO_TIMESTAMP if moment == NEVER else wall_ms - int((now - moment) * 1000)

    def member(node_id: int, fetcher: Fetcher) -> QuorumMember:
        return QuorumMember(
            node_id,
            fetcher.position,
            last_fetch_ms=at(fetcher.fetched_at),
            last_caught_up_ms=at(fetcher.caught_up_at),
            endpoints=endpoints.get(node_id, ()),
        )

    endpoints = {voter.node_id: (Endpoint("CONTROLLER", voter.host, voter.port),) for voter in node.settings.voters()}
    own = QuorumMember(
        machine.node_id,
        node.metadata.log.end,
        machine.directory_id,
        wall_ms,
        wall_ms,
        endpoints.get(machine.node_id, ()),
    )
    voters = [own, *(member(voter, fetcher) for voter, fetcher in progress.voters.items())]
    return QuorumFacts(
        machine.node_id,
        machine.epoch,
        machine.high_watermark,
        sorted(voters, key=lambda voter: voter.node_id),
        [member(observer, fetcher) for observer, fetcher in sorted(progress.observers.items())],
    )
