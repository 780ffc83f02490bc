"""The folder and the variables that an import gives to each job: `--dir` and `--env`.

They are those of a command; a function of a Celery schedule has neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from tickwise.cli import surroundings
from tickwise.cli.session import Decorated
from tickwise.cli.sources import SourceEntry


def import_options(command: Decorated) -> Decorated:
    """The two options, for imports whose jobs are commands."""
    options = [
        click.option(
            "--dir", "task_directory", metavar="PATH", help="Begin each job in this folder of the executors."
        ),
        click.option(
            "--env", "task_env", multiple=True, metavar="NAME=VALUE",
            help="Set a variable of each job's environment; repeat it for more.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def surrounded(found: Sequence[SourceEntry], options: dict[str, Any]) -> Sequence[SourceEntry]:
    """The entries with this folder and these variables; the options are taken out of the dictionary. Raises
    `click.UsageError`."""
    directory: str | None = options.pop("task_directory", None)
    variables: Sequence[str] = options.pop("task_env", ())
    if directory is not None and not directory.startswith("/"):
        raise click.UsageError(f"--dir {directory!r}: give the whole path on the executors.")
    return [_with(each, directory, variables) for each in found]


def _with(each: SourceEntry, directory: str | None, variables: Sequence[str]) -> SourceEntry:
    job = each.entry.job
    if job is None or (directory is None and not variables):
        return each
    task: dict[str, Any] = dict(job["task"])
    if directory is not None:
        task["working_dir" if task["kind"] == "container" else "directory"] = directory
    if variables:
        task["env"] = surroundings.variables(variables, task.get("env") or {})
    return each._replace(entry=replace(each.entry, job={**job, "task": task}))
