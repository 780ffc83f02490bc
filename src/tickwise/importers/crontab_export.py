"""Writes jobs as a crontab, and as comments what a crontab cannot say.

    job ──► _said ──┬─ times and command can be said ──► comments on what is lost, CRON_TZ, variables, the line
                    └─ or not ─────────────────────────► comments: why, and the line (if there is one) commented out

A line is written live only if cron then runs the same command at the same times as the job, and at no others. What
cron merely does worse (no retry, no time limit, no record) stands in a comment above it.

Invariant: each live line was read back by `read_crontab` and gave the schedule and the command of its job. No text of a
job can break out of its comment or its line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from tickwise.domain.cron import expression as cron
from tickwise.domain.cron.fields import KINDS, FieldKind, every_seconds
from tickwise.domain.errors import Invalid
from tickwise.importers.crontab import COMMAND_CHARACTERS_CRON, FOR_CRON, GRACE_SECONDS, read_crontab
from tickwise.importers.crontab_command import DEFAULT_SHELL, Command, join_percent, unwrap, wrap
from tickwise.importers.crontab_lines import OUR_COMMENT, assignment
from tickwise.importers.report import shown
from tickwise.importers.translation import UTC_NAME, Untranslatable, field_text, known_zone

_MAX_COMMENT_CHARACTERS: Final = 200
_HOUR_MINUTES: Final = 60
_DAY_MINUTES: Final = 1_440
_WEEK_MINUTES: Final = 10_080
_PLAIN_ITEM: Final = re.compile(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9]+))?", re.ASCII)
_PLAIN_VALUE: Final = re.compile(r"[A-Za-z0-9_/:.,@+-]+", re.ASCII)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
"""Shells that know `unset`."""
_CANNOT_UNSET: Final = ("HOME", "PATH")
_BOUNDS: Final = ("start_at", "end_at", "max_runs", "calendars", "window_seconds")
"""The reasons for which a job does not run at times that its cron line names."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A job in the words of a crontab."""

    job: Mapping[str, Any]
    times: str
    zone: str
    command: Command
    notes: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    """The reasons why the line must not run; none: it may."""


class _Unsayable(Exception):
    """There is no line for this job; the text says why."""


def write_crontab(jobs: Sequence[Mapping[str, Any]]) -> str:
    """A crontab of these jobs, as `GET /jobs/{id}` answers them. It is a user's: its lines name no user."""
    said, unsaid = [], []
    for job in jobs:
        try:
            said.append(_say(job))
        except _Unsayable as obstacle:
            unsaid.append((job, str(obstacle)))
    said.sort(key=_place)
    writer = _Writer()
    writer.begin(zones={each.zone for each in said})
    for each in said:
        writer.job(each)
    for job, reason in unsaid:
        writer.leave_out(job, [reason])
    return "\n".join(writer.lines) + "\n"


def _place(said: _Said) -> tuple[list[bool], int, str]:
    """Variables hold for all lines below, so jobs with fewer of them stand first; above all of those that no command
    can unset for itself."""
    names = {name for name, _ in said.command.environment}
    return [name in names for name in _CANNOT_UNSET], len(names), said.zone


def _say(job: Mapping[str, Any]) -> _Said:
    times, zone, notes = _times(job)
    command, more = _command(job)
    return _Said(job, times, zone, command, (*notes, *more, *_losses(job)), tuple(_obstacles(job)))


# ---------------------------------------------------------------------------------------------------- writing


