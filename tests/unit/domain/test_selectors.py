"""Label selectors, and callers whose permissions go by labels."""

from __future__ import annotations

from uuid import UUID

import pytest

from tickwise.control.access import admitted
from tickwise.domain.callers import Caller, Grant, rights_digest
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import (
    Labels,
    Selector,
    alternatives,
    combined,
    in_words,
    is_inside,
    is_narrower,
    labels_from,
    matches,
)

BILLING: Labels = (("team", "billing"),)
PROD: Labels = (("env", "prod"), ("team", "billing"))
OPS: Labels = (("team", "ops"),)


@pytest.mark.parametrize(
    ("labels", "selector", "is_match"),
    [
        ({}, None, True), ({}, (), False), ({}, (BILLING,), False), ({"team": "billing"}, (BILLING,), True),
        ({"team": "billing", "x": "y"}, (BILLING,), True), ({"team": "ops"}, (BILLING,), False),
        ({"team": "billing"}, (PROD,), False), ({"team": "billing", "env": "prod"}, (PROD,), True),
        ({"team": "ops"}, (PROD, OPS), True), ({"Team": "ops"}, (OPS,), False), ({"team": ""}, (OPS,), False),
    ],
)  # fmt: skip
def test_a_selector_is_about_jobs_with_all_labels_of_one_of_its_parts(
    labels: dict[str, str], selector: Selector | None, is_match: bool
) -> None:
    """None is no restriction; an empty one is about nothing."""
    assert is_match == matches(labels, selector)
    assert is_match == (
        (found := alternatives({}, selector)) is None or any(each.items() <= labels.items() for each in found)
    )


def test_labels_of_two_sides_are_joined_or_contradict_each_other() -> None:
    """A role for one team that is given for another holds for no job, never for either."""
    assert PROD == combined(BILLING, (("env", "prod"),)) == combined((("env", "prod"),), BILLING)
    assert BILLING == combined(BILLING, BILLING) == combined((), BILLING)
    assert combined(BILLING, OPS) is None
    assert labels_from({"b": "1", "a": "2"}) == (("a", "2"), ("b", "1"))


def test_narrower_is_with_more_labels() -> None:
    """Nothing is narrower than a selector of nothing, and everything narrower than no labels."""
    assert is_narrower(PROD, BILLING)
    assert not is_narrower(BILLING, PROD)
    assert not is_narrower(OPS, BILLING)
    assert is_narrower(BILLING, ())
    assert is_inside((PROD, OPS), (OPS, BILLING))
    assert not is_inside((PROD, OPS), (BILLING,))
    assert is_inside((), (BILLING,))
    assert not is_inside((BILLING,), ())


def test_a_search_is_cut_by_the_selector() -> None:
    """What was asked for and what may be found, both; contradictions find nothing."""
    assert alternatives({}, None) is None
    assert [{"a": "b"}] == alternatives({"a": "b"}, None)
    assert [{"a": "b", "team": "billing"}] == alternatives({"a": "b"}, (BILLING,))
    assert [{"team": "ops"}] == alternatives({"team": "ops"}, (BILLING, OPS))
    assert [] == alternatives({"team": "ops"}, (BILLING,))
    assert "env=prod, team=billing or team=ops" == in_words((PROD, OPS))


def grants(*some: Grant) -> Caller:
    return Caller(name="ada", home="one", grants=some)


def test_a_restricted_grant_adds_nothing_to_the_permissions_for_all_jobs() -> None:
    """Several grants are a union, each with its own labels: none borrows those of another."""
    who = grants(
        Grant("one", frozenset({"jobs:read"})),
        Grant("one", frozenset({"jobs:write"}), BILLING),
        Grant("*", frozenset({"runs:write"}), OPS),
        Grant("two", frozenset({"keys:admin"}), BILLING),
    ).principal("one")
    assert {"jobs:read"} == who.scopes
    assert (BILLING,) == who.selector([Permission.JOBS_WRITE]) == who.selector([Permission.JOBS_OPERATE])
    assert (OPS,) == who.selector([Permission.RUNS_WRITE])
    assert () == who.selector([Permission.KEYS_ADMIN]) == who.selector([Permission.JOBS_READ])
    assert {"jobs:read"} == who.permissions_in("one")
    assert {"jobs:read", "jobs:write", "jobs:create", "jobs:operate"} == who.permissions_in("one", PROD)
    assert {"jobs:read", "runs:write"} == who.permissions_in("one", OPS)
    assert not who.permissions_in("two", BILLING)
    assert {"runs:write"} == who.permissions_in("two", OPS)


