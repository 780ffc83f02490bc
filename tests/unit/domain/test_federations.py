"""Which tokens a federation takes: exact values, patterns, and no federation that takes everybody's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.accounts.federations import (
    GITHUB,
    GITLAB,
    Federation,
    conditions_fault,
    matches_pattern,
    subject_of,
)

KEY = UUID(int=1)


def taken(conditions: dict[str, str], claims: dict[str, Any]) -> bool:
    federation = Federation(
        key_id=KEY, issuer="https://i", audience="a", conditions=conditions, key_set=None, lifetime_seconds=60.0,
        single_use=True,
    )  # fmt: skip
    return federation.unmet(claims) is None


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("acme/app", "acme/app", True), ("acme/app", "acme/app2", False), ("acme/app", "Acme/app", False),
        ("acme/*", "acme/app", True), ("acme/*", "acme/", True), ("acme/*", "acme-evil/app", False),
        ("acme/*", "acme", False), ("*", "", True), ("*/app", "acme/app", True), ("a*b*c", "aXbYc", True),
        ("a*b*c", "acb", False), ("a*a", "a", False), ("a*a", "aa", True), ("repo:acme/app:*", "repo:acme/app:ref:x",
        True), ("a**b", "ab", True), ("*a*", "bab", True), ("*a*", "bbb", False), ("a?b", "axb", False), ("[a]", "a",
        False), ("ab*ab", "ab", False), ("ab*ba*ab", "abaab", False), ("refs/heads/*", "refs/heads/a/b", True),
    ],
)  # fmt: skip
def test_a_star_stands_for_any_characters_and_nothing_else_does(pattern: str, text: str, expected: bool) -> None:
    """Also for none. Letters count as they are written."""
    assert expected == matches_pattern(pattern, text)


def test_a_pattern_takes_linear_time() -> None:
    """A pattern with stars over a long text that almost matches: a backtracking one would never end."""
    assert not matches_pattern("a*a*a*a*a*b", "a" * 200_000)


@pytest.mark.parametrize(
    ("conditions", "claims", "expected"),
    [
        ({"sub": "x"}, {"sub": "x"}, True),
        ({"sub": "x"}, {}, False),
        ({"sub": "x", "ref": "y"}, {"sub": "x", "ref": "z"}, False),
        ({"groups": "ops"}, {"groups": ["dev", "ops"]}, True),
        ({"groups": "ops"}, {"groups": ["dev", {"ops": 1}]}, False),
        ({"run_id": "17"}, {"run_id": 17}, True),
        ({"protected": "true"}, {"protected": True}, True),
        ({"protected": "true"}, {"protected": 1}, False),
        ({"protected": "True"}, {"protected": True}, False),
        ({"kubernetes.io/namespace": "ci"}, {"kubernetes.io": {"namespace": "ci"}}, True),
        (
            {"kubernetes.io/namespace": "ci"},
            {"kubernetes.io/namespace": "x", "kubernetes.io": {"namespace": "ci"}},
            False,
        ),
        ({"kubernetes.io/namespace": "ci"}, {"kubernetes.io": "ci"}, False),
        ({"a": "*"}, {"a": None}, False),
        ({"a": "*"}, {"a": {}}, False),
        ({"a": "null"}, {"a": None}, False),
        ({"a": "1.5"}, {"a": 1.5}, False),
    ],
)
def test_all_conditions_must_hold(conditions: dict[str, str], claims: dict[str, Any], expected: bool) -> None:
    """A claim that is not there, or of another type, meets no condition."""
    assert expected == taken(conditions, claims)


@pytest.mark.parametrize(
    ("issuer", "conditions"),
    [
        ("https://issuer.example.com", {"sub": "system:serviceaccount:ci:deployer"}),
        ("https://issuer.example.com", {"sub": "team-*"}),
        (GITHUB, {"repository": "acme/app"}),
        (GITHUB, {"repository": "acme/*", "ref": "refs/heads/main"}),
        (GITHUB, {"repository_owner": "acme"}),
        (GITHUB, {"repository_id": "17"}),
        (GITHUB, {"sub": "repo:acme/app:*"}),
        (f"{GITHUB}/", {"sub": "repo:acme/*"}),
        (GITLAB, {"project_path": "acme/*"}),
        (GITLAB, {"sub": "project_path:acme/app:ref_type:branch:ref:main"}),
        (GITLAB, {"namespace_path": "acme"}),
    ],
)
def test_conditions_that_name_an_owner_are_taken(issuer: str, conditions: dict[str, str]) -> None:
    """At an issuer of one's own, any beginning."""
    assert conditions_fault(issuer, conditions) is None


@pytest.mark.parametrize(
    ("issuer", "conditions"),
    [
        ("https://issuer.example.com", {}),
        ("https://issuer.example.com", {"sub": "*"}),
        ("https://issuer.example.com", {"sub": "*@example.com", "ref": "*"}),
        ("https://issuer.example.com", {"sub": "a*b*c*d*e*f*g"}),
        (GITHUB, {"ref": "refs/heads/main"}),
        (GITHUB, {"repository": "*"}),
        (GITHUB, {"repository": "acme*"}),
        (GITHUB, {"repository": "*/app", "ref": "refs/heads/main"}),
        (GITHUB, {"repository": "/*"}),
        (GITHUB, {"repository_owner": "acme*"}),
        (GITHUB, {"repository_owner_id": "1*"}),
        (GITHUB, {"sub": "repo:*"}),
        (GITHUB, {"sub": "repo:acme*"}),
        (GITHUB, {"sub": "repo:/*"}),
        (GITHUB, {"aud": "https://tickwise.example.com"}),
        (f"{GITHUB}/", {"environment": "production"}),
        (GITLAB, {"namespace_path": "acme*"}),
        (GITLAB, {"project_path": "acme*"}),
        (GITLAB, {"ref": "main", "ref_protected": "true"}),
    ],
)
def test_conditions_that_take_the_tokens_of_others_are_refused(issuer: str, conditions: dict[str, str]) -> None:
    """Everybody's, or those of an owner whose name begins alike."""
    assert conditions_fault(issuer, conditions) is not None


@pytest.mark.parametrize(
    ("claims", "expected"),
    [({"sub": "a"}, "a"), ({}, ""), ({"sub": 1}, ""), ({"sub": "a\nb\u202e"}, "a?b?"), ({"sub": "x" * 999}, "x" * 200)],
)
def test_a_subject_is_short_and_printable(claims: dict[str, Any], expected: str) -> None:
    """It comes to logs and the audit log."""
    assert expected == subject_of(claims)
