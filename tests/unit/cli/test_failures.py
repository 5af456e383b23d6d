"""What people read and scripts get when something goes wrong."""

from collections.abc import Coroutine

import pytest

from hightide.cli.application import main
from hightide.cli.failures import ExitCode, failure_of, unknown_topic
from hightide.cli.session import visit
from hightide.client.cluster import Cluster
from hightide.errors import ApiError, ErrorCode, ProtocolError


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ExitCode.NOT_FOUND),
        (ErrorCode.BROKER_NOT_AVAILABLE, ExitCode.UNREACHABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ExitCode.UNREACHABLE),
        (ErrorCode.INVALID_CONFIG, ExitCode.FAILED),
    ],
)
def test_exit_codes(code: ErrorCode, exit_code: ExitCode) -> None:
    assert failure_of(ApiError(code, "why")).code is exit_code


def test_sentences_name_the_thing_the_reason_and_kafkas_code() -> None:
    failure = failure_of(ApiError(ErrorCode.INVALID_CONFIG, "no such setting"), "topic t")
    assert failure.sentence == "topic t: no such setting (INVALID_CONFIG)"
    assert failure_of(ApiError(ErrorCode.INVALID_REQUEST)).sentence == "invalid request (INVALID_REQUEST)"


@pytest.mark.parametrize(("name", "hint"), [("ordes", "'orders'"), ("zzz", "topic list")])
def test_the_nearest_topic_is_named(name: str, hint: str) -> None:
    failure = unknown_topic(name, ["customers", "orders"])
    assert failure.code is ExitCode.NOT_FOUND
    assert hint in (failure.hint or "")


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "list", "-b", "127.0.0.1:1"]) == ExitCode.UNREACHABLE
    said = capsys.readouterr().err
    assert said.startswith("hightide: no broker answers (127.0.0.1:1: connection refused)")
    assert "`hightide up` starts one" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list", "-b", "nowhere"],
        ["topic", "lst"],
        ["topic", "list", "--bogus"],
        ["topic", "list", "-o", "xml"],
        ["topic", "alter", "t"],
        ["topic", "create", "t", "--set", "novalue"],
        ["consume", "t", "--offsets", "yesterday"],
        ["consume", "t", "-f", "%x"],
        ["produce", "t", "v", "-H", "=x"],
        ["config", "show", "--topic", "t", "--broker", "1"],
        ["up", "--brokers", "0"],
    ],
)
def test_wrong_options(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == ExitCode.USAGE
    said = capsys.readouterr()
    assert said.err
    assert "Traceback" not in said.err


def test_what_is_no_kafka_broker_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def garbled(_: Cluster) -> None:
        raise ProtocolError("h:1 sent what is no Metadata answer")

    monkeypatch.setattr(Cluster, "all_topics", garbled)
    assert main(["topic", "list"]) == ExitCode.FAILED
    assert "is this the port of a Kafka broker?" in capsys.readouterr().err


def test_a_mistake_of_ours_is_a_sentence_unless_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Cluster) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Cluster, "all_topics", broken)
    assert main(["topic", "list"]) == ExitCode.FAILED
    assert capsys.readouterr().err.startswith("hightide: unexpected KeyError: 'oops'")
    with pytest.raises(KeyError):
        main(["--debug", "topic", "list"])


def test_ctrl_c(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(work: Coroutine[object, object, object]) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncio.run", interrupt)
    assert main(["topic", "list"]) == ExitCode.INTERRUPTED


def test_the_exit_codes_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == ExitCode.DONE
    said = " ".join(capsys.readouterr().out.split())
    for code in ExitCode:
        assert f"{code.value} " in said


def test_a_visit_returns_what_the_work_returns() -> None:
    async def work(_: Cluster) -> int:
        return 7

    assert visit("127.0.0.1:1", 1.0, work) == 7
