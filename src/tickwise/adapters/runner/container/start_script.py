"""The start of a task by the shell of its image: variables, small files, and the program, said to its standard input.

    /bin/sh -s  ◄── { NAME='value'; export NAME; …; printf '%s' '…' >file; exec 'program' 'argument'; }

Values of secrets come this way alone: they are in no argument, in no file, and not in what the engine shows of a
container. A container of the warm pool gets its whole task so.

Invariant: the script is one group in braces. A shell runs none of it before it has read the last brace, so a connection
that breaks starts no half of a task. A shell that got nothing ends well, so each start makes a file: without it, the
task never began.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

SHELL: Final = "/bin/sh"
SHELL_READS: Final = (SHELL, "-s")
MAX_SPOKEN_FILE: Final = 64 << 10
"""A larger file comes in an archive: shells read their input slowly."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN: Final = frozenset({
    "BASHOPTS", "BASHPID", "BASH_VERSINFO", "EUID", "GROUPS", "IFS", "LINENO", "OLDPWD", "OPTARG", "OPTIND", "PPID",
    "PWD", "RANDOM", "SECONDS", "SHELLOPTS", "SHLVL", "UID", "_",
})  # fmt: skip
"""Variables that a shell sets itself, or lets nobody set."""


def is_sayable(name: str) -> bool:
    """Check whether a shell can set a variable of this name."""
    return _NAME.fullmatch(name) is not None and name not in _SHELLS_OWN


def is_small(content: bytes) -> bool:
    """Check whether a file can be said."""
    return len(content) <= MAX_SPOKEN_FILE and b"\0" not in content


def start_script(
    variables: Mapping[str, bytes], files: Mapping[str, bytes], program: Sequence[str], *, folder: str | None = None
) -> bytes:
    """The script. `files`: by their whole paths, in folders that are there; `program`: with its arguments; `folder`:
    the current one of the program."""
    lines = [b"{"]
    for name, value in variables.items():
        lines.append(b"%b=%b; export %b" % (name.encode(), quoted(value), name.encode()))
    lines += [b"printf %%s %b >%b" % (quoted(content), quoted(path.encode())) for path, content in files.items()]
    if folder is not None:
        lines.append(b"cd %b" % quoted(folder.encode()))
    lines.append(b"exec " + b" ".join(quoted(word.encode()) for word in program))
    return b"\n".join((*lines, b"}", b""))


def quoted(text: bytes) -> bytes:
    """A text as one word of a shell."""
    return b"'" + text.replace(b"'", b"'\\''") + b"'"
