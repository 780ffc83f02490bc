# ruff: noqa: RUF001  # letters that look alike are what this is about
"""Names: what is taken, and which two are one."""

from __future__ import annotations

import pytest

from tickwise.domain.errors import Invalid
from tickwise.domain.names import clean_email, clean_name, clean_namespace, email_key, likeness


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ada", "Ada"), ("ada", " ada "), ("ada", "аdа"), ("scope", "ѕсоре"), ("admin", "ａｄｍｉｎ"),
        ("Zoë", "Zoe\u0308"),
        ("bob", "b0b"), ("Straße", "STRASSE"), ("ﬁnn", "finn"), ("cox", "сох"), ("a b", "a  b"),
    ],
)  # fmt: skip
def test_names_that_look_alike_are_one(one: str, other: str) -> None:
    """By case, width, ligature, space, or letters of another script."""
    assert likeness(one) == likeness(other)


@pytest.mark.parametrize(("one", "other"), [("ada", "adam"), ("zoe", "zoë"), ("иван", "игорь"), ("王", "玉")])
def test_names_that_differ_are_two(one: str, other: str) -> None:
    """Also by an accent."""
    assert likeness(one) != likeness(other)


@pytest.mark.parametrize("name", ["Ada", "Ada Lovelace", "Zoë", "Иван", "王小明", "o'neil", "ci-bot.2", "Δημήτρης"])
def test_names_of_people_are_taken(name: str) -> None:
    """In any script."""
    assert clean_name(name, "/name") == name


@pytest.mark.parametrize(
    "name", ["", "   ", "a" * 101, "a\0b", "a\u200bb", "a\u202eb", "a\nb", "аda", "pαul", "ada@example.org", "\ud800"]
)
def test_names_that_deceive_are_refused(name: str) -> None:
    """Signs that cannot be seen, and scripts that are mixed."""
    with pytest.raises(Invalid) as refused:
        clean_name(name, "/name")
    assert refused.value.pointer == "/name"


@pytest.mark.parametrize("email", ["a@b.org", "Ada.Lovelace+x@mail.example.org", "zoë@example.org", "a@localhost"])
def test_addresses_are_taken(email: str) -> None:
    """As they are written; they are compared without case."""
    assert clean_email(email, "/email") == email
    assert email_key(email) == email_key(email.upper())


@pytest.mark.parametrize(
    "email", ["", "a", "@b.org", "a@", "a@@b", "a b@c.org", "a@-b.org", "a\n@b.org", "a@" + "b" * 300]
)
def test_what_is_no_address_is_refused(email: str) -> None:
    """A field is named."""
    with pytest.raises(Invalid):
        clean_email(email, "/email")


@pytest.mark.parametrize("name", ["Default", "a_b", "-a", "a-", "", "a" * 64, "а", "a/b", "*", "a b", "a."])
def test_namespaces_are_labels(name: str) -> None:
    """So that they can stand in paths and topics."""
    with pytest.raises(Invalid):
        clean_namespace(name, "/name")
    assert clean_namespace("team-7", "/name") == "team-7"
