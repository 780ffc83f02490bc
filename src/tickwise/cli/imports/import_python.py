"""The Python of imported commands: `--python`, `--requirements` and `--lock` of an import of crontabs.

    --python PATH          ──► the same command, with PATH in place of the interpreters that it names
    --requirements FILE    ──► a Python script that starts the command in the environment of these packages, with that
    --lock FILE                environment's interpreter in their place

The script goes over into the command's shell, so exit code, output and signals are the command's own. Commands that
start no Python stay as they are, and the report says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from tickwise.cli import work
from tickwise.cli.session import Decorated, Session
from tickwise.cli.sources import SourceEntry
from tickwise.importers.crontab_command import Command, unwrap, wrap
from tickwise.importers.crontab_python import with_python
from tickwise.importers.report import ImportVerdict

VARIABLE: Final = "TICKWISE_IMPORTED_PYTHON"
"""In the environment of such a command: the interpreter with its packages."""
_STARTER: Final = '''\
"""Runs a command of a crontab in the environment of this task."""

command = {command!r}

import os
import sys

programs = os.path.join(sys.prefix, "bin")
os.environ["PATH"] = programs + os.pathsep + os.environ.get("PATH", os.defpath)
os.environ[{variable!r}] = os.path.join(programs, "python")
os.execv("/bin/sh", ["/bin/sh", "-c", command])
'''


def python_options(command: Decorated) -> Decorated:
    """The options."""
    command = work.environment_options(command)
    return click.option(
        "--python", "task_python", metavar="PATH",
        help="Run the Python of each command with this one: a program, or the folder of a virtual environment, as a "
        "whole path on the executors.",
    )(command)  # fmt: skip


def with_pythons(session: Session, found: Sequence[SourceEntry], options: dict[str, Any]) -> Sequence[SourceEntry]:
    """The entries of a crontab with this Python, or with these packages; the options are taken out of the dictionary.
    Raises `click.UsageError`."""
    named: str | None = options.pop("task_python")
    packages = work.environment_fields(session, options.pop("requirements"), options.pop("lock"))
    if named is not None and packages:
        raise click.UsageError(
            f"--python and --{next(iter(packages))} exclude each other: a Python has the packages it has."
        )
    if named is not None:
        python = _program(named)
        return [_changed(each, f"{python} (--python)", shlex.quote(python), {}) for each in found]
    if packages:
        named = f"the environment of --{next(iter(packages))}"
        return [_changed(each, named, f'"${VARIABLE}"', packages) for each in found]
    return found


def _program(named: str) -> str:
    if not named.startswith("/"):
        raise click.UsageError(f"--python {named!r}: give the whole path on the executors.")
    inner = Path(named) / "bin" / "python"
    return str(inner) if inner.exists() else named


def _changed(each: SourceEntry, runner: str, python: str, packages: Mapping[str, Any]) -> SourceEntry:
    """The entry with `python`, as a shell reads it, in place of the interpreters of its command. `runner`: that in
    words."""
    entry = each.entry
    command = None if entry.job is None else unwrap(entry.job["task"]["command"])
    if entry.job is None or command is None:
        return each
    line = with_python(command.text, python)
    if not line.replaced:
        note = f"the command starts no Python itself, so {runner} is not used"
        return each._replace(entry=replace(entry, notes=(*entry.notes, note)))
    change = f"{runner} runs it, and not {', '.join(line.replaced)}"
    env = {"env": entry.job["task"]["env"]} if "env" in entry.job["task"] else {}
    job = {**entry.job, "task": _task(replace(command, text=line.text), packages) | env}
    changed = replace(entry, job=job, verdict=ImportVerdict.CHANGED, changes=(*entry.changes, change))
    return each._replace(entry=changed)


def _task(command: Command, packages: Mapping[str, Any]) -> dict[str, Any]:
    text = wrap(command)
    if not packages:
        return {"kind": "shell", "command": text}
    # A fork of a warm interpreter would be given up at once for the shell.
    return {"kind": "python", "source": _STARTER.format(variable=VARIABLE, command=text), "start": "cold", **packages}
