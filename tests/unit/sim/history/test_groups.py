"""K16: two owners, or a committed offset goes back."""

from hightide.sim.history import groups
from hightide.sim.history.recorder import History
from tests.unit.sim.history.stories import OTHER, P, Story


def commits(story: Story, offset: int, client: str = "a") -> None:
    commit = story.history.begin_commit(client, "g", {P: offset})
    story.history.committed(commit)


def reads(story: Story, offset: int) -> None:
    story.history.read_committed("b", "g", {P: offset}, asked=story.history.moment())


def test_two_owners_in_one_generation() -> None:
    story = Story()
    first = story.history.owned("a", "g", [P, OTHER], 3)
    story.history.gave_up(first)
    story.history.owned("b", "g", [OTHER], 3)
    assert story.finds("K16") == ["g/orders-1: a and b both own it in generation 3"]
    assert groups.check(story.history)[0].operations == tuple(story.history.ownerships)


def test_generations_follow_each_other_and_groups_share() -> None:
    story = Story()
    story.history.owned("a", "g", [P], 3)
    story.history.owned("b", "g", [P], 4)  # a does not know yet: whatever it does is fenced
    story.history.owned("a", "g", [OTHER], 3)
    story.history.owned("a", "g", [P], 3)  # told again
    story.history.owned("c", "other", [P], 3)
    assert story.finds("K16") == []


def test_two_owners_at_the_same_time() -> None:
    story = Story()
    first = story.history.owned("a", "g", [P])
    story.history.owned("b", "g", [P])
    story.history.gave_up(first)
    assert story.finds("K16") == ["g/orders-0: a and b own it at the same time"]


def test_an_owner_that_outlasts_the_next_one() -> None:
    story = Story()
    story.history.owned("a", "g", [P])
    short = story.history.owned("a", "g", [P])
    story.history.gave_up(short)
    story.history.owned("b", "g", [P])
    assert story.finds("K16") == ["g/orders-0: a and b own it at the same time"]


def test_owners_one_after_the_other() -> None:
    story = Story()
    for client in "aba":
        story.history.gave_up(story.history.owned(client, "g", [P]))
    assert story.finds("K16") == []


def test_a_coordinator_forgets_what_was_committed() -> None:
    story = Story()
    commits(story, 5)
    commits(story, 7)
    reads(story, 5)
    assert story.finds("K16") == ["g/orders-0: the committed offset went back from 7 to 5"]


def test_nothing_is_less_than_something() -> None:
    story = Story()
    commits(story, 0)
    reads(story, -1)
    assert story.finds("K16") == ["g/orders-0: the committed offset went back from 0 to -1"]


def test_a_former_owner_is_not_fenced() -> None:
    story = Story()
    commits(story, 7, "b")
    commits(story, 5, "a")
    assert story.finds("K16") == ["g/orders-0: the committed offset went back from 7 to 5"]


def test_what_is_not_known_may_be_or_not() -> None:
    story = Story()
    reads(story, -1)
    commits(story, 5)
    open_one = story.history.begin_commit("a", "g", {P: 9})
    refused = story.history.begin_commit("a", "g", {P: 1})
    story.history.failed(refused, "ILLEGAL_GENERATION")
    asked = story.history.moment()
    reads(story, 9)
    story.history.read_committed("b", "g", {P: 5}, asked=asked)  # asked before anybody knew of 9
    story.history.unknown(open_one, "timed out")
    assert story.finds("K16") == []


def test_it_is_told_in_words() -> None:
    story = Story()
    owned = story.history.owned("a", "g", [P, OTHER], 3)
    story.history.gave_up(owned)
    commit = story.history.begin_commit("a", "g", {P: 9})
    reads(story, 9)
    assert str(owned) == "#1-2 1.000-2.000 s a owns orders-0, orders-1 for g in generation 3"
    assert str(commit) == "#3 3.000 s a commits orders-0 at 9 for g: unknown"
    assert str(story.history.committed_reads[0]).endswith("b is told that g is with orders-0 at 9")


def test_one_hundred_thousand_operations_are_no_burden() -> None:
    history = History(lambda: 0.0)
    for number in range(50_000):
        history.committed(history.begin_commit("a", "g", {P: number}))
        history.gave_up(history.owned(f"m{number}", "g", [P], number))
    assert groups.check(history) == []
