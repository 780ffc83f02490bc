"""The root of the command line: names and summaries of all commands, loaded only when one is called.

`main` is the only place where errors become exit codes.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TextIO, cast

import click

from tickwise.cli.failures import Blame, CommandFailure, Exit, debugging, explain_problem, show, show_json
from tickwise.cli.interrupts import was_pressed
from tickwise.cli.session import Session, server_options, with_json_fields

_OF_OUTPUT: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a write that name no file: those of files name them."""


class CommandEntry(NamedTuple):
    """The module of a command, and the line that the help shows without loading it."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, not when they are listed."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, CommandEntry]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the signature is click's
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"tickwise.cli.commands.{entry.module}")
        command = cast(click.Command, getattr(module, entry.attribute))
        if isinstance(command, click.Group):
            _summarize(command)
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click does. A reader of our output that has gone is told apart from other errors (`ReaderGone`)."""
        with _told_apart():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; see `make_context`."""
        with _told_apart():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a name that is close to one of ours is said."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # Click looks for near names among the loaded commands, and ours are not.
            raise click.NoSuchCommand(error.command_name, possibilities=self.entries, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in section.items()])


class ReaderGone(Exception):
    """Nobody reads what we write any more. Click would take a broken pipe for a failure, and exit with 1."""


class OutputFailed(Exception):
    """Our output cannot be kept. The reason is nearly always a full disk."""


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        if error.errno in _OF_OUTPUT and error.filename is None:
            raise OutputFailed(error.strerror) from None
        raise


def _summarize(group: click.Group) -> None:
    """Let the help of a group show the whole first sentences of its commands: click cuts them to a line."""
    for command in group.commands.values():
        if command.short_help is None and command.help:
            command.short_help = " ".join(command.help.partition("\n\n")[0].split())
        if isinstance(command, click.Group):
            _summarize(command)


SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Start here": {
        "up": CommandEntry("up", "up", "Run everything on this machine: API, scheduler, executor, database."),
        "open": CommandEntry("up", "open_pages", "Open the pages in a browser of this machine, signed in."),
        "down": CommandEntry("up", "down", "Stop the server that `up --background` started; the data stays."),
        "run": CommandEntry("run", "run", "Run a script, command, request or function: now, later or by schedule."),
        "status": CommandEntry(
            "observing.status",
            "status",
            "Show what runs, what failed or did not run since yesterday, what is late, and who is there.",
        ),
        "top": CommandEntry(
            "observing.top", "top", "Show what runs, live; q or Ctrl-C leaves. In a pipe, one picture."
        ),
    },
    "Jobs and runs": {
        "jobs": CommandEntry("jobs", "jobs", "Create, look at and change jobs."),
        "runs": CommandEntry("runs", "runs", "Look at runs, read their logs, stop or repeat them."),
        "dead-letters": CommandEntry(
            "letters", "dead_letters", "Look at runs that failed for good, and redrive, discard or decide them."
        ),
        "errors": CommandEntry(
            "failures.errors", "errors", "Look at failures grouped by cause, and resolve, ignore or redrive a group."
        ),
        "analytics": CommandEntry("observing.analytics", "analytics", "Count and measure ended runs by groups."),
        "environments": CommandEntry(
            "observing.environments",
            "environments",
            "Look at the environments of scripts on this machine, and remove them.",
        ),
        "objectives": CommandEntry(
            "observing.objectives",
            "objectives",
            "Manage objectives for starts, and see their error budgets.",
        ),
        "operations": CommandEntry("operations", "operations", "Look at bulk operations, and cancel them."),
        "queues": CommandEntry("queues", "queues", "Look at queues, hold and resume them."),
        "stops": CommandEntry("queues", "stops", "Stop jobs, labels, a queue or a namespace for a time."),
        "tasks": CommandEntry("tasks", "tasks", "Store scripts and task definitions on the server."),
    },
    "Alerts": {
        "channels": CommandEntry(
            "notices.channels", "channels", "Manage channels: webhooks, e-mail, Slack and what apprise knows."
        ),
        "notify": CommandEntry("notices.rules", "notify", "Manage rules: which events are sent to which channels."),
        "alerts": CommandEntry(
            "notices.alerts", "alerts", "Look at alerts, and acknowledge, snooze, close or reopen them."
        ),
        "notices": CommandEntry("notices.alerts", "notices", "Look at notices, and send one again."),
        "status-pages": CommandEntry(
            "observing.status_pages",
            "status_pages",
            "Manage status pages for people without an account, and announce on them.",
        ),
    },
    "Schedules": {
        "schedule": CommandEntry("schedule", "schedule", "Explain an expression, and when it fires."),
        "simulate": CommandEntry(
            "simulate",
            "simulate",
            "Simulate jobs between two dates: the runs, the skips and their reasons, the busiest minute.",
        ),
        "deploy": CommandEntry(
            "programs.deploying", "deploy", "Store the schedules that Python modules declare on the server."
        ),
        "import": CommandEntry(
            "importing", "import_", "Import a crontab, Kubernetes CronJobs, systemd timers or Celery beat schedules."
        ),
        "export": CommandEntry("importing", "export", "Write jobs as a crontab."),
        "calendars": CommandEntry(
            "calendars", "calendars", "Manage calendars: holidays, business hours, blackout days."
        ),
        "windows": CommandEntry("calendars", "windows", "Manage maintenance windows."),
    },
    "Access": {
        "login": CommandEntry("access.sign_in", "login", "Sign in at a server; NAME is your name or e-mail."),
        "logout": CommandEntry("access.sign_in", "logout", "Sign out of a server, and delete the sign-in here."),
        "whoami": CommandEntry(
            "access.sign_in", "whoami", "Show your identity at the server, and your permissions in the namespace."
        ),
        "keys": CommandEntry("access.keys", "keys", "Make, list, rotate and revoke API keys."),
        "federations": CommandEntry(
            "access.federations",
            "federations",
            "Accept tokens of GitHub Actions, GitLab, Kubernetes and others in place of a stored key.",
        ),
        "second-factors": CommandEntry(
            "access.second_factors",
            "second_factors",
            "Enrol, list and remove your second factors. Passkeys are made in the pages, under Security.",
        ),
        "secrets": CommandEntry(
            "secrets", "secrets", "Set, list and remove secrets, and rotate the key that encrypts them."
        ),
        "users": CommandEntry("access.users", "users", "Add people, and change their roles and passwords."),
        "identity-keys": CommandEntry(
            "access.identity_keys", "identity_keys", "Look at the keys of identity tokens, and rotate them."
        ),
        "audit": CommandEntry("audit", "audit", "Search, export and verify the audit log."),
        "namespaces": CommandEntry("access.namespaces", "namespaces", "Add, close and remove namespaces."),
    },
    "Parts, one process each": {
        "api": CommandEntry("start", "api", "Serve the REST API, or a part of it."),
        "scheduler": CommandEntry("start", "scheduler", "Turn due schedules into runs."),
        "executor": CommandEntry("start", "executor", "Run due jobs."),
        "recorder": CommandEntry(
            "start", "recorder", "Write the broker's messages to the database: buffered requests, ends of runs."
        ),
        "keeper": CommandEntry("start", "keeper", "Own shards of a Cassandra keyspace, and serve them to all roles."),
        "roles": CommandEntry("roles", "roles", "Look at the active roles."),
        "executors": CommandEntry("roles", "executors", "Look at the executors."),
        "db": CommandEntry("database", "db", "Prepare the database, or look at its version."),
        "shards": CommandEntry(
            "operating.shards", "shards", "Add databases to an installation, and move namespaces between them."
        ),
        "broker": CommandEntry("broker", "broker", "Prepare the broker for roles that may not make topics."),
    },
    "Tools": {
        "backup": CommandEntry(
            "operating.backups", "backup", "Write the installation of a `tickwise up` into one file."
        ),
        "restore": CommandEntry(
            "operating.backups", "restore", "Make the installation of a backup in an empty data folder."
        ),
        "blobs": CommandEntry("operating.blobs", "blobs", "Move scripts, outputs and artefacts to another store."),
        "doctor": CommandEntry("doctor", "doctor", "Check this set-up and give advice."),
        "config": CommandEntry("configuration", "config", "Show the settings in force and where each came from."),
        "bench": CommandEntry("bench", "bench", "Measure a running server with jobs that do nothing."),
        "completion": CommandEntry("completion", "completion", "Print the completion script for a shell."),
        "version": CommandEntry("version", "version", "Print the version."),
    },
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 the run failed, 2 usage, 3 unreachable, 4 refused, 5 not found, 6 cannot start, "
    "130 interrupted.  TICKWISE_DEBUG=1 shows tracebacks.",
)
@click.version_option(package_name="tickwise", prog_name="tickwise", message="%(prog)s %(version)s")
@server_options
def root() -> None:
    """Tickwise runs your scripts, commands, requests and functions on time, at least once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    session = Session()
    try:
        try:
            return _run(session, sys.argv[1:] if arguments is None else arguments)
        finally:
            session.close()
    except (BrokenPipeError, ReaderGone):
        # The reader of our output has seen enough (`tickwise runs list | head`). Python would complain once more when
        # it closes the streams at the end.
        _write_nowhere(sys.stdout, sys.stderr)
        return Exit.OK
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except OutputFailed as error:
        _write_nowhere(sys.stdout)
        show([], first=f"the output cannot be written: {error}")
        return Exit.MISCONFIGURED


