"""The command of a crontab entry: what cron makes of its text, and the same said to a shell task, there and back.

    'mail ops%Hello%' ── split_percent ──► "mail ops", "Hello\\n" ── wrap ──► export MAILRC=/etc/mailrc
                                                                            cd || exit
                      ◄─ join_percent ───                     ◄─ unwrap ──  exec <<'END_OF_INPUT' …
                                                                            mail ops

cron starts a command in the home folder, with the variables of the file, by the shell of the file, with the text after
the first `%` as its input. A shell task has none of these, so `wrap` says them in the task's own text.

Invariants: `unwrap(wrap(command))` is the command. Everything here is linear in the length of the text. The rules for
`%` and backslashes were measured with Debian's cron 3.0pl1-162."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final, NamedTuple

DEFAULT_SHELL: Final = "/bin/sh"
MAX_NAME_CHARACTERS: Final = 60
"""Of a job's name that is made from its command: enough for a program and what it does."""

_HOME_LINE: Final = "cd || exit"
_LOGNAME_LINE: Final = 'export LOGNAME="$(id -un)"'
_END_OF_INPUT: Final = "END_OF_INPUT"


@dataclass(frozen=True, slots=True)
class Command:
    """A command as cron would run it."""

    text: str
    """For the shell, on one line."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables to set, in order, each name once and such as a shell can export."""
    stdin: str | None = None
    """Its standard input, which ends in a line break. None: nothing."""

    @property
    def shell(self) -> str:
        """The program that reads the text."""
        return dict(self.environment).get("SHELL") or DEFAULT_SHELL


# ------------------------------------------------------------------------------------------- percent signs


_COMMAND_SIGN: Final = re.compile(r"\\([\s\S])|%")
_INPUT_SIGN: Final = re.compile(r"\\%|%")


class Split(NamedTuple):
    """The parts of a crontab's command."""

    text: str
    stdin: str | None
    """None where no `%` is, and empty where nothing follows it."""
    halved: bool
    """Two backslashes became one somewhere in the command, which not every cron does."""


def split_percent(raw: str) -> Split:
    """The command and its input, by Debian's rules: the first `%` ends the command, later ones break lines.

    A backslash takes the meaning from `%`, and in the command from a second backslash, and is gone then. Before any
    other sign it stays.
    """
    parts, position, halved = [], 0, False
    for sign in _COMMAND_SIGN.finditer(raw):
        parts.append(raw[position : sign.start()])
        if sign.group() == "%":
            return Split("".join(parts), _input(raw[sign.end() :]), halved)
        parts.append(sign.group(1) if sign.group(1) in "\\%" else sign.group())
        halved = halved or sign.group(1) == "\\"
        position = sign.end()
    return Split("".join((*parts, raw[position:])), None, halved)


def _input(raw: str) -> str:
    text = _INPUT_SIGN.sub(lambda sign: "\n" if sign.group() == "%" else "%", raw)
    return text if not text or text.endswith("\n") else text + "\n"


_BACKSLASHES: Final = re.compile(r"\\+(?=([\s\S])?)")


def join_percent(text: str, stdin: str | None = None) -> str:
    """The text of a crontab entry that `split_percent` reads as this command and input, if there is one.

    Some have none, such as a line of input that ends in a backslash: compare after reading it back.
    """

    def doubled(run: re.Match[str]) -> str:
        ends_the_command = run.group(1) is None and stdin is not None
        alone = len(run.group()) == 1 and run.group(1) != "%" and not ends_the_command
        return run.group() if alone else run.group() * 2

    command = _BACKSLASHES.sub(doubled, text).replace("%", "\\%")
    if stdin is None:
        return command
    lines = stdin.removesuffix("\n")
    # cron adds the last line break only where there is none.
    if not lines or lines.endswith("\n"):
        lines = stdin
    return command + "%" + lines.replace("%", "\\%").replace("\n", "%")


