"""Every command line that the documents show can be typed as it stands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tickwise.cli.main import root
from tickwise.cli.session import Session

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = ("README.md", "docs/tutorial/first-job.md", "examples/README.md", "examples/hello.py",
             "examples/backup_sqlite.py", "examples/disk_usage.sh", "examples/functions.py")  # fmt: skip
_COMMAND = re.compile(r"(?:^|[\s`$])tickwise ((?:up|down|run|jobs|runs|tasks|db|api|scheduler|executor)\b[^`\n]*)")


def _shown(place: str) -> Iterator[str]:
    for line in (ROOT / place).read_text(encoding="utf-8").splitlines():
        if place.endswith(".md") and not line.startswith(("    ", "|")):
            continue
        for found in _COMMAND.finditer(line):
            yield re.split(r" {3,}| \|\| ", found[1])[0].strip()


@pytest.mark.parametrize(
    ("place", "line"),
    [pytest.param(place, line, id=f"{place}: {line}") for place in DOCUMENTS for line in _shown(place)],
)
def test_a_command_that_is_shown_can_be_typed(place: str, line: str) -> None:
    """Its words are commands and options that there are, with values that they take."""
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


def test_the_documents_show_commands() -> None:
    """The search above finds what it is meant to find."""
    assert 5 <= len(list(_shown("README.md")))
    assert 12 <= len(list(_shown("docs/tutorial/first-job.md")))