class _Writer:
    """The lines so far, and what holds for the next one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._zone: str | None = None
        self._environment: dict[str, str] = {}

    def begin(self, zones: set[str]) -> None:
        """The head of the file."""
        self._say("written from jobs; these comments hold the settings that a crontab cannot express")
        if zones:
            self._say("CRON_TZ is cronie's; Debian's cron ignores it and runs everything in the machine's zone")

    def job(self, said: _Said) -> None:
        """A job's comments and line."""
        try:
            preamble, line = self._checked(said)
        except _Unsayable as obstacle:
            self.leave_out(said.job, [str(obstacle)])
            return
        if said.obstacles:
            self.leave_out(said.job, said.obstacles, line)
            return
        self.lines.append("")
        self.lines += preamble
        self._title(said.job)
        for note in said.notes:
            self._say(note)
        for text in str(said.job.get("description") or "").splitlines():
            if text.strip():
                self.lines.append(f"# {_one_line(text)}")
        self.lines.append(line)
        self._zone = said.zone
        self._environment |= dict(said.command.environment)
        if said.command.shell == DEFAULT_SHELL and "SHELL" in self._environment:
            self._environment["SHELL"] = DEFAULT_SHELL

    def leave_out(self, job: Mapping[str, Any], reasons: Sequence[str], line: str | None = None) -> None:
        """A job that must not run from here."""
        self.lines.append("")
        self._title(job)
        for reason in reasons:
            self._say(f"left out: {reason}")
        if line is not None:
            self.lines.append(f"#{line}")

    def _title(self, job: Mapping[str, Any]) -> None:
        self._say(f"job {job.get('name')} ({job.get('job_id')})")

    def _say(self, text: str) -> None:
        self.lines.append(f"# {OUR_COMMENT} {_one_line(text)}")

    def _checked(self, said: _Said) -> tuple[list[str], str]:
        """The lines that must stand before the line, and the line, once both were read back. Raises `_Unsayable`."""
        command, wanted = said.command, dict(said.command.environment)
        preamble = [] if said.zone == self._zone else [f"CRON_TZ={said.zone}"]
        superfluous = [name for name in self._environment if name not in wanted and name not in FOR_CRON]
        if "SHELL" in superfluous:
            superfluous.remove("SHELL")
            preamble += [f"SHELL={DEFAULT_SHELL}"] if self._environment["SHELL"] != DEFAULT_SHELL else []
        preamble += [_assignment(name, value) for name, value in wanted.items() if self._environment.get(name) != value]
        if superfluous:
            if _last_part(command.shell) not in _SHELLS or any(name in _CANNOT_UNSET for name in superfluous):
                raise _Unsayable(
                    "variables that are set for jobs above must not be set for it; write it a file of its own"
                )
            command = Command(f"unset {' '.join(superfluous)}; {command.text}", command.environment, command.stdin)
        line = f"{said.times} {join_percent(command.text, command.stdin)}"
        _check_line(line, said)
        settings = [f"CRON_TZ={said.zone}", *(_assignment(name, value) for name, value in command.environment)]
        _read_back(settings, line, said, wrap(command))
        return preamble, line


def _check_line(line: str, said: _Said) -> None:
    if "\n" in line or "\r" in line:
        raise _Unsayable("its command has several lines; put it into a script, and run that")
    if len(line) - len(said.times) - 1 > COMMAND_CHARACTERS_CRON:
        raise _Unsayable(
            f"Debian's cron takes no command of more than {COMMAND_CHARACTERS_CRON} characters; put it into a script"
        )


def _read_back(settings: Sequence[str], line: str, said: _Said, command: str) -> None:
    """Make sure that the line means the job. Raises `_Unsayable` if it would mean something else."""
    entries = read_crontab("\n".join((*settings, line, "")), source="export", system=False).entries
    found = entries[0].job if len(entries) == 1 else None
    meant = (said.times, said.zone, command)
    if found is None or meant != (found.get("cron_expression"), found.get("timezone"), found["task"]["command"]):
        raise _Unsayable("cron would read its command in another way; put it into a script, and run that")


def _assignment(name: str, value: str) -> str:
    """The line that sets a variable. Raises `_Unsayable` if none does."""
    if _PLAIN_VALUE.fullmatch(value):
        return f"{name}={value}"
    for quote in ('"', "'"):
        line = f"{name}={quote}{value}{quote}"
        if quote not in value and "\n" not in line and "\r" not in line and assignment(line) == (name, value):
            return line
    raise _Unsayable(f"no line of a crontab sets {name} to its value; set it in a script")


