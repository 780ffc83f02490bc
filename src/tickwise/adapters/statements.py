"""SQL statements by name, read from the `.sql` files of a package.

`<part>.sql` beside `<part>.py` holds the statements of that part. A statement of more than 25 lines has a file of its
own, `sql/<name>.sql`. Each statement begins with its name, its purpose and its parameters:

    -- name: key_find
    -- The good key with the digest $1.
    SELECT …

A number with a meaning is named in braces, `{RunState.RUNNING}`, and stands in the text that the server gets.

`aiosql` reads the same notation; it also turns statements into methods and rewrites their parameters, which this
package does not need.

Invariant: the text of a statement is constant and has no leading comment, so a session prepares it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from tickwise.domain.errors import Bug

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NUMBER = re.compile(r"\{([A-Z]\w*\.[A-Z_]+)\}")
_MIGRATIONS = "migrations"


class Statements:
    """The statements of a package and of the packages in it. Migrations are no statements."""

    def __init__(
        self, package: Path, numbers: Mapping[str, int] = MappingProxyType({}), *, suffix: str = ".sql"
    ) -> None:
        """Read nothing yet. `numbers` are those that statements name; `suffix` is that of their files."""
        self._package = package
        self._numbers = numbers
        self._suffix = suffix

    def __call__(self, name: str) -> str:
        """The text of a statement. Raises `Bug` for an unknown name."""
        try:
            return self.texts[name]
        except KeyError:
            raise Bug(f"no {self._suffix} file below {self._package} has a statement '-- name: {name}'") from None

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """All statements, by name. Raises `Bug` for a name that stands twice, no name, and a number of no enum."""
        found: dict[str, str] = {}
        for file in self.files():
            for name, text in parsed(file):
                if name in found:
                    raise Bug(f"{file}: another statement is named {name!r} too")
                found[name] = self._numbered(text, file)
        return found

    def files(self) -> list[Path]:
        """The files with statements, in a fixed order."""
        return sorted(file for file in self._package.rglob(f"*{self._suffix}") if _MIGRATIONS not in file.parts)

    def _numbered(self, text: str, file: Path) -> str:
        def number(named: re.Match[str]) -> str:
            try:
                return str(self._numbers[named[1]])
            except KeyError:
                raise Bug(f"{file}: no number is named {named[0]}") from None

        return _NUMBER.sub(number, text)


def parsed(file: Path) -> Iterator[tuple[str, str]]:
    """Names and texts of the statements in a file. Raises `Bug`."""
    before, *blocks = _NAME.split(file.read_text(encoding="utf-8"))
    if before.strip():
        raise Bug(f"{file}: a statement has no name: begin it with '-- name: …'")
    for name, block in zip(blocks[::2], blocks[1::2], strict=True):
        yield name, _without_leading_comment(block)


def _without_leading_comment(block: str) -> str:
    lines = block.splitlines()
    while lines and lines[0].startswith("--"):
        lines.pop(0)
    return "\n".join(lines).strip()
