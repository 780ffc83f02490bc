"""From what a person wrote on the command line to the body of a job, with the source of each field.

FILE · --shell · --http · --function   ──► task, name
--now · --at · --in · --cron · --every ──► the schedule  (--on-demand: none)
--param · --payload                    ──► payload
"""

from __future__ import annotations

import json
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from tickwise.cli import moments
from tickwise.cli.failures import FieldSource
from tickwise.cli.session import Decorated, Session
from tickwise.domain.errors import Invalid
from tickwise.domain.scripts.coding import source_text
from tickwise.domain.scripts.files import files_bytes

INLINE_LIMIT_BYTES: Final = 256 * 1024
"""A larger script is stored once as a task and named by its id: every run's row would carry it otherwise."""

WHEN: Final = ("now", "at", "in_", "cron", "every", "on_demand", "timezone")
"""The options of `When`."""
_SUFFIXES: Final = {".py": "python", ".pyw": "python", ".sh": "shell", ".bash": "shell", ".zsh": "shell"}
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_NAME_MAX: Final = 200


@dataclass(frozen=True)
class Script:
    """A file to run: its kind and its text."""

    path: Path
    kind: str
    source: str
    interpreter: tuple[str, ...] = ()
    """The interpreter that its first line names, and its options."""
    by_env: bool = False
    """`env` looks for that interpreter."""
    unused: tuple[str, ...] = ()
    """Options of another interpreter, which have no effect."""


def read_script(path: Path) -> Script:
    """Read a file and find out what it is: by its suffix, else by its first line. Raises `click.UsageError`."""
    if not path.exists():
        raise click.UsageError(f"there is no file {str(path)!r}.")
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise click.UsageError(f"{str(path)!r} is a folder; name the script in it.") from None
    except OSError as error:
        raise click.UsageError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    if not content.removeprefix(BOM_UTF8).strip():
        raise click.UsageError(f"{str(path)!r} is empty.")
    if path.suffix in {".json", ".yaml", ".yml", ".toml"}:
        raise click.UsageError(f"{str(path)!r} is no script; a job in JSON goes to `tickwise jobs create {path}`.")
    interpreter, by_env = _shebang(content)
    program = Path(interpreter[0]).name if interpreter else ""
    kind = _SUFFIXES.get(path.suffix)
    if kind is None:
        kind = "python" if program.startswith("python") else "shell" if program in _SHELLS else None
    source = _text(path, content, kind)
    if kind is None:
        raise click.UsageError(
            f"{str(path)!r} is no known script. A Python script ends in .py, a shell script in .sh, or its first "
            "line says so (#!/usr/bin/env python3). Anything else is run with --shell."
        )
    if kind == "python":
        return Script(path, kind, source, interpreter, by_env, unused=interpreter[1:])
    if interpreter and program not in _SHELLS:
        raise click.UsageError(
            f"the first line of {str(path)!r} names {interpreter[0]}, which is no shell; run the file as a program: "
            f"--shell {path.absolute()}"
        )
    return Script(path, kind, source, interpreter, by_env)


def _text(path: Path, content: bytes, kind: str | None) -> str:
    """Of a Python script, as Python reads it. A shell takes neither a byte order mark nor the line ends of Windows."""
    if kind == "python":
        try:
            return source_text(content)
        except Invalid as error:
            if b"\0" not in content:
                raise click.UsageError(f"{str(path)!r}: {error.detail}.") from None
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise click.UsageError(f"{str(path)!r} is no text; to run a program: --shell {path.absolute()}") from None


def _shebang(content: bytes) -> tuple[tuple[str, ...], bool]:
    """The words after `#!`: an interpreter and its options; whether `env` looks for it."""
    first = content.removeprefix(BOM_UTF8).split(b"\n", 1)[0].decode(errors="replace")
    words = first[2:].split() if first.startswith("#!") else []
    by_env = bool(words) and Path(words[0]).name == "env"
    if by_env:
        del words[0]
        if words and words[0] in ("-S", "--split-string"):
            del words[0]
    return tuple(words), by_env


def script_task(script: Script) -> dict[str, Any]:
    """The task that runs a script. A shell other than `sh`, or one with options, is called by its name, so that its own
    syntax and its options work."""
    if script.kind == "python":
        return {"kind": "python", "source": script.source}
    shell = Path(script.interpreter[0]).name if script.interpreter else script.path.suffix.removeprefix(".")
    if shell in _SHELLS - {"sh"} or script.interpreter[1:]:
        return {"kind": "shell", "argv": [shell, *script.interpreter[1:], "-c", script.source, script.path.name]}
    return {"kind": "shell", "command": script.source}


