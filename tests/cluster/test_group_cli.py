"""`hightide group` against a real broker, with a stock consumer in the group."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from hightide.cli.failures import ExitCode
from tests.cluster.test_cli import Up, failed

pytestmark = [pytest.mark.xdist_group("group cli"), pytest.mark.timeout(120)]

PARTITIONS = 3
RECORDS = 60


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("up"), "--port", "0", "--set", "hightide.profile=dev")
    running.done("topic", "create", "orders", "--partitions", str(PARTITIONS))
    lines = b"".join(b"%d:%d\n" % (number, number) for number in range(RECORDS))
    running.done("produce", "orders", "--key-delimiter", ":", given=lines)
    yield running
    running.stop()


def consumer(up: Up, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": up.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def read_and_commit(member: Consumer, count: int) -> None:
    member.subscribe(["orders"])
    messages: list[Any] = []
    while len(messages) < count:
        messages += member.consume(count - len(messages), 30)
    member.commit(asynchronous=False)


def test_the_life_of_a_group(up: Up) -> None:
    failed(up.run("group", "describe", "shop"), ExitCode.NOT_FOUND, "there is no group 'shop'")
    member = consumer(up, "shop")
    read_and_commit(member, 40)

    (group,) = up.document("group", "describe", "shop")
    assert (group["state"], group["protocol_type"]) == ("Stable", "consumer")
    assert group["lag"] == sum(each["lag"] or 0 for each in group["offsets"])
    (facts,) = group["members"]
    assert facts["partitions"] == [f"orders-{partition}" for partition in range(PARTITIONS)]
    assert sum(each["committed"] for each in group["offsets"] if each["committed"] is not None) == 40
    for each in group["offsets"]:
        assert each["member"] == facts["member"]
        if each["lag"] is not None:
            assert each["lag"] == each["end"] - each["committed"]
            assert (each["lag_seconds"] > 0) == (each["lag"] > 0)
    assert "shop  Stable, 1 members" in up.done("group", "describe", "shop")
    failed(
        up.run("group", "seek", "shop", "--to", "start", "--yes"), ExitCode.FAILED, "1 members", "stop its consumers"
    )
    failed(up.run("group", "delete", "shop", "--yes"), ExitCode.FAILED, "NON_EMPTY_GROUP")
    member.close()

    assert {group["group"]: group["state"] for group in up.document("group", "list")} == {"shop": "Empty"}
    assert up.done("group", "list", "-o", "name") == "shop\n"


def offsets(up: Up, group: str) -> dict[int, int]:
    (facts,) = up.document("group", "describe", group)
    return {each["partition"]: each["committed"] for each in facts["offsets"]}


def test_a_group_is_moved_only_when_that_is_confirmed(up: Up) -> None:
    ends = {p["partition"]: p["high_watermark"] for p in up.document("topic", "describe", "orders")[0]["partitions"]}
    failed(up.run("group", "seek", "new", "--to", "end"), ExitCode.NOT_FOUND, "has committed nothing")
    up.done("group", "seek", "new", "--to", "end", "-t", "orders", "--yes")
    assert offsets(up, "new") == ends
    plan = up.run("group", "seek", "new", "--to", "start", "-o", "json")
    failed(plan, ExitCode.NOT_CONFIRMED, "nothing was moved", "--yes")
    assert b'"to": 0' in plan.stdout
    assert offsets(up, "new") == ends
    up.done("group", "seek", "new", "--to", "1", "-t", "orders:1", "--yes")
    assert offsets(up, "new") == {**ends, 1: 1}
    up.done("group", "seek", "new", "--to", "1000000", "--yes")
    assert offsets(up, "new") == ends  # never beyond the end
    up.done("group", "seek", "new", "--to", "@-1h", "--yes")
    assert set(offsets(up, "new").values()) == {0}
    failed(up.run("group", "seek", "new", "--to", "soon"), ExitCode.USAGE, "'soon' is no place in a log")
    failed(up.run("group", "seek", "new", "--to", "end", "-t", "orders:9"), ExitCode.NOT_FOUND, "no partition '9'")
    member = consumer(up, "new")
    read_and_commit(member, RECORDS)
    member.close()
    assert offsets(up, "new") == ends


def test_a_group_is_deleted_only_when_that_is_confirmed(up: Up) -> None:
    up.done("group", "seek", "old", "--to", "end", "-t", "orders", "--yes")
    failed(up.run("group", "delete", "old"), ExitCode.NOT_CONFIRMED, "nothing was deleted")
    assert len(offsets(up, "old")) == PARTITIONS
    assert up.done("group", "delete", "old", "--yes", "-o", "name") == "old\n"
    failed(up.run("group", "describe", "old"), ExitCode.NOT_FOUND, "there is no group 'old'")
    failed(up.run("group", "delete", "old", "--yes"), ExitCode.NOT_FOUND, "GROUP_ID_NOT_FOUND")
