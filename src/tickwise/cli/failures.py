"""The ends of commands: the exit codes that scripts can rely on, and every error as three things that a person needs.

    what is wrong · where (the option or the line that said it) · what to do

Invariant: no expected error shows a traceback, unless `TICKWISE_DEBUG=1` asks for it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import click


class Exit(IntEnum):
    """Exit codes. Scripts rely on them: never renumber."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    NOT_FOUND = 5
    MISCONFIGURED = 6
    BUG = 70
    INTERRUPTED = 130


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "it worked; with `--follow` or `--wait`, the run ended as SUCCESS",
    Exit.JOB_FAILED: "the run that was waited for did not end as SUCCESS; or `doctor` found an error",
    Exit.USAGE: "the command line cannot be understood",
    Exit.UNREACHABLE: "the server cannot be reached, or cannot serve for now: the same command may succeed later",
    Exit.REFUSED: "the server refused: something in the request must be changed",
    Exit.NOT_FOUND: "there is no such job, run or task",
    Exit.MISCONFIGURED: "it cannot start as it is set up: a setting, a port, a disk, a version",
    Exit.BUG: "a bug in Tickwise; please report it",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
}


class CommandFailure(Exception):
    """An expected end that is no success."""

    def __init__(self, detail: str, code: Exit, *, advice: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.advice = advice


class FieldSource(NamedTuple):
    """The input that became a field of the request."""

    option: str
    """As it stands on the command line: `--cron`, or the name of a file."""
    text: str = ""
    """Its value; of a script, the whole source."""


Blame = dict[str, FieldSource]
"""For each JSON pointer of a request's body, and for each `?parameter`: what on the command line said it."""

_LINE = re.compile(r"\bline (\d+)(?:, column (\d+))?")
"""The form in which the server names the line of a compile error."""


def debugging() -> bool:
    """Check whether the person asked for tracebacks."""
    return os.environ.get("TICKWISE_DEBUG", "") not in {"", "0"}


def blamed(pointer: str | None, blame: Blame) -> tuple[str, FieldSource | None]:
    """The remark that names the place, and what was said there. An unknown pointer is shown as it is."""
    if pointer is None or pointer == "":
        return "", None
    # `/payload/db` belongs to `--param db` if that is known, else to the option of `/payload`.
    path = pointer
    while path:
        if path in blame:
            return path, blame[path]
        path = path.rpartition("/")[0]
    return pointer, None


def explain_problem(problem: Mapping[str, Any], detail: str, blame: Blame) -> list[str]:
    """The lines that say where a refused request is wrong."""
    pointer = problem.get("pointer")
    parameter = problem.get("parameter")
    if isinstance(parameter, str) and parameter:
        pointer = f"?{parameter}"
    path, said = blamed(pointer if isinstance(pointer, str) else None, blame)
    lines: list[str] = []
    if said is None:
        if path:
            lines.append(f"  at {path}")
    else:
        lines.extend(_quoted(said, problem, detail))
    return lines


def _quoted(said: FieldSource, problem: Mapping[str, Any], detail: str) -> list[str]:
    """The input, with a mark under the wrong place if it is known."""
    position = problem.get("position")
    if "\n" not in said.text and isinstance(position, int) and 0 <= position <= len(said.text):
        word = re.match(r"\S+", said.text[position:])
        marks = "^" * (len(safe(word[0])) if word else 1)
        shown = f"  {said.option} '{safe(said.text)}'"
        return [shown, " " * (len(said.option) + 4 + len(safe(said.text[:position]))) + marks]
    found = _LINE.search(detail)
    source = said.text.splitlines()
    if found and len(source) > 1 and 1 <= int(found[1]) <= len(source):
        return _excerpt(said.option, source, int(found[1]), int(found[2] or 0))
    if said.text and "\n" not in said.text and len(said.text) <= 200:
        return [f"  {said.option} {_shell_quoted(said.text)}"]
    return [f"  in {said.option}"]


def _excerpt(name: str, source: list[str], number: int, column: int) -> list[str]:
    """The line at fault between the lines around it, with a mark under the column if it is known."""
    lines = [f"  {name}, line {number}:"]
    for each in range(max(1, number - 2), min(len(source), number + 1) + 1):
        mark = ">" if each == number else " "
        # A tab is as wide as a terminal likes; as one blank, the mark below stands where it should.
        lines.append(f"  {mark} {each:>4} | {source[each - 1]}".replace("\t", " "))
        if each == number and column > 0:
            lines.append("  " + " " * 7 + "| " + " " * (column - 1) + "^")
    return lines


def _shell_quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w.:/@%+,=-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def safe(text: Any) -> str:
    """A text of others on one line of ours: control characters, which could move the cursor or recolour the screen,
    are shown and not obeyed."""
    return "".join(
        each if unicodedata.category(each) not in {"Cc", "Cf", "Cs"} else each.encode("unicode_escape").decode()
        for each in str(text)
    )


def safe_lines(text: str) -> str:
    """A text made safe for a terminal, with its line breaks."""
    return "\n".join(map(safe, text.split("\n")))


def show(lines: list[str], *, first: str) -> None:
    """Write an error to stderr, its first line marked."""
    colour = None if os.environ.get("NO_COLOR", "") == "" else False
    message, *rest = safe_lines("\n".join((first, *lines))).split("\n")
    click.echo(click.style("Error: ", fg="red", bold=True) + message, err=True, color=colour)
    for line in rest:
        click.echo(line, err=True, color=colour)


def show_json(problem: Mapping[str, Any]) -> None:
    """The error as the one JSON value of a `--json` command."""
    import json

    click.echo(json.dumps({"error": dict(problem)}, ensure_ascii=False, default=str))