def blame_script(session: Session, script: Script) -> None:
    """Attribute errors of the task to that file."""
    for pointer in ("/task", "/task/source", "/task/command", "/task/argv"):
        blame(session, pointer, str(script.path), script.source)


def environment_options(command: Decorated) -> Decorated:
    """`--requirements` and `--lock`."""
    command = click.option(
        "--lock", metavar="FILE", help="Run the script with the packages of this uv.lock or pylock.toml."
    )(command)
    return click.option(
        "--requirements", metavar="FILE",
        help="Run the script with the packages of this requirements.txt. A header in the script (PEP 723) needs no "
        "option.",
    )(command)  # fmt: skip


def environment_fields(session: Session, requirements: str | None, lock: str | None) -> dict[str, Any]:
    """The fields of a task that declare its environment. Raises `click.UsageError`."""
    if requirements is not None and lock is not None:
        raise click.UsageError("--requirements and --lock exclude each other: a lock has all packages.")
    fields = {}
    for name, file in (("requirements", requirements), ("lock", lock)):
        if file is not None:
            try:
                fields[name] = Path(file).read_text(encoding="utf-8-sig")
            except UnicodeDecodeError:
                raise click.UsageError(f"--{name} {file}: it is no UTF-8 text.") from None
            except OSError as error:
                raise click.UsageError(f"--{name} {file}: it cannot be read: {error.strerror}.") from None
            blame(session, f"/task/{name}", file, fields[name])
    return fields


def inline_or_stored(session: Session, script: Script, task: dict[str, Any]) -> dict[str, Any]:
    """The task in the job's body; a large one is stored first and named by its id."""
    blame_script(session, script)
    if script.unused:
        session.note(f"{script.path}: {' '.join(script.unused)} of its first line has no effect.")
    if len(script.source.encode()) + files_bytes(task) <= INLINE_LIMIT_BYTES:
        return {"task": task}
    stored = session.client.task_put({"name": script.path.name, "task": task})
    session.note(f"{script.path} is large: stored once as task {stored['taskId']}.")
    return {"taskId": stored["taskId"]}


