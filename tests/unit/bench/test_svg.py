"""Plots can be read: nothing leaves the picture, and no words lie where lines or bars may."""

import xml.etree.ElementTree as Xml

from bench.svg import Bar, Chart, bars, curves

LETTER_WIDTH = 6.2  # of labels, a little more than any font takes on average
LONG = "three brokers, one-record requests, 50 connections, beside 999 idle partitions: broker CPU per request"


def texts(picture: str) -> dict[str, tuple[float, float]]:
    """Where each begins and on which line."""
    found = {}
    for element in Xml.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        words = element.text or ""
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        begins = x - len(words) * LETTER_WIDTH if element.attrib["text-anchor"] == "end" else x
        found[words] = begins, y
    return found


def test_the_longest_label_is_whole() -> None:
    assert texts(bars("title", [Bar("short", 2.0, None, "red"), Bar(LONG, 0.16, None, "red")]))[LONG][0] >= 0


def test_a_number_beside_the_longest_bar_to_the_left_does_not_cover_the_label() -> None:
    picture = texts(bars("title", [Bar(LONG, 0.0545, None, "red")]))
    label_ends = picture[LONG][0] + len(LONG) * LETTER_WIDTH
    assert picture["0.05x"][0] >= label_ends - LETTER_WIDTH


def test_a_legend_lies_above_the_lines() -> None:
    highest = 10_000.0
    picture = curves("title", [Chart("speed", "connections", {"one": [(1, 1)], "other": [(1, 1), (1_000, highest)]})])
    dots = [float(dot.attrib["cy"]) for dot in Xml.fromstring(picture).iter("{http://www.w3.org/2000/svg}circle")]
    placed = texts(picture)
    assert max(placed["one"][1], placed["other"][1]) < min(dots)
    assert placed["one"][0] + len("one") * LETTER_WIDTH < placed["other"][0]
