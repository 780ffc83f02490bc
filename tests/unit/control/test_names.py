# ruff: noqa: RUF001  # letters that look alike are what this is about
"""Names of people: what is taken, and which two look alike."""

from __future__ import annotations

import pytest

from tickwise.control.names import are_alike, clean_email, clean_name, looks
from tickwise.domain.errors import Invalid
from tickwise.domain.names import email_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ada", "Ada"), ("ada", " ada "), ("ada", "аdа"), ("scope", "ѕсоре"), ("admin", "ａｄｍｉｎ"),
        ("Zoë", "Zoe\u0308"),
        ("bob", "b0b"), ("Straße", "STRASSE"), ("ﬁnn", "finn"), ("cox", "сох"), ("a b", "a  b"),
        ("TOM", "ТОМ"), ("tom", "ТОМ"), ("anna", "ΑΝΝΑ"), ("BOB2", "ВОВ2"), ("paul", "pauI"), ("corn", "com"),
        ("ada", "ɑda"), ("admin", "admın"), ("ada", "ada\u034f"), ("ada", "ada\ufe0f"), ("ada", "a\u180bda"),
        ("ada", "ada\u3164"), ("ada", "ada\u2800"), ("ada", "ad\u200ba"), ("ada", "ad\u00ada"), ("user1", "userl"),
    ],
)  # fmt: skip
def test_names_that_look_alike_have_a_look_in_common(one: str, other: str) -> None:
    """By case, width, ligature, space, letters of another script, and what cannot be seen."""
    assert are_alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("ada", "adam"), ("zoe", "zoë"), ("иван", "игорь"), ("王", "玉"), ("Ivan", "Iván"), ("bob", "bop"), ("a b", "ab")],
)
def test_names_that_differ_are_two(one: str, other: str) -> None:
    """Also by an accent."""
    assert not are_alike(one, other)


@pytest.mark.parametrize("name", ["Ada", "王小明", "Σωκράτης", "Ivan Ilyich"])
def test_the_looks_of_a_look_are_the_look(name: str) -> None:
    """A skeleton is its own skeleton: stored looks and new ones compare."""
    for look in looks(name):
        assert look in looks(look)


@pytest.mark.parametrize(
    "name",
    [
        "Ada",
        "Ada Lovelace",
        "Zoë",
        "Иван",
        "Вера",
        "王小明",
        "o'neil",
        "ci-bot.2",
        "Δημήτρης",
        "山田たろう",
        "عمر",
        "김 Kim",
    ],
)
def test_names_of_people_are_taken(name: str) -> None:
    """In any script."""
    assert clean_name(name, "/name") == name


@pytest.mark.parametrize(
    "name",
    [
        "", "   ", "a" * 101, "a\0b", "a\u200bb", "a\u202eb", "a\nb", "аda", "pαul", "ada@example.org", "\ud800",
        "ada\u034f", "ada\ufe0f", "a\u180bda", "ada\u3164", "ada\u2800", "ada★", "ad😀a", "a\u00a0b", "ﬁnn", "aעb",
        "admin", "Admin", "ADMlN", "admın", "tickwise", "TickWise", "local", "lоcal", "system", "ѕуѕtem",
    ],
)  # fmt: skip
def test_names_that_deceive_are_refused(name: str) -> None:
    """Signs that cannot be seen, symbols, scripts that are mixed, and names of programs."""
    with pytest.raises(Invalid) as refused:
        clean_name(name, "/name")
    assert refused.value.pointer == "/name"


@pytest.mark.parametrize(
    "email", ["a@b.org", "Ada.Lovelace+x@mail.example.org", "zoë@example.org", "иван@example.org", "a@localhost"]
)
def test_addresses_are_taken(email: str) -> None:
    """As they are written; they are compared without case."""
    assert clean_email(email, "/email") == email
    assert email_key(email) == email_key(email.upper())


@pytest.mark.parametrize(
    "email",
    [
        "", "a", "@b.org", "a@", "a@@b", "a b@c.org", "a@-b.org", "a\n@b.org", "a@" + "b" * 300,
        "ad\u200ba@example.org", "ada\u034f@example.org", "аda@example.org", "ɑda@example.org", "сора@example.org",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(email: str) -> None:
    """So is one that reads like one in plain letters."""
    with pytest.raises(Invalid) as refused:
        clean_email(email, "/email")
    assert refused.value.pointer == "/email"
