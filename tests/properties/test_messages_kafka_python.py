"""Our bytes are kafka-python's bytes, in every version of the APIs that it speaks.

It diverges from the protocol in one place: it reads a response to ApiVersions that carries an error as version 0, since
a broker answers an unknown version so. Those are left out (WITHOUT_ERROR).
"""

import importlib
import pkgutil
from typing import Any

import kafka.protocol
import pytest
from hypothesis import example, given, settings

from hightide.wire.message import Message
from tests.properties.messages import API_SUBJECTS, Subject, full_sample, tame

WITHOUT_ERROR = "ApiVersionsResponse"

# APIs of brokers and controllers among themselves, and of clients that kafka-python is not.
NOT_SPOKEN = {
    "AddRaftVoter", "AllocateProducerIds", "AlterPartition", "AlterShareGroupOffsets", "AssignReplicasToDirs",
    "BeginQuorumEpoch", "BrokerHeartbeat", "BrokerRegistration", "ConsumerGroupDescribe", "ConsumerGroupHeartbeat",
    "ControllerRegistration", "CreateDelegationToken", "DeleteShareGroupOffsets", "DeleteShareGroupState",
    "DescribeDelegationToken", "DescribeShareGroupOffsets", "EndQuorumEpoch", "Envelope", "ExpireDelegationToken",
    "FetchSnapshot", "GetTelemetrySubscriptions", "InitializeShareGroupState", "PushTelemetry",
    "ReadShareGroupState", "ReadShareGroupStateSummary", "RemoveRaftVoter", "RenewDelegationToken",
    "ShareAcknowledge", "ShareFetch", "ShareGroupDescribe", "ShareGroupHeartbeat", "StreamsGroupDescribe",
    "StreamsGroupHeartbeat", "UnregisterBroker", "UpdateRaftVoter", "Vote", "WriteShareGroupState",
}  # fmt: skip


def _is_spoken(subject: Subject) -> bool:
    return subject.schema.name.removesuffix("Request").removesuffix("Response") not in NOT_SPOKEN


@pytest.fixture(scope="module")
def their_classes() -> dict[str, Any]:
    """kafka-python's message classes by name, wherever it keeps them."""
    classes: dict[str, Any] = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            found = vars(importlib.import_module(module.name)).items()
            classes |= {name: value for name, value in found if getattr(value, "_json", None)}
    return classes


@pytest.mark.parametrize("subject", [subject for subject in API_SUBJECTS if _is_spoken(subject)], ids=str)
def test_kafka_python_reads_and_writes_the_same_bytes(subject: Subject, their_classes: dict[str, Any]) -> None:
    for version in subject.versions:
        _compare(subject, version, their_classes[subject.schema.name])


def _compare(subject: Subject, version: int, their_class: Any) -> None:
    @settings(max_examples=5, deadline=None)
    @given(message=tame(subject, version))
    @example(message=full_sample(subject, version, is_tame=True))
    def check(message: Any) -> None:
        if subject.schema.name == WITHOUT_ERROR:
            message.error_code = 0
        encoded = message.encode(version)
        theirs = their_class.decode(encoded, version=version)
        theirs._header = None  # it forgets to say so when it decodes without a header
        again = theirs.encode()
        assert again == encoded
        decoded: Message = subject.message_class.decode(again, version)
        assert decoded == message

    check()
