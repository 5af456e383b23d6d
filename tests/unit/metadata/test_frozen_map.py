"""A map that never changes."""

from hightide.metadata.entities import Resource, ResourceType
from hightide.metadata.frozen_map import FrozenMap


def test_a_change_leaves_the_map_before_as_it_was() -> None:
    before: FrozenMap[str, int] = FrozenMap({"a": 1, "b": 2})
    after = before.changed({"a": 3, "b": None, "c": 4})
    assert dict(before) == {"a": 1, "b": 2}
    assert dict(after) == {"a": 3, "c": 4}
    assert (len(before), len(after)) == (2, 2)
    assert "b" not in after
    assert after.get("b") is None
    assert after.get("b", 9) == 9


def test_removing_what_is_not_there_changes_nothing() -> None:
    empty: FrozenMap[str, int] = FrozenMap()
    assert empty.changed({"a": None}) == empty
    assert empty.changed({}) is empty


def test_one_change_in_many_copies_one_bucket() -> None:
    before: FrozenMap[bytes, int] = FrozenMap({number.to_bytes(16, "big"): number for number in range(10_000)})
    after = before.changed({bytes(16): -1})
    shared = sum(old is new for old, new in zip(before._buckets, after._buckets, strict=True))
    assert shared == 255
    assert len(after) == 10_000


def test_order_depends_on_the_keys_only() -> None:
    one: FrozenMap[str, int] = FrozenMap({f"t{n}": n for n in range(100)})
    other = FrozenMap(dict(sorted(one.items())))
    assert sorted(one) == sorted(other)
    assert list(one) == list(FrozenMap(dict(one.items())))


def test_keys_may_be_tuples() -> None:
    resources = FrozenMap({Resource(ResourceType.TOPIC, "a"): 1})
    assert resources[Resource(ResourceType.TOPIC, "a")] == 1
    assert Resource(ResourceType.BROKER, "a") not in resources
