"""The options of plain job fields become members of the request body."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from tickwise.cli import job_fields
from tickwise.cli.session import Session
from tickwise.domain.job_fields import JOB_FIELDS


def _body(*words: str, editing: bool = False) -> dict[str, Any]:
    """The members that these words of the command line set."""
    bodies: list[dict[str, Any]] = []

    @click.command()
    @job_fields.options(JOB_FIELDS, editing=editing)
    def command(**options: Any) -> None:
        bodies.append(job_fields.taken(Session(environ={}), options, JOB_FIELDS, editing=editing))
        assert options == {}

    result = CliRunner().invoke(command, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return bodies[0]


def test_each_option_sets_its_field() -> None:
    """A duration is sent in seconds."""
    assert _body("--timeout", "1m30s", "--retries", "7", "--on-unknown", "hold", "--fuse", "10") == {
        "timeout_seconds": 90.0,
        "max_retries": 7,
        "on_unknown": "hold",
        "fuse_per_minute": 10,
    }


def test_an_option_that_is_not_given_sends_nothing() -> None:
    """The server has the defaults."""
    assert _body() == {}


def test_an_edit_takes_a_timeout_away_with_a_duration_of_zero() -> None:
    """`null` is the value of a job without one; a new job has none to take away."""
    assert _body("--timeout", "0s", editing=True) == {"timeout_seconds": None}
    assert _body("--timeout", "0s") == {"timeout_seconds": 0.0}


@pytest.mark.parametrize(
    "words", [("--retries", "many"), ("--retries", "-1"), ("--fuse", "0"), ("--on-unknown", "maybe")]
)
def test_a_value_of_another_kind_is_refused_with_the_name_of_its_option(words: tuple[str, str]) -> None:
    """Before anything is sent."""

    @click.command()
    @job_fields.options(JOB_FIELDS)
    def command(**_options: Any) -> None:
        raise AssertionError("it was accepted")

    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2
    assert words[0] in result.output
