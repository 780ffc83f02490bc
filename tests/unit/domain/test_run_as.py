"""The setting `run_as_users`: a namespace gets the users that it names for it, and nobody else's."""

from __future__ import annotations

import pytest

from tickwise.domain.accounts.run_as import NO_USERS, read_run_as_users, refusal
from tickwise.domain.errors import Misconfigured


def test_a_user_without_a_namespace_is_for_all_that_are_bound_to_none() -> None:
    users = read_run_as_users(["backup", "www-data", "billing=ledger|reports"])
    assert {"backup", "www-data"} == users.of("default") == users.of("other")
    assert {"ledger", "reports"} == users.of("billing")
    assert ("backup", "ledger", "reports", "www-data") == users.names


def test_a_namespace_that_is_named_twice_has_the_users_of_both() -> None:
    assert {"a", "b"} == read_run_as_users(["billing=a", "billing=b"]).of("billing")


def test_without_the_setting_nobody_may_name_a_user() -> None:
    assert NO_USERS == read_run_as_users([])
    assert refusal(NO_USERS, "default", "backup") is not None


@pytest.mark.parametrize(
    "entries", [["../root"], ["billing="], ["=backup"], ["backup|"], ["backup", "billing=backup"], ["a b"]]
)
def test_what_cannot_be_read_is_refused(entries: list[str]) -> None:
    """Also a user that one entry gives to all and another to one namespace: which is meant is not known."""
    with pytest.raises(Misconfigured, match="run_as_users"):
        read_run_as_users(entries)


def test_a_refusal_says_what_to_write() -> None:
    users = read_run_as_users(["backup", "billing=ledger"])
    assert refusal(users, "default", "backup") is None
    assert refusal(users, "billing", "ledger") is None
    bound = refusal(users, "billing", "backup")
    assert bound is not None
    assert ("ledger" in bound, "billing=backup" in bound) == (True, True)
    other = refusal(users, "default", "ledger")
    assert other is not None
    assert ("'ledger'" in other, other.endswith("allows a user: ledger")) == (True, True)
    assert refusal(users, "default", "root") is not None
