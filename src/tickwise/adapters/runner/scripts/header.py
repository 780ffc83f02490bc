"""Reads the header of a script that asks for an environment of its own (PEP 723), and refuses a script that needs one:
environments are not supported yet.

    # /// script
    # requires-python = ">=3.12"
    # dependencies = ["requests"]
    # ///

Executors make no environments for scripts yet. A script that needs one is refused when it is submitted, because run
without one it would fail at three in the morning. Invariant: reading a source takes time that grows with its length and
no faster; the specification's own regular expression takes a square of it.
"""

from __future__ import annotations

import platform
import re
from typing import Any, Final

from tickwise.domain.errors import Invalid

MAX_HEADER_CHARACTERS: Final = 4_096
"""A longer header is refused unread: `tomllib` takes 40 ms for the worst of this size, and four times as much for the
double."""
NAMES_SHOWN: Final = 5

_BEGIN: Final = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END: Final = "# ///"


def check_header(source: str) -> None:
    """Raises `Invalid` for a script whose header asks for packages, or for another Python than this one."""
    if "# /// script" not in source:
        return
    headers = [content for kind, content in blocks(source) if kind == "script"]
    if not headers:
        return
    if len(headers) > 1:
        raise _refusal("it has two headers `# /// script`; leave one")
    fields = _fields(headers[0])
    wanted = fields.get("dependencies", [])
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise _refusal("`dependencies` in its header must be an array of texts")
    if wanted:
        names = ", ".join(name[:50] for name in wanted[:NAMES_SHOWN]) + (", …" if len(wanted) > NAMES_SHOWN else "")
        raise _refusal(
            f"its header asks for packages ({names}), and scripts get no environment of their own yet. Install them "
            "for the Python of the executors, and take `dependencies` out of the header"
        )
    _check_python(fields.get("requires-python", ""))


def blocks(source: str) -> list[tuple[str, str]]:
    """The kind and the content of each block that is closed, as PEP 723 defines them."""
    lines = source.replace("\r\n", "\n").split("\n")
    found: list[tuple[str, str]] = []
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
            found.append((begin[1], "\n".join(line[2:] for line in lines[first:end])))
        # A later beginning among these comments has no end after it either.
        place = after
    return found


def _fields(content: str) -> dict[str, Any]:
    import tomllib  # only for the few scripts that have a header

    if len(content) > MAX_HEADER_CHARACTERS:
        raise _refusal(f"its header has more than {MAX_HEADER_CHARACTERS} characters")
    try:
        return tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise _refusal(f"its header `# /// script` is not valid TOML: {str(error)[:200]}") from None


def _check_python(wanted: object) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if not isinstance(wanted, str):
        raise _refusal("`requires-python` in its header must be a text such as `>=3.11`")
    try:
        fits = SpecifierSet(wanted[:MAX_HEADER_CHARACTERS]).contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier:
        raise _refusal(f"`requires-python` in its header is {wanted[:50]!r}; write it such as `>=3.11`") from None
    if not fits:
        raise _refusal(
            f"its header requires Python {wanted[:50]}, and this is {platform.python_version()}; scripts get no "
            "interpreter of their own yet"
        )


def _refusal(why: str) -> Invalid:
    return Invalid(f"the script cannot run here: {why}", pointer="/source", code="script_needs_environment")
