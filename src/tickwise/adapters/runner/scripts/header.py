"""Reads the header by which a script declares its environment (PEP 723).

    # /// script
    # requires-python = ">=3.12"
    # dependencies = ["requests<3"]
    # ///

Of the table `[tool.uv]` a header with dependencies may have `exclude-newer` alone: the index and the sources of
packages are settings of the executor, and a header that says otherwise would get other packages than it asks for.

Invariant: reading a source takes time that grows with its length and no faster; the specification's own regular
expression takes a square of it. A fault is told with its line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tickwise.domain.errors import Invalid

MAX_HEADER_CHARACTERS: Final = 4_096
"""A longer header is refused unread: `tomllib` takes 40 ms for the worst of this size, and four times as much for the
double."""

_BEGIN: Final = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END: Final = "# ///"
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)")


class Block(NamedTuple):
    """A block of comments that is closed."""

    kind: str
    content: str
    line: int
    """The line of its beginning in the script, from 1."""


class Header(NamedTuple):
    """The environment that a header asks for."""

    dependencies: tuple[str, ...] = ()
    python: str = ""
    """`requires-python`."""
    exclude_newer: str = ""


NO_HEADER: Final = Header()


def header_of(source: str) -> Header:
    """The header of a script; an empty one if it has none. Raises `Invalid` with the line of the fault."""
    if "# /// script" not in source:
        return NO_HEADER
    headers = [block for block in blocks(source) if block.kind == "script"]
    if not headers:
        return NO_HEADER
    if len(headers) > 1:
        raise refusal("the script has two headers `# /// script`; leave one", headers[1].line)
    block = headers[0]
    fields = _fields(block)
    dependencies = _dependencies(fields.get("dependencies", []), block)
    newest = _exclude_newer(fields.get("tool", {}), block) if dependencies else ""
    return Header(dependencies, _python(fields.get("requires-python", ""), block), newest)


def blocks(source: str) -> list[Block]:
    """Each block that is closed, as PEP 723 defines them."""
    lines = source.replace("\r\n", "\n").split("\n")
    found: list[Block] = []
    place = 0
    while place < len(lines):
        begin = _BEGIN.fullmatch(lines[place])
        if begin is None:
            place += 1
            continue
        first = place + 1
        after = first
        end = None
        while after < len(lines) and (lines[after] == "#" or lines[after].startswith("# ")):
            if lines[after] == _END:
                end = after
            after += 1
        if end is not None:
            found.append(Block(begin[1], "\n".join(line[2:] for line in lines[first:end]), first))
        # A later beginning among these comments has no end after it either.
        place = after
    return found


def check_requirement(text: str) -> str | None:
    """The fault of a requirement such as `requests<3` (PEP 508); None: it has none."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement as error:
        return str(error).split("\n", 1)[0][:200]
    except RecursionError:
        return "it is nested too deeply"
    return None


def refusal(why: str, line: int | None = None, *, pointer: str = "/source") -> Invalid:
    """The refusal of a declaration, with the line of the script or the file that it is in."""
    place = "" if line is None else f" (line {line})"
    return Invalid(f"{why}{place}", pointer=pointer, code="environment_invalid")


def _fields(block: Block) -> dict[str, Any]:
    import tomllib  # only for the few scripts that have a header

    if len(block.content) > MAX_HEADER_CHARACTERS:
        raise refusal(f"the script's header has more than {MAX_HEADER_CHARACTERS} characters", block.line)
    try:
        return tomllib.loads(block.content)
    except (ValueError, RecursionError) as error:
        said = str(error)[:200]
        place = _PLACE.search(said)
        last = block.content.count("\n") + 1
        line = block.line if place is None else block.line + int(place[1] or last)
        why = _PLACE.sub("", said)
        raise refusal(f"the script's header `# /// script` is not valid TOML: {why}", line) from None


def _dependencies(wanted: object, block: Block) -> tuple[str, ...]:
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise refusal(
            '`dependencies` in the script\'s header must be an array of texts, as in ["requests<3"]', block.line
        )
    names: Sequence[str] = wanted
    for name in names:
        fault = "it has a line break" if "\n" in name or "\r" in name else check_requirement(name)
        if fault is not None:
            raise refusal(
                f"the dependency {name[:50]!r} in the script's header cannot be read: {fault}", _line_of(name, block)
            )
    return tuple(names)


def _line_of(text: str, block: Block) -> int:
    """The line of the script in which the text stands; that of the header if it is written otherwise."""
    lines = block.content.split("\n")
    return next((block.line + at for at, line in enumerate(lines, 1) if text in line), block.line)


def _python(wanted: object, block: Block) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if not isinstance(wanted, str):
        raise refusal("`requires-python` in the script's header must be a text such as `>=3.11`", block.line)
    try:
        SpecifierSet(wanted)
    except InvalidSpecifier:
        raise refusal(
            f"`requires-python` in the script's header is {wanted[:50]!r}; write it such as `>=3.11`",
            _line_of("requires-python", block),
        ) from None
    return wanted


def _exclude_newer(tool: object, block: Block) -> str:
    settings = tool.get("uv", {}) if isinstance(tool, dict) else None
    if not isinstance(settings, dict):
        raise refusal("`[tool.uv]` in the script's header must be a table", block.line)
    others = sorted(str(name) for name in settings if name != "exclude-newer")
    if others:
        raise refusal(
            f"`{others[0][:50]}` of `[tool.uv]` in the script's header has no effect here: the index and the sources "
            "of packages are settings of the executor. Take it out, or write an address into the dependency "
            "(`name @ https://…`)",
            _line_of(others[0], block),
        )
    newest = settings.get("exclude-newer", "")
    return newest if isinstance(newest, str) else str(newest)
