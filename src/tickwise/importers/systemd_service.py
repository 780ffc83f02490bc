"""A systemd service as a task: its commands as one shell task, its limits as those of a job.

    ExecStart=/usr/bin/backup --all                     {"kind": "shell", "argv": ["/usr/bin/backup", "--all"]}

    Environment=TARGET=/srv                             export TARGET=/srv
    WorkingDirectory=/opt/app                    ──►    cd /opt/app || exit
    ExecStartPre=-/usr/bin/prepare                      /usr/bin/prepare || :
    ExecStart=/usr/bin/backup ${TARGET}                 exec /usr/bin/backup "${TARGET}"

A single program without variables is started without a shell. All else that a unit says of its processes (users,
sandboxes, limits, conditions) means nothing on the executor's machine: it is left out, and the entry says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tickwise.importers.systemd_units import Unit, span_seconds, split_commands, split_words
from tickwise.importers.translation import (
    MAX_RETRIES,
    MAX_TIMEOUT_SECONDS,
    VARIABLE,
    Reference,
    Untranslatable,
    Words,
    check_arguments,
    command_line,
    exports,
    joined,
    listed,
    program_task,
    shell_task,
)

_SERVICE: Final = "Service"
_STEPS: Final = ("ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost")
_HANDLED: Final = frozenset(
    {
        *_STEPS, "Type", "Environment", "EnvironmentFile", "WorkingDirectory", "User", "TimeoutStartSec", "TimeoutSec",
        "RuntimeMaxSec", "Restart", "RestartSec",
        # Tickwise always does what these ask for: it keeps output, ends all processes of a run, and orders by the
        # schedule.
        "SyslogIdentifier", "KillMode", "TimeoutStopSec", "SendSIGKILL",
    }
)  # fmt: skip
_UNIT_SILENT: Final = frozenset(
    {"Description", "Documentation", "After", "Before", "DefaultDependencies", "RefuseManualStart", "RefuseManualStop"}
)
_JOURNAL: Final = ("journal", "inherit", "syslog", "journal+console", "syslog+console")
_MAX_RESTARTS: Final = 5
"""`StartLimitBurst=` unless it is given."""

_VARIABLE_IN_WORD = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE_WORD = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class SystemdService(NamedTuple):
    """The parts of a service that a job takes over."""

    task: Mapping[str, Any]
    fields: Mapping[str, Any]
    """`timeout_seconds`, `max_retries`, `retry`."""
    changes: Sequence[str]
    description: str | None


class _Command(NamedTuple):
    """One program to run."""

    arguments: Sequence[Words]
    ignores_failure: bool
    is_condition: bool


def read_service(unit: Unit) -> SystemdService:
    """The task and the limits of a service. Raises `Untranslatable`."""
    changes: list[str] = []
    commands = _commands(unit, changes)
    fields = {**_timeout(unit), **_retries(unit, changes)}
    task = _task(unit, commands, changes)
    user = unit.value(_SERVICE, "User") or "root"
    changes.append(
        f"it runs as the executor's user, in a folder of its own and without the variables of systemd; "
        f"systemd runs it as {unit.expanded(user)[:100]}"
    )
    kind = unit.value(_SERVICE, "Type")
    if kind in ("forking", "notify", "notify-reload", "dbus"):
        changes.append(f"the run ends when the command ends, with Type={kind} systemd waits for the service to be up")
    left_out = _left_out(unit)
    if left_out:
        changes.append(f"left out of the service, because nothing here means the same: {listed(left_out)}")
    description = unit.value("Unit", "Description")
    return SystemdService(task, fields, changes, unit.expanded(description)[:10_000] if description else None)


def _left_out(unit: Unit) -> list[str]:
    names = [name for name in unit.names(_SERVICE) if name not in _HANDLED]
    for output in ("StandardOutput", "StandardError"):
        if output in names and (unit.value(_SERVICE, output) or "") in _JOURNAL:
            names.remove(output)
    return names + [name for name in unit.names("Unit") if name not in _UNIT_SILENT]


def _timeout(unit: Unit) -> dict[str, Any]:
    """A oneshot service is starting for as long as its commands run; of others, the running time is limited."""
    names = ("TimeoutStartSec", "TimeoutSec") if unit.value(_SERVICE, "Type") == "oneshot" else ("RuntimeMaxSec",)
    for name in names:
        given = unit.value(_SERVICE, name)
        if given is not None:
            seconds = span_seconds(given, name)
            if seconds and seconds <= MAX_TIMEOUT_SECONDS:
                return {"timeout_seconds": int(seconds) if seconds == int(seconds) else seconds}
            break
    return {}


def _retries(unit: Unit, changes: list[str]) -> dict[str, Any]:
    """A service is not started again unless it says so."""
    restart = unit.value(_SERVICE, "Restart") or "no"
    if restart == "no":
        return {"max_retries": 0}
    burst = unit.value("Unit", "StartLimitBurst") or ""
    retries = min(int(burst), MAX_RETRIES) if re.fullmatch(r"\d{1,6}", burst, re.ASCII) else _MAX_RESTARTS
    pause = span_seconds(unit.value(_SERVICE, "RestartSec") or "100ms", "RestartSec")
    if pause is None:
        return {"max_retries": 0}
    changes.append(
        f"a failed run is repeated at most {retries} times (max_retries) and one that succeeded is not; "
        f"with Restart={restart} systemd decides by its own rule and counts starts in a time"
    )
    base = min(pause, 366 * 86_400.0)
    return {"max_retries": retries, "retry": {"backoff": "fixed", "base_seconds": base, "jitter": 0.0}}


# ------------------------------------------------------------------------------------------------------- commands


def _commands(unit: Unit, changes: list[str]) -> list[_Command]:
    found: list[_Command] = []
    for step in _STEPS:
        for value in unit.values(_SERVICE, step):
            found += [_command(unit, words, step, changes) for words in split_commands(value)]
    if not any(not command.is_condition for command in found):
        raise Untranslatable(f"{unit.name[:100]} has no ExecStart=, so there is nothing to run; add one")
    return found


def _command(unit: Unit, words: list[str], step: str, changes: list[str]) -> _Command:
    """Its program comes after signs that say how to start it."""
    program = words[0].lstrip("-@:+!|")
    signs = words[0][: len(words[0]) - len(program)]
    rest = words[1:]
    if "|" in signs:
        raise Untranslatable(f"{step}=|… runs it in the user's login shell; write `/bin/sh -c '…'`")
    if "@" in signs:
        rest = rest[1:]
        changes.append("the program gets its own path as its name, not the one that follows after @")
    if "+" in signs or "!" in signs:
        changes.append(f"the signs {signs} of {step} give a command more rights than the service; it has none here")
    if ":" in signs:
        arguments: list[Words] = [(unit.expanded(word),) for word in [program, *rest]]
    else:
        arguments = [_with_variables(unit.expanded(word)) for word in [program, *rest]]
    check_arguments(arguments)
    return _Command(arguments, "-" in signs, step == "ExecCondition")


def _with_variables(word: str) -> Words:
    """`${NAME}` anywhere is the variable's value; `$NAME` alone is as many words as its value has."""
    if match := _VARIABLE_WORD.fullmatch(word):
        return (Reference(match[1], splits=True),)
    parts: list[str | Reference] = []
    position = 0
    for match in _VARIABLE_IN_WORD.finditer(word):
        parts.append(word[position : match.start()])
        parts.append(Reference(match[1]) if match[1] else "$")
        position = match.end()
    parts.append(word[position:])
    return joined(parts)


