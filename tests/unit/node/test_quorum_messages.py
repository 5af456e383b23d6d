"""What the quorum machine says arrives as it was said, through Kafka's bytes."""

import pytest

from hightide.errors import ErrorCode
from hightide.node import quorum_messages as messages
from hightide.replication.quorum_effects import AnswerVote, SendBeginEpoch, SendEndEpoch, SendVote
from hightide.replication.quorum_events import LeaderAnnounced, LeaderResigned, VoteAnswered, VoteRequested
from hightide.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from hightide.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from hightide.wire.messages.vote import VoteRequest, VoteResponse

OWN_DISK, OTHER_DISK = b"a" * 16, b"b" * 16
CLUSTER = "quorum-of-three"


@pytest.mark.parametrize("all_voters", [False, True])
def test_a_candidates_question(all_voters: bool) -> None:
    asked = SendVote(2, 5, 4, 100, False, OTHER_DISK, all_voters)
    request = VoteRequest.decode(messages.vote_request(asked, 1, OWN_DISK, CLUSTER).encode(2), 2)
    expected = VoteRequested("r", 1, 5, 4, 100, False, 9.0, OWN_DISK, OTHER_DISK, all_voters)
    assert messages.vote_requested(request, "r", 9.0) == expected


@pytest.mark.parametrize("doubtful", [False, True])
def test_a_voters_answer(doubtful: bool) -> None:
    asked = SendVote(2, 5, 4, 100, True)
    answer = AnswerVote("r", 1, ErrorCode.NONE, 3, 5, True, 4, 90, doubtful)
    response = VoteResponse.decode(messages.vote_response(answer).encode(2), 2)
    assert messages.vote_answered(response, asked, 9.0) == VoteAnswered(2, 3, 5, True, True, 9.0, 4, 90, doubtful)


def test_a_leaders_beginning_and_end() -> None:
    begin = messages.begin_request(SendBeginEpoch(2, 5, OTHER_DISK), 1, CLUSTER)
    told = messages.leader_announced(BeginQuorumEpochRequest.decode(begin.encode(1), 1), "r", 9.0)
    assert told == LeaderAnnounced("r", 1, 5, 9.0, OTHER_DISK)
    end = messages.end_request(SendEndEpoch(2, 5, (3, 2)), 1, CLUSTER)
    ended = messages.leader_resigned(EndQuorumEpochRequest.decode(end.encode(1), 1), "r", 9.0)
    assert ended == LeaderResigned("r", 1, 5, (3, 2), 9.0)
