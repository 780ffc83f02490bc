"""The commands that `make up` prints work for the folder and the port that it was given."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from tickwise.cli.main import root
from tickwise.cli.session import Session

ROOT = Path(__file__).resolve().parents[3]


def planned(target: str, *variables: str) -> str:
    """The commands of a target, which make only prints."""
    ran = subprocess.run(["make", "-n", target, *variables], cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout


def parsed(line: str) -> Session:
    """The session of a command line, once all of its words are understood."""
    session, words = Session(environ={}), shlex.split(line)[1:]
    command: click.Command = root
    context = click.Context(root, info_name="tickwise", obj=session)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, line
        command = found
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=name)
    command.make_context(command.name, words, parent=context)
    return session


@pytest.mark.parametrize("variables", [(), ("DATA_DIR=/srv/other", "PORT=8471")], ids=["the usual", "others"])
def test_each_hint_leads_to_the_folder_that_was_given(variables: tuple[str, ...]) -> None:
    """The port stands in that folder, so no hint names it; the way to stop it names the folder too."""
    plan = planned("up", *variables)
    hints = [re.split(r" {3,}", line)[0] for line in re.findall(r"""^echo ['"]  (\S.*)['"]$""", plan, re.MULTILINE)]
    wanted = "/srv/other" if variables else None
    commands = [hint for hint in hints if not hint.startswith("make")]
    assert [wanted] * 4 == [parsed(command).data_dir for command in commands]
    [down] = [hint for hint in hints if hint.startswith("make")]
    said = planned(*shlex.split(down)[1:])
    assert (wanted is not None) == ("tickwise down --data-dir /srv/other" in said)
    started = re.search(r"tickwise up .*", plan)
    assert started is not None
    assert bool(variables) == (started[0] == "tickwise up --background --port 8471 --data-dir /srv/other")
