"""The options of a job's plain fields, drawn from their declaration in `tickwise.domain.job_fields`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

import click

from tickwise.cli import work
from tickwise.cli.session import Decorated, Session
from tickwise.domain.job_fields import FieldOption, JobField


def options(fields: Iterable[JobField], *, editing: bool = False) -> Callable[[Decorated], Decorated]:
    """The options of these fields. For a command that creates a job, the help of each names the default."""

    def decorate(command: Decorated) -> Decorated:
        for field, option in reversed(_with_option(fields)):
            text = option.help if option.default is None else f"{option.help}  [{option.default}]"
            text = option.help_of_edit or option.help if editing else text
            command = _option(field, option, text)(command)
        return command

    return decorate


def taken(
    session: Session, options: dict[str, Any], fields: Iterable[JobField], *, editing: bool = False
) -> dict[str, Any]:
    """The fields of a job body that the options set. The options are taken out. Raises `click.UsageError`.

    `editing`: a duration of 0 takes away what the job has, where a job may be without the field.
    """
    body: dict[str, Any] = {}
    for field, option in _with_option(fields):
        value = options.pop(field.name)
        if value is None:
            continue
        body[field.name] = value
        if field.is_duration:
            seconds = work.duration_seconds(option.name, value)
            body[field.name] = None if editing and field.default is None and not seconds else seconds
        work.blame(session, f"/{field.name}", option.name, value)
    return body


def _with_option(fields: Iterable[JobField]) -> list[tuple[JobField, FieldOption]]:
    return [(field, field.option) for field in fields if field.option is not None]


def _option(field: JobField, option: FieldOption, text: str) -> Callable[[Decorated], Decorated]:
    name = f"{option.name}/--no-{option.name.removeprefix('--')}" if field.kind is bool else option.name
    return click.option(name, field.name, type=_type(field), default=None, metavar=option.metavar, help=text)


def _type(field: JobField) -> Any:
    """The type that click checks. The server checks all limits and answers with words for each."""
    if issubclass(field.kind, StrEnum):
        return click.Choice([word.value for word in field.kind])
    if field.kind is int:
        return click.IntRange(None if field.at_least is None else int(field.at_least))
    return None if field.is_duration else field.kind