def test_a_call_is_bound_to_the_labels_of_its_permission() -> None:
    """One that needs another permission has other labels, and one for all jobs has none."""
    who = grants(
        Grant("one", frozenset({"jobs:read"})),
        Grant("one", frozenset({"jobs:write", "runs:read"}), BILLING),
        Grant("one", frozenset({"runs:read"}), OPS),
    ).principal()
    assert admitted(who, Permission.JOBS_READ) is who
    assert (BILLING,) == admitted(who, Permission.JOBS_WRITE, by_labels=True).within
    runs = admitted(who, Permission.RUNS_READ, by_labels=True)
    assert (BILLING, OPS) == runs.within
    assert runs.may_within(Permission.JOBS_READ)
    assert not runs.may_within(Permission.JOBS_WRITE)
    assert admitted(who, Permission.JOBS_WRITE, by_labels=True).may_within(Permission.RUNS_READ)
    with pytest.raises(Forbidden, match="jobs with the labels team=billing alone"):
        admitted(who, Permission.JOBS_WRITE)
    with pytest.raises(Forbidden, match="lacks the permission tasks:write"):
        admitted(who, Permission.TASKS_WRITE, by_labels=True)


def test_a_key_is_cut_to_the_labels_of_its_owner() -> None:
    """Both sides count: a key for one team of a person of another does nothing."""
    key = grants(Grant("one", frozenset({"*"})), Grant("one", frozenset({"jobs:read"}), BILLING))
    assert (Grant("one", frozenset({"jobs:read"}), BILLING),) == grants(
        Grant("one", frozenset({"jobs:read", "jobs:write"}), BILLING)
    ).cut_to([Grant("*", frozenset({"jobs:read"}))]).grants
    assert (Grant("one", frozenset({"jobs:read"}), PROD),) == grants(
        Grant("one", frozenset({"jobs:read"}), BILLING)
    ).cut_to([Grant("one", frozenset({"*"}), PROD)]).grants
    assert (
        ()
        == grants(Grant("one", frozenset({"jobs:read"}), BILLING)).cut_to([Grant("one", frozenset({"*"}), OPS)]).grants
    )
    cut = key.cut_to([Grant("one", frozenset({"jobs:read", "jobs:write"}), OPS)]).principal()
    assert (frozenset(), (OPS,)) == (cut.scopes, cut.selector([Permission.JOBS_READ]))


def test_a_digest_of_rights_differs_with_each_of_them() -> None:
    """A key for one team reads no stored answer of somebody for another, or for all jobs."""
    digests = {
        rights_digest(some)
        for some in (
            (Grant("one", frozenset({"jobs:write"})),),
            (Grant("two", frozenset({"jobs:write"})),),
            (Grant("one", frozenset({"jobs:write"}), BILLING),),
            (Grant("one", frozenset({"jobs:write"}), OPS),),
            (Grant("one", frozenset({"*"}), OPS),),
            (Grant("one", frozenset({"jobs:read"})), Grant("one", frozenset({"jobs:write"}), OPS)),
        )
    }
    assert 6 == len(digests)


def test_answers_go_with_the_namespace_of_their_caller() -> None:
    """A removal forgets all answers whose name begins with the namespace. Two keys of one name have two."""
    callers = [
        Principal("ci", "team-a", frozenset()),
        *(Principal("ci", "team-a", frozenset(), key_id=UUID(int=number)) for number in (1, 2)),
        Principal("ci", "team-a", frozenset(), user_id=UUID(int=1)),
    ]
    names = {each.answers_name for each in callers}
    assert 4 == len(names)
    assert all(each.startswith("team-a/") for each in names)
