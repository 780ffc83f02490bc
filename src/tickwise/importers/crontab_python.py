"""The Python of a crontab's command: the places where a line names an interpreter, and another one in its place.

    cd /srv && nice python3 report.py >>log   ──► cd /srv && nice /srv/.venv/bin/python report.py >>log
    /srv/bin/report.py --day 1                ──► /srv/.venv/bin/python /srv/bin/report.py --day 1

A line is read as a shell reads it, as far as quotes, separators and redirections go. A text inside of quotes, which
another shell may read (`bash -c '…'`), is left as it is. Everything here is linear in the length of the line.
"""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""(?P<redirect>&>>?|\d*(?:<<<|<<-?|>>|>&|<&|>\||<>|[<>]))"""
    r"""|(?P<end>[;|&()`\n])"""
    r"""|(?P<word>(?:'[^']*'|"(?:[^"\\]|\\[\s\S])*"|\\[\s\S]|[^\s;|&()<>`'"\\])+)"""
    r"""|[\s\S]"""
)
_PYTHON: Final = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?", re.ASCII)
_SCRIPT: Final = ".py"
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_BEGINNING: Final = frozenset({"{", "!", "if", "then", "elif", "else", "while", "until", "do"})
"""Words of a shell behind which a command begins."""
_CARRIERS: Final = {
    "sudo": ("-u", "-g", "-p", "-h", "-U", "-C"), "nice": ("-n",), "ionice": ("-c", "-n"), "timeout": ("-k", "-s"),
    "flock": ("-w", "-E"), "env": ("-u", "-C"), "exec": ("-a",), "time": ("-o", "-f"), "nohup": (), "setsid": (),
    "chronic": (), "command": (),
}  # fmt: skip
"""Programs that start another one, and their options that have a value."""


class PythonLine(NamedTuple):
    """A command with another interpreter."""

    text: str
    replaced: tuple[str, ...]
    """The interpreters that stood there, and the first lines of scripts that were started as programs. Empty: the line
    starts no Python."""


def with_python(text: str, python: str) -> PythonLine:
    """The command with `python`, as a shell reads it, in place of each interpreter that it names, and before each
    script that it starts as a program."""
    parts: list[str] = []
    replaced: list[str] = []
    reader = _LineReader()
    for token in _TOKEN.finditer(text):
        word = token["word"]
        if word is None:
            reader.pass_sign(token)
            parts.append(token[0])
        elif (program := reader.program(word)) is None:
            parts.append(word)
        elif _PYTHON.fullmatch(program.rpartition("/")[2]):
            parts.append(python)
            replaced.append(program)
        elif program.endswith(_SCRIPT):
            parts.append(f"{python} {word}")
            replaced.append(f"the first line of {program}")
        else:
            parts.append(word)
    return PythonLine("".join(parts), tuple(dict.fromkeys(replaced)))


class _LineReader:
    """The place in a line: whether the next word is a program."""

    def __init__(self) -> None:
        self._begin()
        self._is_target = False
        """The next word is the file of a redirection."""

    def _begin(self) -> None:
        self._awaits_program = True
        self._carrier = ""
        self._awaits_value = False
        self._awaits_lock = False

    def pass_sign(self, token: re.Match[str]) -> None:
        """Read on over a separator, a redirection or a blank."""
        if token["redirect"] is not None:
            self._is_target = True
        elif token["end"] is not None:
            self._begin()

    def program(self, word: str) -> str | None:
        """The program that this word starts, without its quotes; None: it starts none."""
        if self._is_target:
            self._is_target = False
            return None
        if not self._awaits_program or _ASSIGNMENT.match(word) or word in _BEGINNING:
            return None
        if self._carrier and self._is_of_carrier(word):
            return None
        name = _unquoted(word)
        if name.rpartition("/")[2] in _CARRIERS:
            self._carrier = name.rpartition("/")[2]
            self._awaits_lock = self._carrier == "flock"
            return None
        self._awaits_program = False
        return name

    def _is_of_carrier(self, word: str) -> bool:
        """Check whether the word is an option of the program that starts another one, or the value of one."""
        if self._awaits_value:
            self._awaits_value = False
            return True
        if word.startswith("-"):
            self._awaits_value = word in _CARRIERS[self._carrier]
            return True
        if self._awaits_lock:
            self._awaits_lock = False
            return True
        return word[:1].isdecimal()


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word