def _split(text: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name.strip():
        raise click.UsageError(f"{option} {text!r}: write NAME=VALUE")
    return name.strip(), value


def blame(session: Session, pointer: str, option: str, text: Any = "") -> None:
    """Remember the source of a field, so that a refusal can point at it."""
    session.blame[pointer] = FieldSource(option, str(text))


def compact(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def short_name(text: str) -> str:
    """A name for a job that was given none."""
    return " ".join(text.split())[:_NAME_MAX] or "job"


def name_of_url(url: str) -> str:
    parts = urlsplit(url)
    return short_name((parts.hostname or url) + parts.path.rstrip("/"))


# ---------------------------------------------------------------------------------------------------- payload


def payload_options(command: Decorated) -> Decorated:
    """`--param` and `--payload`."""
    command = click.option("--payload", metavar="JSON", help="The whole payload as JSON, or @FILE (@- is stdin).")(
        command
    )
    return click.option(
        "--param", "params", multiple=True, metavar="NAME=VALUE",
        help="One field of the payload; repeat it for more. A value that reads as JSON is one, else it is text.",
    )(command)  # fmt: skip


def payload(session: Session, params: Sequence[str], whole: str | None) -> Any:
    """The payload that was asked for, None if nothing was said. Raises `click.UsageError`."""
    if whole is not None and params:
        raise click.UsageError("--param and --payload exclude each other.")
    if whole is not None:
        blame(session, "/payload", "--payload", whole)
        return read_json(whole[1:] if whole.startswith("@") else None, whole, "--payload")
    if not params:
        return None
    found: dict[str, Any] = {}
    for param in params:
        name, value = _split(param, "--param")
        if name in found:
            raise click.UsageError(f"--param {name} is given twice.")
        found[name] = _value(value)
        blame(session, f"/payload/{name}", "--param", param)
        _warn_of_relative_file(session, name, value)
    blame(session, "/payload", "--param")
    return found


def _value(text: str) -> Any:
    """JSON if it reads as JSON that a person would write (`30`, `true`, `[1,2]`), else the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _no_constant(name: str) -> Any:
    """NaN and Infinity are no JSON, though Python reads them; as a parameter they are words."""
    raise ValueError(name)


def _warn_of_relative_file(session: Session, name: str, value: str) -> None:
    path = Path(value)
    if len(value) < 1000 and "\n" not in value and value and not path.is_absolute() and path.is_file():
        session.note(
            f"Note: {value} is a file here, but a job runs in a folder of its own. If the job shall use this file, "
            f"give its whole path: --param {name}={path.absolute()}"
        )


def read_json(file: str | None, text: str, what: str, *, advice: str = "") -> Any:
    """A JSON value from a file (`-`: stdin), or from the text itself if `file` is None. `advice`: behind the error
    about a text that is none."""
    if file is not None:
        what = "stdin" if file == "-" else file
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{file} cannot be read: {error}") from None
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise click.UsageError(f"{what} is not JSON: {error}{advice}") from None


# ---------------------------------------------------------------------------------------------------- schedule


@dataclass(frozen=True, kw_only=True)
class When:
    """The options that say when; at most one of them."""

    now: bool = False
    at: str | None = None
    in_: str | None = None
    cron: str | None = None
    every: str | None = None
    on_demand: bool = False
    timezone: str | None = None

    def given(self) -> list[str]:
        """The options that were given, as they are written."""
        options = {
            "--now": self.now, "--at": self.at, "--in": self.in_, "--cron": self.cron, "--every": self.every,
            "--on-demand": self.on_demand,
        }  # fmt: skip
        return [option for option, value in options.items() if value]

    def without_now(self) -> When:
        """The schedule that stands beside `--now`, of a job that runs by it and once now; itself if there is none. A
        job that runs once has one time."""
        is_with_schedule = bool(self.cron or self.every or self.on_demand)
        return replace(self, now=False) if self.now and is_with_schedule else self


def when_options(command: Decorated) -> Decorated:
    """`--now`, `--at`, `--in`, `--cron`, `--every`, `--on-demand`, and the job's `--timezone`."""
    options: list[Callable[[Decorated], Decorated]] = [
        click.option("--now", is_flag=True, help="Once, now."),
        click.option(
            "--at",
            metavar="TIME",
            help="Once, at a time: '2027-01-31 10:00', 'tomorrow 10:00', 'friday 3am', RFC 3339.",
        ),
        click.option("--in", "in_", metavar="DURATION", help="Once, after a while: 90s, 5m, 1h30m."),
        click.option("--cron", metavar="LINE", help="By a cron line: '*/5 * * * *', @daily."),
        click.option("--every", metavar="DURATION", help="Repeatedly, at this interval: 30s, 5m, 1d."),
        click.option("--on-demand", is_flag=True, help="Only when it is asked for, or when a job that names it ends."),
        click.option(
            "--timezone", metavar="ZONE", help="The job's own time zone, an IANA name. [UTC; for --at this machine's]"
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def schedule(session: Session, when: When, *, zone: str | None = None) -> dict[str, Any]:
    """The fields of a job that say when. `zone`: that of the job that is changed. Raises `click.UsageError`."""
    given = when.given()
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other: a job has one schedule.")
    body: dict[str, Any] = {}
    if when.timezone:
        body["timezone"] = when.timezone
        blame(session, "/timezone", "--timezone", when.timezone)
    if when.cron:
        body |= {"schedule_type": "CRON", "cron_expression": when.cron}
        blame(session, "/cron_expression", "--cron", when.cron)
    elif when.every:
        body |= {
            "schedule_type": "INTERVAL",
            "interval_seconds": duration_seconds("--every", when.every, needs_unit=True),
        }
        blame(session, "/interval_seconds", "--every", when.every)
    elif when.at or when.in_:
        body |= {"schedule_type": "FUTURE", "schedule_time": _point(session, when, zone)}
        blame(session, "/schedule_time", "--at" if when.at else "--in", when.at or when.in_)
    elif when.now:
        body["schedule_type"] = "IMMEDIATE"
    elif when.on_demand:
        body["schedule_type"] = "ON_DEMAND"
    blame(session, "/schedule_type", given[0] if given else "--now")
    return body


def duration_seconds(option: str, text: str, *, needs_unit: bool = False) -> float:
    """The length of time that an option says. Raises `click.UsageError`."""
    try:
        return moments.duration_seconds(text, needs_unit=needs_unit)
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None


def _point(session: Session, when: When, zone: str | None) -> str:
    """The time of a job: on the clock that it names, else on that of the job it changes, else on this machine's. A job
    that was given no zone has UTC, which is nobody's clock."""
    at = moments.now()
    if when.in_:
        seconds = duration_seconds("--in", when.in_, needs_unit=True)
        return moments.written(at + seconds)
    named = when.timezone or (zone if zone != "UTC" else None)
    try:
        clock = moments.zone_named(named) if named else None
        found = moments.moment(when.at or "", clock, at, tell=session.note)
    except moments.UnreadableTime as error:
        raise click.UsageError(f"--at: {error}") from None
    return found.isoformat()