def is_cut_short(text: str) -> bool:
    """Check whether a shell would read on: a quote, a backtick or a parenthesis is open at the end."""
    awaited: list[str] = []
    escaped, before = False, ""
    for sign in text:
        top = awaited[-1] if awaited else ""
        if top == "'":
            if sign == "'":
                awaited.pop()
        elif escaped:
            escaped = False
        elif sign == "\\":
            escaped = True
        elif sign == top:
            awaited.pop()
        elif sign in '"`' or (sign == "'" and top != '"'):
            awaited.append(sign)
        elif sign == "(" and (top != '"' or before == "$"):
            awaited.append(")")
        before = sign
    return bool(awaited)


# ----------------------------------------------------------------------------------------- what it leans on


_QUOTED: Final = re.compile(r"""'[^']*'|"(?:[^"\\]|\\[\s\S])*"|\\[\s\S]""")
_BACKGROUND: Final = re.compile(r"(?<![&>|<])&(?![&>])|\b(?:nohup|setsid|start-stop-daemon|daemonize)\b|\bscreen\s+-d")
_LOGNAME: Final = re.compile(r"\$\{?LOGNAME\b")


def leaves_processes(text: str) -> bool:
    """Check whether the command seems to leave a process running at its end."""
    return _BACKGROUND.search(_QUOTED.sub("_", text)) is not None


_CAPTURED: Final = re.compile(r"\$?\([^()]*\)")
_COMPOUND: Final = re.compile(
    r"\b(?:if\s.*?\bfi|(?:for|while|until)\s.*?\bdone|case\s.*?\besac)\b|\{\s.*?;\s*\}", re.DOTALL
)
_TESTED: Final = re.compile(
    r"(?:!\s+)?(?:(?:/usr)?/bin/)?(?:(?:test|\[|\[\[|which|type|hash|pgrep)\s|command\s+-[vV]\s|e?grep\s+-\w*q)"
)
"""Programs that are asked for their exit code."""
_LOCKED: Final = re.compile(r"\bflock((?:\s+-\S+)+)")
_AT_ONCE: Final = re.compile(r"-[a-zA-Z]*n|--nb|--nonblock")
_OWN_CODE: Final = re.compile(r"-[a-zA-Z]*E|--conflict-exit-code")


def fails_where_a_test_is_false(text: str) -> bool:
    """Check whether the command ends as `[ … ] && program`, or with another program that is asked for its exit code:
    `command -v`, `which`, `pgrep`, `grep -q`. Its exit code is not 0 where the test is false."""
    last = _last_list(text)
    tested = [part.strip() for part in last.split("&&")[:-1]]
    return _is_judged(last) and any(_TESTED.match(part) for part in tested)


def fails_where_a_lock_is_held(text: str) -> bool:
    """Check whether the command ends as `flock -n FILE program`: its exit code is 1 while another run has the lock."""
    last = _last_list(text)
    if not _is_judged(last) or (found := _LOCKED.search(last.rpartition("|")[2])) is None:
        return False
    options = found.group(1).split()
    return any(map(_AT_ONCE.match, options)) and not any(map(_OWN_CODE.match, options))


def _last_list(text: str) -> str:
    """The end of a command, behind its last `;`, its quoted and its compound parts as `_`."""
    bare, before = _QUOTED.sub("_", text), ""
    while bare != before:
        bare, before = _CAPTURED.sub("_", bare), bare
    return _COMPOUND.sub("_", bare).rstrip("; \t").rpartition(";")[2]


def _is_judged(last: str) -> bool:
    """Check whether a failure in this list is that of the command: nothing takes its place, and it is waited for."""
    return "||" not in last and not last.endswith("&")


def mentions(text: str, variable: str) -> bool:
    """Check whether the command itself reads the variable."""
    return f"${variable}" in text or f"${{{variable}" in text


# ------------------------------------------------------------------------------------------- there and back


