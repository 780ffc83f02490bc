# ruff: noqa: RUF001  # letters that look alike are what this is about
"""Keys of names, and names of namespaces."""

from __future__ import annotations

import pytest

from tickwise.domain.errors import Invalid
from tickwise.domain.names import clean_namespace, name_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ada", "Ada"), ("ada", " ada "), ("ada", "аdа"), ("scope", "ѕсоре"), ("admin", "ａｄｍｉｎ"),
        ("Zoë", "Zoe\u0308"),
        ("bob", "b0b"), ("Straße", "STRASSE"), ("ﬁnn", "finn"), ("cox", "сох"), ("a b", "a  b"),
    ],
)  # fmt: skip
def test_a_name_may_be_typed_in_several_ways(one: str, other: str) -> None:
    """By case, width, ligature, space, or letters of another script. The keys are stored, so they stay as they are."""
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(("one", "other"), [("ada", "adam"), ("zoe", "zoë"), ("иван", "игорь"), ("王", "玉")])
def test_names_that_differ_are_two(one: str, other: str) -> None:
    """Also by an accent."""
    assert name_key(one) != name_key(other)


@pytest.mark.parametrize("name", ["Default", "a_b", "-a", "a-", "", "a" * 64, "а", "a/b", "*", "a b", "a."])
def test_namespaces_are_labels(name: str) -> None:
    """So that they can stand in paths and topics."""
    with pytest.raises(Invalid):
        clean_namespace(name, "/name")
    assert clean_namespace("team-7", "/name") == "team-7"
