"""Reads a crontab into job bodies: a user's, or the system's with a user before each command.

    text ──► lines ──┬─ NAME=value ──► variables of the entries below
                     ├─ # comment ───► description of the entry right below
                     └─ entry ───────► times │ user │ command % input ──► job, with what changes in meaning

A job means what the entry means to Debian's cron: at the same times, clock changes included; a new run beside those
that still runs, no retry, nothing made up after a standstill; the command in the home folder, with the variables, shell
and input of the crontab. Each difference that remains is one sentence in `changes`.

Invariants: each line that is no blank, comment or assignment has its entry in the report, in order; nothing in the text
makes this raise; the work and the report are bounded by the text's length.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tickwise.domain.accounts.run_as import LOGIN_PATH, LOGIN_SHELL
from tickwise.domain.errors import Invalid
from tickwise.domain.rules.confinement import Isolation, check_user
from tickwise.domain.zones import zone_named
from tickwise.importers.crontab_command import (
    DEFAULT_SHELL,
    Command,
    fails_where_a_lock_is_held,
    fails_where_a_test_is_false,
    is_cut_short,
    job_name,
    leaves_processes,
    mentions,
    split_percent,
    wrap,
)
from tickwise.importers.crontab_lines import (
    NEVER_PROGRAMS,
    assignment,
    description,
    is_broken_assignment,
    is_system,
    looks_like_user,
)
from tickwise.importers.crontab_times import CrontabTimes, read_times, take_words
from tickwise.importers.report import ImportEntry, ImportReport, shown
from tickwise.importers.translation import (
    MAX_JITTER_SECONDS,
    UTC_NAME,
    VARIABLE,
    Translation,
    Untranslatable,
    known_zone,
    shell_task,
    translated,
)

MAX_LINES: Final = 10_000
"""Debian's cron ignores a longer file."""
COMMAND_CHARACTERS_CRON: Final = 998
"""Debian's cron refuses a longer command; others cut it."""
MAX_ENVIRONMENT_CHARACTERS: Final = 8_000
"""Every job carries its variables, so a report has at most this for each line of its source."""
MAX_SOURCE_CHARACTERS: Final = 150
"""Of the source's name in a key; a key has 200."""
GRACE_SECONDS: Final = 60
"""cron looks once a minute, and starts what it finds late by less; what it missed for longer it never starts. So the
grace of the schedulers is this, and so is the deadline for executors that were away."""