def wrap(command: Command) -> str:
    """The text for a shell task that runs the command as cron would: variables, home folder, input, shell."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in command.environment]
    if _LOGNAME.search(command.text):
        lines.append(_LOGNAME_LINE)
    lines.append(_HOME_LINE)
    if command.stdin is not None:
        end = _END_OF_INPUT
        given = set(command.stdin.split("\n"))
        while end in given:
            end += "_"
        lines += [f"exec <<'{end}'", command.stdin.removesuffix("\n"), end]
    if command.shell == DEFAULT_SHELL:
        lines.append(command.text)
    else:
        lines.append(f"exec {shlex.quote(command.shell)} -c {shlex.quote(command.text)}")
    return "\n".join(lines)


def unwrap(text: str) -> Command | None:
    """The command that `wrap` made this text of; None if it made it of none."""
    lines = text.split("\n")
    environment = []
    while lines[0].startswith("export ") and lines[0] != _LOGNAME_LINE:
        assignment = _unquoted(lines.pop(0).removeprefix("export "))
        name, equals, value = (assignment or "").partition("=")
        if not equals or not lines:
            return None
        environment.append((name, value))
    if lines[0] == _LOGNAME_LINE:
        lines.pop(0)
    if lines[:1] != [_HOME_LINE] or len(lines) == 1:
        return None
    lines.pop(0)
    stdin = None
    if (opening := re.fullmatch(r"exec <<'(END_OF_INPUT_*)'", lines[0])) and opening.group(1) in lines[1:]:
        end = lines.index(opening.group(1), 1)
        stdin, lines = "\n".join((*lines[1:end], "")), lines[end + 1 :]
    found = Command("\n".join(lines), tuple(environment), stdin)
    if found.shell != DEFAULT_SHELL:
        inner = _unquoted(found.text.removeprefix(f"exec {shlex.quote(found.shell)} -c "))
        if inner is None:
            return None
        found = Command(inner, found.environment, stdin)
    return found if wrap(found) == text else None


def _unquoted(text: str) -> str | None:
    """The one word that a shell reads; None if it is not exactly one."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    return words[0] if len(words) == 1 else None


# ------------------------------------------------------------------------------------------------------ names


_SEPARATOR: Final = re.compile(r"\s*(?:&&|\|\||;|\||&)\s*")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=\S*", re.ASCII)
_TESTS: Final = frozenset(
    {"cd", "test", "[", "[[", ".", "source", "export", "sleep", "true", ":", "umask", "set", "if"}
)
_CARRIERS: Final = frozenset(
    {
        "sudo",
        "nice",
        "ionice",
        "timeout",
        "flock",
        "env",
        "exec",
        "nohup",
        "setsid",
        "time",
        "chronic",
        "then",
        "command",
    }
)
_INTERPRETERS: Final = frozenset(
    {"sh", "bash", "dash", "ksh", "zsh", "python", "python2", "python3", "perl", "php", "ruby", "node", "java", "make"}
)
_OPENING: Final = "({\"' \t!"


def job_name(text: str) -> str:
    """A short name for people: the program that matters, and for an interpreter the script that it runs.

    `cd /srv/shop && /usr/bin/php artisan schedule:run >> /dev/null` is `php artisan`.
    """
    fallback = ""
    for part in _SEPARATOR.split(text[:1_000]):
        words = [word.strip("\"'(){}") for word in part.lstrip(_OPENING).split()]
        program = _program(words)
        fallback = fallback or program
        if program and program.split()[0] not in _TESTS:
            return program[:MAX_NAME_CHARACTERS]
    return fallback[:MAX_NAME_CHARACTERS] or "cron job"


def _program(words: list[str]) -> str:
    """The program of a simple command, without assignments and wrappers."""
    carried, before = False, ""
    for place, word in enumerate(words):
        name = _last_part(word)
        # After a carrier come its options and their values, as far as they can be told from a program.
        option = carried and (word[:1] in "-0123456789" or word.endswith(".lock") or before in ("-u", "-g"))
        before = word
        if not name or option or _ASSIGNMENT.fullmatch(word):
            continue
        if name in _CARRIERS:
            carried = True
            continue
        script = next((_last_part(each) for each in words[place + 1 :] if each[:1] not in "-<>$12"), "")
        return f"{name} {script}" if name in _INTERPRETERS and script else name
    return ""


def _last_part(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]
