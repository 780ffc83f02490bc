"""The roles that follow from groups and claims of a provider."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.domain.accounts.role_mapping import MappedRole, read_role_mapping
from tickwise.domain.errors import Invalid

TEXT = (
    "ops=admin@*; dev=developer@team-a; dev=viewer ;CN=ops,OU=eng=operator@team-b; /realm/qa=viewer@team-c;"
    "claim:department:finance=viewer@fin; claim:is_staff:true=operator; *=viewer@all;"
)


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({}, {"viewer@all"}),
        ({"groups": ["ops"]}, {"viewer@all", "admin@*"}),
        ({"groups": "dev"}, {"viewer@all", "developer@team-a", "viewer@default"}),
        ({"groups": ["CN=ops,OU=eng", "/realm/qa"]}, {"viewer@all", "operator@team-b", "viewer@team-c"}),
        ({"department": "finance", "is_staff": True}, {"viewer@all", "viewer@fin", "operator@default"}),
        ({"department": ["sales", "finance"]}, {"viewer@all", "viewer@fin"}),
        ({"groups": {"ops": True}}, {"viewer@all"}),
        ({"groups": [["ops"], None, 7, "OPS", "ops "]}, {"viewer@all"}),
        ({"groups": ["*"]}, {"viewer@all"}),
    ],
)
def test_groups_and_claims_give_roles(claims: dict[str, Any], roles: set[str]) -> None:
    """Letter by letter: a group that looks like another one gives nothing."""
    found = read_role_mapping(TEXT).roles(claims, "groups")
    assert roles == {f"{each.role}@{each.namespace}" for each in found}


def test_the_claims_that_are_looked_at_are_known() -> None:
    """So that userinfo is asked only if the ID token lacks one."""
    assert {"grp", "department", "is_staff"} == read_role_mapping(TEXT).claims("grp")
    assert frozenset() == read_role_mapping("*=viewer").claims("groups")


def test_no_mapping_gives_no_role() -> None:
    """Also an empty one."""
    for text in (None, "", " ; "):
        assert frozenset() == read_role_mapping(text).roles({"groups": ["ops"]}, "groups")


def test_a_role_without_a_namespace_is_in_default() -> None:
    """As on the command line; the whole installation is named."""
    assert {MappedRole("default", "admin")} == read_role_mapping("ops=admin").roles({"groups": ["ops"]}, "groups")


@pytest.mark.parametrize(
    "text", ["ops", "ops=", "=admin", "ops=Admin", "ops=admin@", "ops=admin@Team", "claim:x=viewer", "claim::y=viewer"]
)
def test_an_entry_that_cannot_be_read_is_quoted(text: str) -> None:
    """With how it is written."""
    with pytest.raises(Invalid, match="no entry"):
        read_role_mapping(f"dev=viewer; {text}")