FOR_CRON: Final = frozenset(
    {"CRON_TZ", "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "RANDOM_DELAY", "CRON_WITHIN"}
)
"""Variables that speak to cron itself; a job has them only if its command reads them."""
_SIXTH_FIELD: Final = re.compile(r"(?!/)[-*/,?~0-9]*[*?0-9][-*/,?~0-9]*")
_FLAGS: Final = re.compile(r"-([nqs]{1,3})[ \t]+")

_NO_MAIL: Final = "MAILTO: cron mails the output, here no mail is sent; the output is kept with each run"
_OF_FAILURES: Final = (
    "failures are told by an e-mail channel for {}: --apply finds it, or name one with --notify CHANNEL"
)
_FALSE_TEST: Final = (
    "[ … ] && command, or command -v … && command: where the test is false the exit code is not 0; cron says nothing "
    "of that, here the run fails, and failures are told; write [ … ] || exit 0; command"
)
_HELD_LOCK: Final = (
    "flock -n: while the lock is held the exit code is 1; cron says nothing of that, here the run fails, and failures "
    "are told; write flock -n -E 0, or leave flock out and let the job say overlap: skip"
)
_NO_ZONE: Final = (
    "crontab runs in the machine's zone, which is not written in the file; here in UTC; give --timezone, such as "
    "--timezone Europe/Berlin"
)


@dataclass(slots=True)
class _File:
    """The state of the file while its lines are read, from the first to the last."""

    source: str
    system: bool
    timezone: str | None
    user: str | None
    run_as: bool
    environment: dict[str, str] = field(default_factory=dict)
    environment_characters: int = 0
    comments: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def assign(self, name: str, value: str) -> None:
        """Set a variable for the entries to come."""
        before = self.environment.get(name)
        self.environment_characters += len(value) - len(before) if before is not None else len(name) + len(value)
        self.environment[name] = value


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry as it stands in the file."""

    number: int
    text: str
    """Without blanks before it and without its line break."""
    quirks: tuple[str, ...] = ()
    """The effect of this place of the file on it."""


def read_crontab(
    text: str | bytes,
    *,
    source: str,
    system: bool | None = None,
    timezone: str | None = None,
    user: str | None = None,
    run_as: bool = True,
) -> ImportReport:
    """The entries of a crontab.

    `source` names the file, in keys and where its place tells its kind. `system`: entries name a user before their
    command; None finds out. `timezone` is the zone of the machine that ran it (a `CRON_TZ` in the file wins). With
    `run_as` each job runs as the user that cron ran it as: that of its line, in a user's crontab `user`. Without it,
    `user` is whom executors run as: a system entry of this user changes nothing. Raises `Invalid` for a `timezone` that
    is none.
    """
    if timezone is not None:
        zone_named(timezone)
    content = text.decode("utf-8", errors="surrogateescape") if isinstance(text, bytes) else text
    lines = content.split("\n")
    if system is None:
        system = is_system(source, [line.removesuffix("\r") for line in lines[:MAX_LINES]])
    file = _File(source, system, timezone, user, run_as)
    return ImportReport(tuple(_entries(file, lines)))


def _entries(file: _File, lines: list[str]) -> Iterator[ImportEntry]:
    for number, raw in enumerate(lines, start=1):
        line = raw.removesuffix("\r")
        has_mark = number == 1 and line.startswith("\N{ZERO WIDTH NO-BREAK SPACE}")
        stripped = line[has_mark:].lstrip(" \t")
        if not stripped:
            file.comments.clear()
        elif stripped.startswith("#"):
            file.comments.append(stripped)
        elif (assigned := assignment(stripped)) is not None:
            file.comments.clear()
            file.assign(*assigned)
        else:
            quirks = _quirks(raw, marked=has_mark, last=number == len(lines))
            yield _entry(file, _Line(number, stripped, quirks))
            file.comments.clear()


def _quirks(raw: str, *, marked: bool, last: bool) -> tuple[str, ...]:
    """Strip a line's begin and end as cron does."""
    found = []
    if marked:
        found.append("the file begins with a byte order mark, so cron refuses this line; here it runs")
    if raw.endswith("\r"):
        found.append("the line ends in CR LF: cron hands the CR to the command, here it is left out")
    if last:
        found.append("no line break ends the file, so Debian's cron ignores it, and cronie this line; here it runs")
    return tuple(found)


def _entry(file: _File, line: _Line) -> ImportEntry:
    def translate() -> Translation:
        try:
            return _translate(file, line)
        except Invalid as refusal:  # what the domain says of times and zones is what people should read
            raise Untranslatable(refusal.detail) from None

    return translated(line.number, line.text, translate)


def _translate(file: _File, line: _Line) -> Translation:
    """The job of an entry, and what changes in meaning. Raises `Untranslatable` or `Invalid`."""
    if line.number > MAX_LINES:
        raise Untranslatable(f"Debian's cron ignores a file of more than {MAX_LINES} lines; split it into several")
    if is_broken_assignment(line.text):
        raise Untranslatable(
            "cron reads no assignment here, as more follows the closing quote; write a comment on a line of its own"
        )
    if "START_HOURS_RANGE" in file.environment:
        raise Untranslatable(
            "it is an anacrontab, whose lines name periods; write a time such as @daily, and a command"
        )
    times, rest = read_times(line.text)
    user, raw = _user_and_command(rest, file)
    changes = [*times.changes]
    flags = _FLAGS.match(raw)
    if flags is not None:
        raw = raw[flags.end() :]
        changes.append(f"-{flags.group(1)} is read as OpenBSD's cron does; Debian's takes it for the command's name")
    command = _command(file, raw, changes)
    run_as = _run_as(file, user)
    task = shell_task([wrap(command)])
    if run_as is None and (surroundings := _surroundings(command)):
        task["env"] = surroundings
    job: dict[str, Any] = {
        "name": job_name(command.text),
        "key": _key(file, line.text),
        "description": shown(description(file.comments)),
        "labels": {"cron_user": user} if user else {},
        **times.words,
        "timezone": _zone(file, times, changes),
        "task": task,
        "isolation": Isolation.PROCESS.value,  # it works on the files of its machine
        "run_as": run_as,
        "max_retries": 0,
        "overlap": times.words.get("overlap", "skip" if flags and "s" in flags.group(1) else "allow"),
        "misfire": {"grace_seconds": GRACE_SECONDS, "mode": "skip"},
        "start_deadline_seconds": GRACE_SECONDS,
        "jitter_seconds": _delay_seconds(file, changes),
    }
    if user and run_as is None and (file.run_as or user != file.user):
        changes.append(f"cron runs it as the user {user}, here it runs as the user of the executor that takes it")
    changes += line.quirks
    recipient = file.environment.get("MAILTO")
    notes = [*_of_zones(file, times)]
    if recipient:
        notes.append(f"{_NO_MAIL}; {_OF_FAILURES.format(shown(recipient))}")
    if fails_where_a_test_is_false(command.text):
        notes.append(_FALSE_TEST)
    if fails_where_a_lock_is_held(command.text):
        notes.append(_HELD_LOCK)
    said = {name: value for name, value in job.items() if value or value == 0}
    recipients = [each for each in re.split(r"[,\s]+", recipient or "") if each]
    return Translation(said, changes, notes, recipients)


# -------------------------------------------------------------------------------------------- parts of an entry


def _user_and_command(rest: str, file: _File) -> tuple[str, str]:
    """The user (empty in a user's crontab) and the command as it stands."""
    first = take_words(rest, 1)[0]
    if not first:
        raise Untranslatable("it has no command after its times; write one, such as /usr/local/bin/backup")
    word = first[0]
    if _SIXTH_FIELD.fullmatch(word):
        raise Untranslatable(
            f"{shown(word[:24])} stands where the command begins: cron knows five time fields; leave one out, and for "
            "seconds make the job by hand with a cron_expression of six fields"
        )
    if not file.system:
        if word in NEVER_PROGRAMS:
            raise Untranslatable(
                f"{word} stands where the command begins, but the crontab of a user names no users; remove it, or "
                "import the file with --system"
            )
        return "", rest
    if not looks_like_user(word):
        raise Untranslatable(
            f"{shown(word[:24])!r} stands where a system crontab names the user, and is none; write the user, such as "
            "root, before the command, or import the file with --no-system"
        )
    command = rest[len(word) :].lstrip(" \t")
    if not command:
        raise Untranslatable(
            f"it has no command after the user {word}; write one, or import the file with --no-system if {word} is it"
        )
    return word, command


def _run_as(file: _File, user: str) -> str | None:
    """The user that the job names; None: none, or one that no job can name, such as a user with a group and a class."""
    name = user or file.user
    if name is None or not file.run_as:
        return None
    try:
        check_user(name)
    except Invalid:
        return None
    return name


def _surroundings(command: Command) -> dict[str, str]:
    """The variables that cron sets for each command, as far as its file does not. One that names its user gets them
    from the executor, with those that depend on the user."""
    said = dict(command.environment)
    usual = {"PATH": LOGIN_PATH, "SHELL": LOGIN_SHELL}
    return {name: value for name, value in usual.items() if name not in said}


def _command(file: _File, raw: str, changes: list[str]) -> Command:
    """The command with all that cron gives it."""
    _check_text(raw)
    if len(raw) > COMMAND_CHARACTERS_CRON:
        changes.append(
            f"Debian's cron refuses a command of more than {COMMAND_CHARACTERS_CRON} characters, others cut it; here "
            "it runs whole"
        )
    text, stdin, halved = split_percent(raw)
    if not text.strip():
        raise Untranslatable("its command is empty; write one before the first %")
    if stdin is not None and is_cut_short(text):
        raise Untranslatable(
            "cron ends the command at its first %, which leaves a quote or parenthesis open, and hands the rest to it "
            "as input; write \\% for a percent sign"
        )
    if halved:
        changes.append("two backslashes reach the command as one, as in Debian's cron; cronie leaves them as they are")
    if leaves_processes(text):
        changes.append("its background processes end with the run; cron lets them go on")
    return Command(text, tuple(_variables(file, text, changes)), stdin or None)


def _check_text(text: str) -> None:
    """Refuse text that no job can hold, with a message about the file."""
    if any("\ud800" <= sign <= "\udfff" for sign in text) and not text.isascii():
        raise Untranslatable("it is not UTF-8; convert the file, such as with iconv -f LATIN1 -t UTF-8")
    if "\0" in text:
        raise Untranslatable("it contains a NUL byte, at which cron ends the line; remove it")


def _variables(file: _File, command: str, changes: list[str]) -> Iterator[tuple[str, str]]:
    """The variables that the command finds set, beside those of every task."""
    if file.environment_characters > MAX_ENVIRONMENT_CHARACTERS:
        raise Untranslatable(
            f"the variables above it have more than {MAX_ENVIRONMENT_CHARACTERS} characters; set them in a script"
        )
    for name, value in file.environment.items():
        if name == "LOGNAME" or (name in FOR_CRON and not mentions(command, name)):
            continue  # cron sets LOGNAME itself and ignores the file's
        if VARIABLE.fullmatch(name) is None:
            changes.append(f"the variable {shown(name[:40])!r} has a name that no shell can set, and is left out")
            continue
        _check_text(value)
        if name == "SHELL":
            if not value:
                changes.append(f"SHELL is empty, so cron cannot start the command; here {DEFAULT_SHELL} runs it")
            if value in ("", DEFAULT_SHELL):
                continue
        yield name, value
    if mentions(command, "SHELL") and file.environment.get("SHELL", DEFAULT_SHELL) in ("", DEFAULT_SHELL):
        yield "SHELL", DEFAULT_SHELL


def _zone(file: _File, times: CrontabTimes, changes: list[str]) -> str | None:
    """The zone that the times speak of; None for an interval."""
    if times.words["schedule_type"] != "CRON":
        return None
    if named := file.environment.get("CRON_TZ", "").removeprefix(":"):
        return known_zone(named, "CRON_TZ")
    if file.timezone is None and times.needs_zone:
        changes.append(_NO_ZONE)
    return file.timezone or UTC_NAME


def _of_zones(file: _File, times: CrontabTimes) -> Iterator[str]:
    """Notes on variables that name another zone than that of the machine."""
    if times.words["schedule_type"] != "CRON" or not times.needs_zone:
        return
    zone, of_command = (file.environment.get(name, "").removeprefix(":") for name in ("CRON_TZ", "TZ"))
    if zone and zone != file.timezone:
        yield (
            f"CRON_TZ: times are in {shown(zone)}, as cronie reads them; Debian's cron ignores it, and runs these "
            "lines in the machine's zone; remove it where that is meant"
        )
    if of_command and of_command not in (zone, file.timezone):
        yield f"TZ: {shown(of_command)} is the zone of the command alone, and moves no times, as in cron"


def _delay_seconds(file: _File, changes: list[str]) -> int | None:
    """cronie's RANDOM_DELAY, as a jitter."""
    minutes = file.environment.get("RANDOM_DELAY", "")
    if not (minutes.isascii() and minutes.isdecimal()) or not int(minutes[:9]):
        return None
    changes.append(
        "RANDOM_DELAY: cronie draws one delay when it starts, and uses it until it ends; here each run has its own "
        "(jitter_seconds)"
    )
    return min(int(minutes[:9]) * 60, MAX_JITTER_SECONDS)


def _key(file: _File, text: str) -> str:
    """A key that is equal for equal words in a file; the n-th of equal entries has the n-th key."""
    words = " ".join(text.split())
    file.seen[words] += 1
    source = file.source.strip("/").replace("/", ".") or "crontab"
    source = "".join(sign if sign.isprintable() else "_" for sign in source)
    if len(source) > MAX_SOURCE_CHARACTERS:
        source = f"{source[: MAX_SOURCE_CHARACTERS - 17]}.{_digest(file.source)}"
    return f"crontab:{source}:{_digest(f'{words} {file.seen[words]}')}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
