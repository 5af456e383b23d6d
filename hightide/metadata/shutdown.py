"""Controlled shutdown: a broker that wants to stop hands its leaderships over first, and stops when all know it.

A stopping broker is not live: it leaves the in-sync sets and leads nothing, in one batch. It may go when every other
live broker has replayed that batch, so that clients are sent to the new leaders before the old one is gone.
"""

from hightide.metadata.decision import Decision, View
from hightide.metadata.entities import Broker
from hightide.metadata.liveness import Liveness, Session
from hightide.metadata.registrations import change
from hightide.metadata.rounds import Elections, Round


def begin_shutdown(view: View, broker: Broker) -> Decision[Elections]:
    """A stopping broker's leaderships and in-sync places go to others; where there is nobody, it stays eligible."""
    round_ = Round(view, without=[broker.broker_id]).elect_all(view.image.index.hosted_by(broker.broker_id))
    return Decision([change(broker, shutting_down=True), *round_.records], round_.outcome)


def may_stop(view: View, broker: Broker, session: Session, liveness: Liveness) -> bool:
    """Whether a stopping broker leads nothing, and every other live broker knows."""
    if view.image.index.led_by(broker.broker_id):
        return False
    if session.shutdown_offset is None:
        session.shutdown_offset = view.image.offset
    lowest = liveness.lowest_metadata_offset(view.image, besides=broker.broker_id)
    return lowest is None or lowest >= session.shutdown_offset
