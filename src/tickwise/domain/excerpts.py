"""Texts of people and tasks where there is room for one line: the cause of a failure, and any text with all of it
visible.

    error text ──► how it ended (exit status 1) + the lines of its output, without colours
                     ├── the exception of a stack: Python, Java, Node, Ruby, Go, Rust
                     ├── else the last line that calls itself an error, a shell's about a command among them
                     ├── else the last line at the margin
                     └── no output: how it ended

The answer to an HTTP request has its message instead of lines. An error that is no output, such as a sentence of an
executor, is its first line, or the exception of its stack.

Invariants. The line follows from the text alone, and takes time proportional to its length, of which the last
`READ_CHARACTERS` are read. It has no colours; what else cannot be seen in it is for `spelled`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

READ_CHARACTERS: Final = 16_384
ENDS_BEGIN_CHARACTERS: Final = 100
"""Of an error that is shortened: its begin says how it ended."""

_ENDED: Final = re.compile(r"(?:exit status \d+|ended by signal \S+): ")
_ANSWERED: Final = re.compile(r"status \d{3}: ")
_COLOURS: Final = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?|[@-Z\\-_])")

_PYTHON_FRAME: Final = re.compile(r'[\s|]*File "[^"]*", line \d')
_PYTHON_STACK: Final = "Traceback (most recent call last):"
_PYTHON_GROUP: Final = re.compile(r"(\s*)\+ Exception Group " + re.escape(_PYTHON_STACK))
_IN_BARS: Final = re.compile(r"(\s*)\| (\S.*)")
_OF_GROUP: Final = re.compile(r"\(\d+ sub-exceptions?\)")
_FRAME: Final = re.compile(
    r"\s+(?:at (?:[^(]*\([^)]*\)|(?:async )?\S+:\d|<anonymous>)|from \S+:\d+:in |\.\.\. \d+ (?:more|lines))"
)
_EXCEPTION: Final = re.compile(r"(?:\w+[.$])*\w*(?:Error|Exception|Exit|Interrupt|Failure|Fault)(?: \[\w+\])?(?:: |$)")
_CALLED: Final = re.compile(r'(?:Exception in thread "[^"]*"|Caused by:|\[cause\]:|Uncaught) (?=\S)')
"""The words before an exception."""
_PANIC: Final = re.compile(r"(?:panic|fatal error): ")
_RUST_PANIC: Final = re.compile(r"thread '[^']*' (?:\(\d+\) )?panicked at ")

_ERROR: Final = re.compile(
    r"\b(?i:error|fatal|panic|critical)(?:\[[^\]]{1,40}\]|\([^)]{1,40}\))?\s?:"
    r"|(?:^|[\s\[<|])(?:ERROR|FATAL|CRITICAL|SEVERE)(?=[\]\s>|]|$)"
    r'|\blevel="?(?:error|fatal|panic|critical)\b'
    r"|^E: "
    r"|^\S+: (?:line )?\d+: [^\s`]"
    r"|: (?:command not found|not found|No such file or directory|Permission denied)$"
)
_TRAILER: Final = re.compile(
    r"make(?:\[\d+\])?: \*\*\* |npm (?:ERR!|error)|Node\.js v\d|\(Use `node |exit status \d+$|note: |hint: "
)
"""Lines that say no more than that another program failed, or what to do."""

_ERROR_LEVELS: Final = frozenset({"error", "err", "fatal", "critical", "panic", "emergency", "alert", "severe"})
_ERROR_NUMBER: Final = 50
"""The level of errors in JSON lines with numbers."""
_LEVEL_KEYS: Final = ("level", "severity", "lvl", "levelname", "log.level")
_MESSAGE_KEYS: Final = ("message", "msg", "event", "detail", "title")
_ERROR_KEYS: Final = ("error", "err", "exception", "exc_info")
_CUT_JSON: Final = re.compile(r'"(?:message|error|detail|title|msg)"\s*:\s*"((?:[^"\\]|\\.){1,400})')
_HTML_TITLE: Final = re.compile(r"<title[^>]{0,100}>([^<]{1,400})", re.IGNORECASE)
INVISIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and the ends of lines, and those that reverse the direction of text: `exe.png` must
not read `gnp.exe`."""

_SPELLED: Final = {code: f"\\u{code:04x}" for code in range(0x2070) if INVISIBLE.match(chr(code))}
"""A call for each of a million such characters would take seconds, and a stranger may send them."""
_BREAKS: Final = re.compile(r"[\t\n\r\u2028\u2029]+")


class _OutputLine(NamedTuple):
    """A line of an output."""

    text: str
    is_error: bool


def cause_line(error: str | None) -> str:
    """The cause by the text of an error, one line; empty: the text is empty."""
    text = (error or "").strip()
    ended, answered = _ENDED.match(text), _ANSWERED.match(text)
    how = ended or answered
    begin = "" if how is None else how[0]
    rest = _COLOURS.sub("", text[len(begin) :][-READ_CHARACTERS:])
    lines = [line for each in rest.splitlines() if (line := each.rstrip())]
    if not lines:
        return begin.removesuffix(": ")
    found = _exception(lines)
    if found is None:
        found = _of_answer(rest, lines) if answered else _of_output(lines) if ended else lines[0]
    return begin + found.strip()


def both_ends(error: str, characters_most: int) -> str:
    """An error of at most so many characters: of a longer one its begin, a line `…`, and its end, where the cause is.
    `tickwise.error_ends` is its twin in the database."""
    if len(error) <= characters_most:
        return error
    return f"{error[:ENDS_BEGIN_CHARACTERS]}\n…\n{error[ENDS_BEGIN_CHARACTERS + 3 - characters_most :]}"


