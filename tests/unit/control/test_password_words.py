"""Passwords that follow from their context: the person, the service, repeats and sequences."""

from __future__ import annotations

import pytest

from tickwise.control.people.passwords import check_password, own_part
from tickwise.domain.errors import Invalid


@pytest.mark.parametrize(
    ("about", "password"),
    [
        (["Dora"], "Dora Dora Dora"),
        (["Eva Miller"], "evamillereva"),
        (["Eva Miller", "eva.miller@example.org"], "miller@example"),
        (["Fred"], "tickwise2026tickwise"),
        (["Fred"], "Tickwise-Fred-1234"),
        (["Fred"], "abcdefghijkl"),
        (["Fred"], "zqzqzqzqzqzqzq"),
        (["Fred"], "fred-987654321-fred"),
    ],
)
def test_a_password_that_is_mostly_its_context_is_refused(about: list[str], password: str) -> None:
    """And the message says of what it consists."""
    with pytest.raises(Invalid, match="consists mostly of a name") as refused:
        check_password(password, "/password", about)
    assert ("password_weak", "/password") == (refused.value.code, refused.value.pointer)


@pytest.mark.parametrize(
    ("about", "password"),
    [
        (["Dora"], "four quiet herons wade"),
        (["Dora"], "dora saw quiet herons"),
        (["Al"], "alpine lakes all alone"),
        (["Fred"], "tickwise quiet herons"),
    ],
)
def test_a_word_of_the_context_among_others_is_no_fault(about: list[str], password: str) -> None:
    """Enough remains without it."""
    check_password(password, "/password", about)


def test_what_remains_is_the_persons_own() -> None:
    """Letters and digits, without context, repeats and runs."""
    assert "herons" == own_part("Eva-HERONS-1999", ["Eva Miller"])
    assert ("ax", "1") == (own_part("abcdx"), own_part("123456"))
    assert "xyab" == own_part("xyabxyabxyab")