def _one_line(text: str) -> str:
    """A text that stays inside its comment."""
    line = shown(" ".join(text.split()))
    return line if len(line) <= _MAX_COMMENT_CHARACTERS else line[: _MAX_COMMENT_CHARACTERS - 1] + "…"


# ------------------------------------------------------------------------------------------------------- times


def _times(job: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """The five fields, the zone that they speak of, and notes. Raises `_Unsayable`."""
    kind, expression = job.get("schedule_type"), str(job.get("cron_expression") or "")
    try:
        seconds = every_seconds(expression) if kind == "CRON" else job.get("interval_seconds")
        if kind == "INTERVAL" or seconds is not None:
            times, notes = _interval_times(float(seconds or 0), job.get("anchor"))
            return times, UTC_NAME, notes
        if kind == "CRON":
            zone = known_zone(str(job.get("timezone") or UTC_NAME), "timezone")
            return _cron_times(expression, _seed(job)), zone, []
    except (Invalid, Untranslatable) as refusal:
        raise _Unsayable(str(refusal)) from None
    if kind == "ON_DEMAND":
        raise _Unsayable("it has no schedule: it runs when it is asked for")
    raise _Unsayable("it runs once, and a crontab has repeating entries only")


def _seed(job: Mapping[str, Any]) -> bytes | None:
    """The seed that picks the values of `H` in the job's line."""
    try:
        return UUID(str(job.get("job_id"))).bytes
    except ValueError:
        return None


def _cron_times(expression: str, seed: bytes | None) -> str:
    """The line in Vixie cron's words. Raises `_Unsayable` where it has none, `Invalid` where the line is none."""
    line = cron.parse(expression, seed)
    if expression.startswith("@"):
        return expression.strip().lower()
    if line.seconds != 1:
        raise _Unsayable("it runs at certain seconds, and cron only knows minutes")
    if line.last_day or line.last_weekdays or line.nth_weekdays:
        raise _Unsayable("cron knows no last day (L), and no n-th weekday (#) of a month")
    fields = expression.split()[-5:]
    masks = (line.minutes, line.hours, line.days, line.months, line.weekdays)
    return " ".join(_field(*each) for each in zip(KINDS[1:], fields, masks, strict=True))


def _field(kind: FieldKind, text: str, mask: int) -> str:
    """The field as it stands if cron reads it alike, else its values."""
    if text == "?":
        return "*"
    if all(_is_plain(kind, item) for item in text.split(",")):
        return text
    values = [value for value in range(kind.low, kind.low + kind.size) if mask >> value & 1]
    # A whole field is written without `*`, which would change the rule for days and for clock changes.
    return f"{values[0]}-{values[-1]}" if len(values) == kind.size else field_text(values, kind.size)


def _is_plain(kind: FieldKind, item: str) -> bool:
    match = _PLAIN_ITEM.fullmatch(item)
    if match is None:
        return False
    first, last, step = match.groups()
    if first == "*" or (last is None and step is None):
        return first == "*" or first.isdigit() or first.upper() in kind.names
    if last is None:
        return False
    bounds = [int(end) if end.isdigit() else kind.low + kind.names.index(end.upper()) for end in (first, last)]
    return bounds[0] <= bounds[1]


def _interval_times(seconds: float, anchor: object) -> tuple[str, list[str]]:
    """The line, in UTC, that runs at an interval's times, to the minute."""
    minutes, rest = divmod(seconds, 60)
    if rest or minutes < 1:
        raise _Unsayable(f"every {seconds:g} seconds is no whole number of minutes, and cron knows only minutes")
    start = _instant(anchor)
    shift = start.second + start.microsecond / 1e6
    notes = [f"its times are {shift:g} s after the minute; cron starts it at the minute"] if shift else []
    every, minute, hour = int(minutes), start.minute, start.hour
    if _HOUR_MINUTES % every == 0:
        return f"{_stepped(minute, every, _HOUR_MINUTES)} * * * *", notes
    if every % _HOUR_MINUTES == 0 and _DAY_MINUTES % every == 0:
        return f"{minute} {_stepped(hour, every // _HOUR_MINUTES, 24)} * * *", notes
    if every == _WEEK_MINUTES:
        return f"{minute} {hour} * * {start.isoweekday() % 7}", notes
    raise _Unsayable(f"no cron line repeats every {seconds:g} seconds: hours and days do not divide by it")


def _instant(anchor: object) -> datetime:
    """The beginning of the interval, in UTC; the epoch if it is not said."""
    try:
        found = anchor if isinstance(anchor, datetime) else datetime.fromisoformat(str(anchor))
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, UTC)