# ---------------------------------------------------------------------------------------------------------- stacks


def _exception(lines: Sequence[str]) -> str | None:
    """The exception of the last stack; None: there is none."""
    return _of_python(lines) or _of_frames(lines) or _of_panic(lines)


def _of_python(lines: Sequence[str]) -> str | None:
    """The first line after the frames that is no part of them: notes and further lines of a message come after it."""
    frames = [at for at, line in enumerate(lines) if _PYTHON_FRAME.match(line) or _PYTHON_STACK in line]
    if not frames:
        return None
    # The margin of the first line is not kept.
    groups = [(at, found[1] if at else "  ") for at in frames if (found := _PYTHON_GROUP.fullmatch(lines[at]))]
    if groups and not any(lines[at].startswith(_PYTHON_STACK) for at in frames if at > groups[-1][0]):
        least = min(margin for _, margin in groups)
        return _of_group(lines[max(at for at, margin in groups if margin == least) :], least)
    is_in_bars = "|" in lines[frames[-1]].partition("File ")[0]
    for line in lines[frames[-1] + 1 :]:
        if not line[0].isspace():
            return line
        if is_in_bars and (said := _IN_BARS.fullmatch(line)) is not None:
            return said[2]
    return None


def _of_group(lines: Sequence[str], margin: str) -> str | None:
    """The exception of a group, and the first one in it that is no group."""
    said = [found for line in lines if (found := _IN_BARS.fullmatch(line)) is not None]
    own = next((found[2] for found in said if found[1] == margin), None)
    within = (found[2] for found in said if len(found[1]) > len(margin))
    first = next((each for each in within if _PYTHON_STACK not in each and not _OF_GROUP.search(each)), None)
    return own if own is None or first is None else f"{own}: {first}"


def _of_frames(lines: Sequence[str]) -> str | None:
    """The line over the last frames, as Java, Node and Ruby write them: of causes the last one is the first cause."""
    heads = []
    begin = 0
    for at, line in enumerate(lines):
        if not _FRAME.match(line):
            continue
        if at > begin:
            head = _head(lines[begin:at])
            if not head.startswith("Suppressed:"):
                heads.append(head)
        begin = at + 1
    if not heads:
        return None
    called = _CALLED.match(heads[-1])
    return heads[-1][called.end() :] if called else heads[-1]


def _head(over: Sequence[str]) -> str:
    """Of the lines over frames the one that names the exception, for a message may have several."""
    named = (line.strip() for line in reversed(over))
    return next((line for line in named if _CALLED.match(line) or _EXCEPTION.match(line)), over[-1].strip())


def _of_panic(lines: Sequence[str]) -> str | None:
    """Go, and Rust, which has the message in the next line."""
    for at in reversed(range(len(lines))):
        line = lines[at]
        if _PANIC.match(line):
            return line
        if _RUST_PANIC.match(line):
            return f"{line} {lines[at + 1].strip()}" if line.endswith(":") and at + 1 < len(lines) else line
    return None


# ---------------------------------------------------------------------------------------------------------- lines


def _of_output(lines: Sequence[str]) -> str:
    told = [_told(line) for line in lines]
    useful = [line for line in told if not _TRAILER.match(line.text)] or told
    errors = [line for line in useful if line.is_error]
    at_margin = [line for line in useful if not line.text[0].isspace()]
    return (errors or at_margin or useful)[-1].text


def _told(line: str) -> _OutputLine:
    said = _object(line)
    if said is not None and (message := ": ".join(_messages(said))):
        return _OutputLine(message, _is_error(said))
    return _OutputLine(line, bool(_ERROR.search(line) or _EXCEPTION.match(line)))


def _of_answer(body: str, lines: Sequence[str]) -> str:
    """The message of an answer to a request: of JSON, of HTML, or its first line."""
    said = _object(body.strip())
    if said is not None and (message := ": ".join(_messages(said))):
        return message
    found = {"{": _CUT_JSON, "<": _HTML_TITLE}.get(lines[0].lstrip()[0])
    title = None if found is None else found.search(body)
    return lines[0] if title is None else " ".join(title[1].split())


def _object(text: str) -> dict[str, Any] | None:
    """The object of a text that is JSON."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _messages(said: dict[str, Any]) -> Iterator[str]:
    """The message of an object, and the error in it."""
    for keys in (_MESSAGE_KEYS, _ERROR_KEYS):
        for key in keys:
            value = said.get(key)
            if isinstance(value, dict):
                value = next((each for name in _MESSAGE_KEYS if isinstance(each := value.get(name), str)), None)
            lines = value.splitlines() if isinstance(value, str) else []
            if lines := [line for line in lines if line.strip()]:
                yield (_exception(lines) or lines[0]).strip()
                break


def _is_error(said: dict[str, Any]) -> bool:
    levels = [said[key] for key in _LEVEL_KEYS if key in said]
    named = any(isinstance(level, str) and level.lower() in _ERROR_LEVELS for level in levels)
    numbered = any(isinstance(level, int) and level >= _ERROR_NUMBER for level in levels)
    return named or numbered or any(said.get(key) for key in _ERROR_KEYS)


# ---------------------------------------------------------------------------------------------------------- any text


def spelled(text: str) -> str:
    """The text with each such character as `\\u202e`."""
    return text.translate(_SPELLED) if INVISIBLE.search(text) else text


def one_line(text: str, characters_most: int) -> str:
    """The text as one line that is no longer than that; an end of a line becomes a space."""
    line = spelled(_BREAKS.sub(" ", text[: characters_most + 1])).strip()
    return line if len(line) <= characters_most else line[: characters_most - 1] + "…"
