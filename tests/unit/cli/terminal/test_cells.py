"""Texts take as many cells of a terminal as their characters do, and are cut and broken by cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.cli.terminal import cells

PRINTED = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"), [("nightly", 7), ("夜间任务", 8), ("Ü", 1), ("U\u0308", 1), ("🚀 go", 5)]
)
def test_a_wide_character_takes_two_cells_and_a_combining_one_none(text: str, expected: int) -> None:
    """As terminals draw them."""
    assert expected == cells.width(text)


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("nightly", 7, "nightly"),
        ("nightly report", 8, "nightly…"),
        ("夜间任务", 5, "夜间…"),
        ("夜间", 2, "…"),
        ("a", 0, ""),
    ],
)
def test_a_text_that_is_cut_says_so(text: str, most: int, expected: str) -> None:
    """By an ellipsis, which takes a cell of its own; no half of a wide character is left."""
    assert expected == cells.cut(text, most)


@given(PRINTED, st.integers(0, 70))
def test_a_cut_text_fits(text: str, most: int) -> None:
    """Any text, at each length up to 70."""
    assert cells.width(cells.cut(text, most)) <= most


@given(PRINTED, st.integers(2, 30))
def test_a_wrapped_text_fits_and_loses_nothing(text: str, most: int) -> None:
    """But for the blanks at which it is broken."""
    lines = list(cells.wrapped(text, most))
    assert all(cells.width(line) <= most for line in lines)
    assert text.replace(" ", "") == "".join(lines).replace(" ", "")
