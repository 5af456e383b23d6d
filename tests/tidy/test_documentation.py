"""Documentation that is generated says what the code says now."""

from tools.documentation import stale


def test_generated_pages_are_fresh() -> None:
    assert stale() == [], "run `make docs`"