def _stepped(start: int, step: int, size: int) -> str:
    if step == size:
        return str(start)
    if step == 1:
        return "*"
    return f"*/{step}" if start % step == 0 else f"{start % step}-{size - 1}/{step}"


# ----------------------------------------------------------------------------------------------------- the rest


def _command(job: Mapping[str, Any]) -> tuple[Command, list[str]]:
    """The command of the job, and notes. Raises `_Unsayable`."""
    task = job.get("task")
    if not isinstance(task, Mapping) or task.get("kind") != "shell":
        kind = task.get("kind") if isinstance(task, Mapping) else None
        raise _Unsayable(f"its task is of the kind {kind}, and cron only runs commands")
    text = str(task.get("command") or shlex.join(str(word) for word in task.get("argv") or ()))
    command, notes = unwrap(text), []
    if command is None:
        command = Command(text.strip(" \t"))
        notes.append("cron runs it in the home folder, not in a new folder of its own")
    if "\\\\" in join_percent(command.text, command.stdin):
        notes.append("backslashes are doubled for Debian's cron; cronie takes them as they stand")
    return command, notes


def _obstacles(job: Mapping[str, Any]) -> Iterator[str]:
    """The reasons why cron must not run it, although it could."""
    status = str(job.get("status") or "SCHEDULED")
    if status == "PAUSED":
        yield f"it is paused ({job.get('pause_reason') or 'no reason given'})"
    elif status != "SCHEDULED":
        yield f"it is over ({status})"
    bounds = [name for name in _BOUNDS if job.get(name)]
    if bounds:
        yield f"cron would run it at times that it must not: {', '.join(bounds)} cannot be said"


def _losses(job: Mapping[str, Any]) -> Iterator[str]:
    """The features of the job that cron does not have."""
    if retries := job.get("max_retries"):
        yield f"cron does not retry (max_retries {retries})"
    if seconds := job.get("timeout_seconds"):
        yield f"cron sets no time limit (timeout_seconds {seconds:g}); use timeout(1)"
    overlap = job.get("overlap") or "skip"
    if overlap != "allow":
        yield f"cron starts a run while the last still goes on (overlap {overlap}); use flock(1)"
    misfire = job.get("misfire")
    mode = misfire.get("mode", "latest") if isinstance(misfire, Mapping) else "latest"
    if mode != "skip":
        yield f"cron makes up no missed runs (misfire mode {mode})"
    if (seconds := job.get("start_deadline_seconds")) and seconds != GRACE_SECONDS:
        yield f"cron starts it on time or never (start_deadline_seconds {seconds:g})"
    if seconds := job.get("jitter_seconds"):
        yield f"cron runs it without delay (jitter_seconds {seconds:g})"
    if dst := _given(job.get("dst")):
        yield f"cron has its own rule for clock changes (dst {dst})"
    if job.get("requires") or job.get("queue") not in (None, "default"):
        yield f"cron runs it on its own machine (queue {job.get('queue')}, requires {job.get('requires')})"
    if user := job.get("run_as"):
        yield f"it runs as {user} (run_as); put it into the crontab of that user"
    elif user := _label(job, "cron_user"):
        yield f"it was read from a system crontab, where it ran as {user}"
    if job.get("payload"):
        yield "cron gives it no payload"


def _given(members: object) -> str:
    """The members of an object that are set."""
    if not isinstance(members, Mapping):
        return ""
    return ", ".join(f"{name} {value}" for name, value in members.items() if value is not None)


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


def _label(job: Mapping[str, Any], name: str) -> str | None:
    labels = job.get("labels")
    return labels.get(name) if isinstance(labels, Mapping) else None
