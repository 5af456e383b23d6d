"""Which brokers live: sessions kept alive by heartbeats, and what each broker told with them (C6, C12).

Nothing here is in the image. A controller that activates gives every registered broker a whole new session (R16): it
does not know what its predecessor promised them. A session can therefore exist before its first heartbeat.
"""

from collections.abc import Collection, Iterable, Mapping

from hightide.metadata.image import Image
from hightide.metadata.replica_states import Unready
from hightide.types import NO_OFFSET, PartitionKey


class Session:
    """One life of a broker, as this controller knows it.

    Invariant: `contact` never falls. `applied_offset`: all replicas assigned up to there are open or in `unready`.
    """

    __slots__ = (
        "applied_offset",
        "contact",
        "epoch",
        "is_heard",
        "lease_offset",
        "log_ends",
        "metadata_offset",
        "shutdown_offset",
        "unready",
    )

    def __init__(self, epoch: int, now: float) -> None:
        self.epoch = epoch
        self.contact = now
        self.is_heard = False
        self.lease_offset = NO_OFFSET
        """What it must have replayed before it gets a lease: it may have been fenced there, and led before (R16)."""
        self.metadata_offset = NO_OFFSET
        self.applied_offset = NO_OFFSET
        self.shutdown_offset: int | None = None
        """Where the metadata log ended when a stopping broker led nothing more; others must have replayed it."""
        self.unready: Mapping[PartitionKey, Unready] = {}
        self.log_ends: dict[PartitionKey, tuple[int, int]] = {}


class Liveness:
    """The sessions of all brokers, by id."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    def restart(self, image: Image, now: float) -> None:
        """A controller activates: everybody has a whole session from now (R16)."""
        self._sessions = {broker_id: Session(broker.epoch, now) for broker_id, broker in image.brokers.items()}
        for session in self._sessions.values():
            session.lease_offset = image.offset

    def clear(self) -> None:
        """The controller resigned: it knows nothing any more."""
        self._sessions = {}

    def begin(self, broker_id: int, epoch: int, now: float) -> Session:
        """A broker registered, or was unfenced without a word to this controller."""
        session = self._sessions[broker_id] = Session(epoch, now)
        return session

    def end(self, broker_id: int) -> None:
        """A broker is gone for good."""
        self._sessions.pop(broker_id, None)

    def of(self, broker_id: int, epoch: int, now: float) -> Session:
        """The session of a broker's current life, begun if there is none."""
        session = self._sessions.get(broker_id)
        return session if session is not None and session.epoch == epoch else self.begin(broker_id, epoch, now)

    def find(self, broker_id: int, epoch: int) -> Session | None:
        """The session of a broker's current life, if there is one."""
        session = self._sessions.get(broker_id)
        return session if session is not None and session.epoch == epoch else None

    def is_active(self, image: Image, broker_id: int, now: float, timeout: float) -> bool:
        """Whether the registered life of a broker may be running: heard of lately, or not given up yet."""
        broker = image.brokers.get(broker_id)
        session = None if broker is None else self.find(broker_id, broker.epoch)
        if broker is None or session is None or now - session.contact >= timeout:
            return False
        return session.is_heard or not broker.fenced

    def expired(self, image: Image, now: float, timeout: float) -> list[int]:
        """The unfenced brokers whose session ended, by id."""
        ended = []
        for broker_id, broker in sorted(image.brokers.items()):
            if not broker.fenced and now - self.of(broker_id, broker.epoch, now).contact >= timeout:
                ended.append(broker_id)
        return ended

    def next_end(self, image: Image, now: float, timeout: float, besides: Collection[int]) -> float | None:
        """When the first session of an unfenced broker ends unless it is heard before."""
        contacts = [
            self.of(broker_id, broker.epoch, now).contact
            for broker_id, broker in image.brokers.items()
            if not broker.fenced and broker_id not in besides
        ]
        return min(contacts) + timeout if contacts else None

    def lowest_metadata_offset(self, image: Image, besides: int) -> int | None:
        """How far every other live broker has replayed the metadata; None when there is no other."""
        offsets = [
            session.metadata_offset if (session := self.find(broker.broker_id, broker.epoch)) is not None else NO_OFFSET
            for broker in image.live_brokers()
            if broker.broker_id != besides
        ]
        return min(offsets, default=None)

    def unready(self, broker_id: int, key: PartitionKey) -> Unready | None:
        """Why a replica cannot serve, as its broker told last."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.unready.get(key)

    def log_ends(self, key: PartitionKey) -> Mapping[int, tuple[int, int]]:
        """Where the logs of a partition without a leader end."""
        return {broker: session.log_ends[key] for broker, session in self._sessions.items() if key in session.log_ends}

    def forget_ends(self, keys: Iterable[PartitionKey]) -> None:
        """These partitions have a leader, and their logs move again."""
        told = [session.log_ends for session in self._sessions.values() if session.log_ends]
        if told:
            for key in keys:
                for ends in told:
                    ends.pop(key, None)
