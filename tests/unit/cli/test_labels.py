"""Labels of keys and roles on the command line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from tickwise.cli.commands.access.sign_in import role_text
from tickwise.cli.commands.access.users import _roles
from tickwise.cli.labels import labels_text, read_labels
from tickwise.cli.session import Session


def here() -> Session:
    """A session of a command in the namespace `team-a`."""
    return cast(Session, SimpleNamespace(target=SimpleNamespace(namespace="team-a"), blame={}))


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("viewer", {"role": "viewer", "namespace": "team-a"}),
        ("admin@*", {"role": "admin", "namespace": "*"}),
        ("operator:team=ops", {"role": "operator", "namespace": "team-a", "labels": {"team": "ops"}}),
        (
            "developer@team-b:team=billing,env=",
            {"role": "developer", "namespace": "team-b", "labels": {"team": "billing", "env": ""}},
        ),
        ("viewer@*:url=http://a", {"role": "viewer", "namespace": "*", "labels": {"url": "http://a"}}),
    ],
)
def test_a_role_is_written_with_its_namespace_and_its_labels(text: str, member: dict[str, Any]) -> None:
    """As it is shown, it can be given again."""
    assert [member] == _roles(here(), (text,))
    assert [member] == _roles(here(), (role_text(member),))


@pytest.mark.parametrize("text", ["viewer:", "viewer:team", "viewer:=ops", "viewer:team=ops,"])
def test_a_role_whose_labels_cannot_be_read_is_refused(text: str) -> None:
    """A colon without labels is never all jobs."""
    with pytest.raises(click.UsageError, match="NAME=VALUE"):
        _roles(here(), (text,))


def test_labels_are_read_and_shown() -> None:
    """A value may have an equals sign."""
    labels = read_labels(["team=billing", "rule=a=b"])
    assert {"team": "billing", "rule": "a=b"} == labels
    assert "team=billing,rule=a=b" == labels_text(labels)