def _write_nowhere(*streams: TextIO) -> None:
    """Let these streams write into nothing from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _run(session: Session, arguments: Sequence[str]) -> int:
    words: list[str] = []
    try:
        words = with_json_fields(arguments)
        result = root.main(words, prog_name="tickwise", standalone_mode=False, obj=session)
        with _told_apart():
            sys.stdout.flush()
    except (BrokenPipeError, ReaderGone, OutputFailed, click.Abort):
        raise
    except Exception as error:  # noqa: BLE001  # the last handler: each failure becomes a message and an exit code
        if was_pressed():  # a module of C that was being imported makes an ImportError of it
            return Exit.INTERRUPTED
        if debugging():
            import traceback

            traceback.print_exc()
        # A line that could not be read to its end may have said so further on.
        session.as_json = session.as_json or any(word.startswith("--json=") for word in words)
        return report(error, session)
    return result if isinstance(result, int) else Exit.OK


def report(error: Exception, session: Session) -> Exit:
    """Report an error; the exit code of the program."""
    if isinstance(error, click.ClickException):
        error.show()
        if session.as_json:
            show_json({"code": "usage", "detail": error.format_message()})
        return Exit.USAGE
    if isinstance(error, CommandFailure):
        return _show_problem(
            session, error.code, {"detail": error.detail}, error.detail, [error.advice] if error.advice else []
        )
    if isinstance(error, UnicodeEncodeError):
        # An argument may be any bytes, and JSON may name half a character.
        text = f"{error.object[error.start : error.end]!a} is no text that UTF-8 can say; write whole characters."
        return _show_problem(session, Exit.USAGE, {"code": "usage", "detail": text}, text, [])
    # Only a command that reached the server has loaded the client, and only one that loaded the core its errors.
    client = sys.modules.get("tickwise.sdk.client")
    if client is not None and isinstance(error, client.ClientError):
        return _client_error(error, client, session)
    core = sys.modules.get("tickwise.domain.errors")
    if core is not None and isinstance(error, core.TickwiseError) and not isinstance(error, core.Bug):
        code = Exit.MISCONFIGURED
        if isinstance(error, core.Unavailable):
            code = Exit.UNREACHABLE
        elif isinstance(error, core.Refused):
            code = Exit.REFUSED  # by the same rules as a server's, on this side of it
        return _show_problem(session, code, {"code": error.code, "detail": error.detail}, error.detail, [])
    lines = ["This is a bug in Tickwise. Please report it with the output of TICKWISE_DEBUG=1."]
    return _show_problem(session, Exit.BUG, {"code": "bug"}, f"{type(error).__name__}: {error}", lines)


def _client_error(error: Any, client: Any, session: Session) -> Exit:
    if isinstance(error, client.Unreachable):
        lines = []
        if error.status is None and not isinstance(error, client.Untrusted):
            lines = ["Is it running? Start one on this machine with `tickwise up`; `tickwise doctor` looks closer."]
        elif error.request_id is not None:
            lines = [f"The server's log tells more of request {error.request_id}."]
        return _show_problem(
            session, Exit.UNREACHABLE, {"code": "unreachable", "detail": error.detail}, error.detail, lines
        )
    if isinstance(error, client.ProblemError):
        lines = explain_problem(error.problem, error.detail, session.blame)
        lines += _advice(error.status)
        code = Exit.NOT_FOUND if error.status == 404 else Exit.REFUSED
        return _show_problem(session, code, error.problem, error.detail, lines)
    return _show_problem(session, Exit.USAGE, {"detail": error.detail}, error.detail, [])


def _advice(status: int) -> list[str]:
    if status == 401:
        return ["  Give a key that this server knows (--api-key, or TICKWISE_API_KEY), or sign in: tickwise login"]
    if status == 412:
        return ["  It was changed in the meantime: look at it again, then repeat your change."]
    return []


def _show_problem(session: Session, code: Exit, problem: Mapping[str, Any], first: str, lines: list[str]) -> Exit:
    show(lines, first=first)
    if session.as_json:
        show_json(problem)
    return code


__all__ = ["SECTIONS", "Blame", "LazyGroup", "main", "root"]
