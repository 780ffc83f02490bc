"""`--json FIELD,…` gives members of objects, and says which there are."""

from __future__ import annotations

import click
import pytest

from tickwise.cli.session import with_json_fields
from tickwise.cli.terminal.members import with_members

JOBS = [{"name": "a", "task": {"kind": "shell"}, "key": None}, {"name": "b", "task": None}]


def test_members_are_taken_from_each_object() -> None:
    """One that an object does not have is null, as is one of an inner object that is not there."""
    assert [{"name": "a", "key": None}, {"name": "b", "key": None}] == with_members(JOBS, ["name", "key"])
    assert [{"task.kind": "shell"}, {"task.kind": None}] == with_members(JOBS, ["task.kind"])
    assert {"name": "a"} == with_members(JOBS[0], ["name"])
    assert [] == with_members([], ["whatever"])


def test_a_member_that_none_has_is_refused_with_those_there_are() -> None:
    """Here the names are few; a person sees them all."""
    with pytest.raises(click.UsageError, match="'nmae'; there are name, task, key"):
        with_members(JOBS, ["nmae"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["runs", "show", "--json", "nightly"], ["runs", "show", "--json=*", "nightly"]),
        (["runs", "show", "--json", "status,reason", "ID"], ["runs", "show", "--json=status,reason", "ID"]),
        (["jobs", "list", "--json", "name"], ["jobs", "list", "--json=name"]),
        (["jobs", "list", "--json", "--all"], ["jobs", "list", "--json=*", "--all"]),
        (["--json", "jobs", "list"], ["--json=*", "jobs", "list"]),
        (["jobs", "show", "--json=name", "a"], ["jobs", "show", "--json=name", "a"]),
        (["jobs", "show", "--", "--json"], ["jobs", "show", "--", "--json"]),
    ],
)
def test_fields_follow_json_where_no_argument_can(words: list[str], expected: list[str]) -> None:
    """After a list, or with a comma; one field of another command is joined by `=`."""
    assert expected == with_json_fields(words)
