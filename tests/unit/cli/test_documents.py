"""Every command line that the documents, and the help texts, show can be typed as it stands."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tickwise.cli.main import root
from tickwise.cli.session import Session

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = (
    "README.md", "docs/tutorial/first-job.md", "docs/reference/schedules.md", "examples/README.md", "examples/hello.py",
    "examples/backup_sqlite.py", "examples/disk_usage.sh", "examples/functions.py",
)  # fmt: skip
_COMMAND = re.compile(
    r"(?:^|[\s`$])tickwise ((?:up|down|run|jobs|runs|tasks|schedule|simulate|import|export|calendars|windows|db|api|"
    r"scheduler|executor)\b[^`\n]*)"
)
_ENDS = re.compile(r" {3,}| \|\|? | >|,? …")
"""Where a command line ends: at what is said of it, or at another one."""


def _shown(place: str) -> Iterator[str]:
    for line in (ROOT / place).read_text(encoding="utf-8").splitlines():
        if place.endswith(".md") and not line.startswith(("    ", "|")):
            continue
        for found in _COMMAND.finditer(line):
            yield _ENDS.split(found[1])[0].strip()


@pytest.mark.parametrize(
    ("place", "line"),
    [pytest.param(place, line, id=f"{place}: {line}") for place in DOCUMENTS for line in _shown(place)],
)
def test_a_command_that_is_shown_can_be_typed(place: str, line: str) -> None:
    """Its words are commands and options that there are, with values that they take."""
    _parse(line)


def _parse(line: str) -> None:
    command: click.Command = root
    context = click.Context(root, info_name="tickwise", obj=Session(environ={}))
    words = shlex.split(line)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=name)
    command.make_context(name, words, parent=context)


def _examples(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from ((path, found[1]) for line in paragraph.splitlines() for found in _COMMAND.finditer(line))
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from _examples(below, f"{path} {name}")


@pytest.mark.parametrize(
    ("path", "line"), [pytest.param(*each, id=": ".join(each)) for each in _examples(root, "tickwise")]
)
def test_an_example_of_a_help_text_can_be_typed(path: str, line: str) -> None:
    """It shows the command whose help it is."""
    _parse(_ENDS.split(line)[0])
    assert f"tickwise {line}".startswith(path)


def test_the_documents_show_commands() -> None:
    """The search above finds what it is meant to find."""
    assert 5 <= len(list(_shown("README.md")))
    assert 12 <= len(list(_shown("docs/tutorial/first-job.md")))
