"""Progress bars: on terminals only."""

import pytest

from hightide.cli.progress import progress


@pytest.mark.parametrize(("terminal", "undisturbed"), [(False, True), (True, False)])
def test_no_bar(
    terminal: bool, undisturbed: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with progress("reading", 10, undisturbed=undisturbed) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_standard_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("reading orders", 10, undisturbed=True) as advance:
        advance(4)
        advance(6)
    said = capsys.readouterr()
    assert said.out == ""
    assert "reading orders" in said.err
    assert "10/10" in said.err