def _task(unit: Unit, commands: Sequence[_Command], changes: list[str]) -> Mapping[str, Any]:
    before = [*_environment(unit, changes), *_folder(unit)]
    if len(commands) == 1 and not before and not commands[0].ignores_failure:
        task = program_task(commands[0].arguments)
        if task is not None:
            return task
    if any(
        isinstance(part, Reference) and part.splits for each in commands for words in each.arguments for part in words
    ):
        before.append("set -f")  # the words of a variable are not names of files
    lines = [_line(command, is_last=place == len(commands)) for place, command in enumerate(commands, start=1)]
    return shell_task([*before, *lines])


def _line(command: _Command, *, is_last: bool) -> str:
    text = command_line(command.arguments)
    if command.is_condition:
        # A condition that is not met skips the rest, and is no failure.
        return f"{text} || exit 0"
    if command.ignores_failure:
        return f"{text} || :"
    return f"exec {text}" if is_last else f"{text} || exit"


def _environment(unit: Unit, changes: list[str]) -> list[str]:
    values: dict[str, Words] = {}
    for line in unit.values(_SERVICE, "Environment"):
        for word in split_words(line):
            name, separator, value = unit.expanded(word).partition("=")
            if separator and VARIABLE.fullmatch(name):
                values[name] = (value,)
    lines = exports(values)
    for file in unit.values(_SERVICE, "EnvironmentFile"):
        path = unit.expanded(file.removeprefix("-"))
        if not path.startswith("/"):
            raise Untranslatable(f"EnvironmentFile={file[:100]} is no absolute path; write one that begins with /")
        read = f"set -a; . {shlex.quote(path)}; set +a"
        lines.append(f"if [ -r {shlex.quote(path)} ]; then {read}; fi" if file.startswith("-") else read)
        changes.append(f"the variables of {path[:200]} are read on the executor's machine, as a shell reads them")
    return lines


def _folder(unit: Unit) -> list[str]:
    given = unit.value(_SERVICE, "WorkingDirectory")
    if given is None:
        return []
    path = unit.expanded(given.removeprefix("-"))
    where = "cd" if path == "~" else f"cd {shlex.quote(path)}"
    return [f"{where} || :" if given.startswith("-") else f"{where} || exit"]
