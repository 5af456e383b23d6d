"""Pages that are read from sources leave nothing out, however the sources write it."""

import re

from hightide import limits
from tools.source_pages import UNITS, limits_page


def test_every_limit_is_on_its_page_with_a_reason_below_a_heading() -> None:
    page = limits_page()
    names = {name for name in vars(limits) if name.isupper()} - UNITS
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", page, re.MULTILINE))
    assert set(rows) == names
    assert all(rows.values())
    assert "## \n" not in page
