"""Each option of a command sends the field that it is declared for.

Each option of a command is given to it once, against a server that keeps what it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, Final

import click
import pytest

from tests.conformance.test_job_fields_agree import OPTIONS, OWN_OPTIONS
from tests.unit.cli.loopback import Loopback, Reply, serving
from tickwise.cli.main import main, root
from tickwise.cli.session import Session
from tickwise.domain.job_fields import HTTP_OPTIONS

JOB: Final = "019c0000-0000-7000-8000-000000000000"
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "run": ("run",),
    "jobs create": ("jobs", "create"),
    "jobs edit": ("jobs", "edit", JOB),
    "jobs preview": ("jobs", "preview"),
}
WRITTEN: Final = {
    "AUDIENCE": "vault", "CHANNEL": "on-call", "HOST:PORT": "example.com:443", "NAME=N": "gpu=1", "USER": "backup",
    "IMAGE": "python:3.12",
    "DURATION": "90s", "FILE": "-", "JOB": JOB, "JSON": '{"a": 1}', "KEY": "report", "LINE": "@daily", "METHOD": "PUT",
    "N": "7", "N/DURATION[:KEY]": "10/1m", "N[:KEY]": "3", "NAME": "send", "NAME=VALUE": "a=1", "NAME[=VALUE]": "a",
    "'NAME: VALUE'": "A: b", "SHARE": "0.5",
    "NAME[:include|exclude[:skip|defer]]": "holidays", "SIZE": "512M", "STATUSES": "200", "TEXT": "a",
    "TIME": "2090-01-31T10:00:00Z", "URL": "http://127.0.0.1/", "VERSION": "1.3", "BYTES": "1000",
    "ZONE": "Europe/Berlin",
}  # fmt: skip
"""A value for an option, by the word that its help has for one."""
WHEN: Final = ("--now", "--at", "--in", "--cron", "--every", "--on-demand")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_sends_the_field_that_it_is_declared_for(command: str) -> None:
    """Beside the options without which the command does not take it."""
    task = {"kind": "http", "url": "http://127.0.0.1/"}
    job = {"job_id": JOB, "version": 1, "name": "a", "warnings": [], "task": task}
    with serving(Reply(200, job)) as server, pytest.MonkeyPatch.context() as patched:
        for option in _options(COMMANDS[command]):
            patched.setattr("sys.stdin", StringIO("{}"))
            sent = _sent(server, [*COMMANDS[command], *_beside(command, option), *_given(option)])
            declared = {field for field, options in OPTIONS.items() if option.opts[0] in options}
            assert declared
            assert declared <= sent, option.opts[0]


def _options(words: Sequence[str]) -> Iterator[click.Option]:
    """The options of a command that are about the job."""
    command: Any = root
    for word in words:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command, obj=Session()), word)
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    assert options
    yield from (option for option in options if option.opts[0] not in OWN_OPTIONS)


def _beside(command: str, option: click.Option) -> list[str]:
    """The words without which the command does not take the option."""
    name = option.opts[0]
    schedule = [] if name in WHEN or command in ("jobs create", "jobs edit") else ["--cron", "@daily"]
    if command != "run":
        return schedule
    if name in HTTP_OPTIONS:
        return [*schedule, "--http", "http://127.0.0.1/"]
    return [*schedule, *([] if name in ("--shell", "--http", "--function") else ["--shell", "date"])]


def _given(option: click.Option) -> list[str]:
    """The option with a value."""
    if option.is_flag:
        return [option.opts[0]]
    if isinstance(option.type, click.Choice):
        return [option.opts[0], str(option.type.choices[0])]
    whole = isinstance(option.type, click.IntRange)
    return [option.opts[0], WRITTEN[option.metavar or ("N" if whole else "TEXT")]]


def _sent(server: Loopback, words: Sequence[str]) -> set[str]:
    """The fields of the body that a command sends, and the key if it stands in the address."""
    before = len(server.received)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        code = main([*words, "--json", "--url", server.url, "--api-key", "k"])
    assert code == 0, f"{' '.join(words)}: {said.getvalue()}"
    requests = [request for request in server.received[before:] if isinstance(request.body, dict)]
    assert requests, f"{' '.join(words)} sends nothing"
    return {name for request in requests for name in request.body} | {
        "key" for request in requests if "/by-key/" in request.path
    }
