"""Short ids: the last characters of an id, as lists show them.

jobs, runs ──► the server looks among what is live and the last day
the rest   ──► the newest of their list, of which there are few
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tickwise.cli.failures import CommandFailure, Exit, safe

if TYPE_CHECKING:
    from tickwise.cli.session import Session

Json = dict[str, Any]

MAX_LISTED: Final = 500
"""Things of a list among which a short id is looked for."""
MAX_SHOWN: Final = 10
_ENDING = re.compile(r"[0-9a-f-]{4,35}", re.ASCII)


def is_id(text: str) -> bool:
    """Check whether the text is a whole id."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def is_ending(text: str) -> bool:
    """Check whether the text can be the end of an id."""
    return _ENDING.fullmatch(text.lower()) is not None


def found_by_ending(session: Session, path: str, text: str) -> list[Json]:
    """The jobs or runs (`path`) whose ids end with the text."""
    if not is_ending(text):
        return []
    query = {"id_end": text.lower(), "limit": MAX_SHOWN + 1}
    found: list[Json] = session.client.request("GET", path, query=query).body
    return found


def listed_id(session: Session, path: str, field: str, text: str, **query: Any) -> str:
    """The whole id of a thing of a list that is named by its id or the end of it. A text that is neither is given
    back, for the server to refuse. Raises `CommandFailure` if several are meant."""
    if is_id(text) or not is_ending(text):
        return text
    answer = session.client.request("GET", path, query={"limit": MAX_LISTED, **query})
    found = [each for each in answer.body if each[field].endswith(text.lower())]
    if len(found) > 1:
        raise several(text, found, lambda each: each[field])
    return str(found[0][field]) if found else text


def several(text: str, found: Sequence[Json], shown: Callable[[Json], str]) -> CommandFailure:
    """The refusal of a word that means several things, with all of them."""
    lines = [f"  {safe(shown(each))}" for each in found[:MAX_SHOWN]]
    more = ["  …"] if len(found) > MAX_SHOWN else []
    return CommandFailure(f"{text!r} means several; name one by its id.", Exit.USAGE, advice="\n".join([*lines, *more]))
