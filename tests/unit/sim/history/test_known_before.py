"""The highest number known before a moment."""

from hypothesis import given
from hypothesis import strategies as st

from hightide.sim.history.known_before import KnownBefore

FACTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)))


@given(FACTS, st.integers(0, 21))
def test_it_is_what_a_search_through_all_facts_finds(facts: list[tuple[int, int]], moment: int) -> None:
    known = KnownBefore((since, number, (since, number)) for since, number in facts).at(moment)
    numbers = [number for since, number in facts if since < moment]
    if known is None:
        assert numbers == []
    else:
        number, (since, proven) = known
        assert number == proven == max(numbers)
        assert since < moment
