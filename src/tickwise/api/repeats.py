"""Members of an object that are written twice: refused, because readers disagree about which one counts.

msgspec keeps the last one and does not tell. To look for them takes several times as long as to read a body, so they
are ruled out by counting, in two ways: an object has as many members as it has `":`, unless one of them is written
twice, a text holds these characters too, or a blank stands between them; and it always has as many members as it has
colons outside of texts, unless one of them is written twice. Only where the second count differs too, which means that
a member is repeated, is the body read with care for its place.

A caller may write a body so that each step takes its longest, so each is bounded: counting takes up to 0.15 s for a
megabyte. To find the place of a member takes several times as long, so that is done for small bodies only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.domain.errors import Invalid

_MEMBER: Final = b'":'
_BLANKS: Final = (0x20, 0x0A, 0x0D, 0x09)
_APART: Final = re.compile(rb'"[ \n\r\t]+:')
"""Between a name and its colon there may be blanks; such a body is not counted."""
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TASK_BYTES_REMEMBERED: Final = 4_096
POINTED_BYTES_MAX: Final = 64 << 10
"""In a larger body the member is named, and not pointed at."""

_read = msgspec.json.Decoder().decode
_fields_of = msgspec.structs.astuple
_JOB_FIELDS: Final = len(JobBody.__struct_fields__)


def refuse_repeated(body: bytes) -> None:
    """Raise `Invalid` for a member that is written twice, at any depth. A text that is no JSON is left to others to
    refuse."""
    if _count(body) >= 0 or _is_each_member_once(body):
        return
    if len(body) <= POINTED_BYTES_MAX:
        found = _repeated(body)
        name = None if found is None else found.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    else:
        found, name = "", _name_repeated(body)
    if name is not None:
        detail = f"{name[:100]!r} is written twice in one object; send it once"
        raise Invalid(detail, pointer=found, code="field_repeated")


def refuse_repeated_in_job(body: bytes, job: JobBody) -> None:
    """Refuse a repeated member in a job, the hottest body. A full check costs as much as decoding, so most bodies are
    cleared by counting the decoded fields, and tasks by remembering the few that come again and again."""
    within = 0 if job.task is UNSET else _task_count(bytes(job.task))
    # A single member of a payload is not there twice.
    below = 0 if job.payload is UNSET else bytes(job.payload).count(_MEMBER)
    sent = _JOB_FIELDS - _fields_of(job).count(UNSET)
    if within < 0 or below > 1 or body.count(_MEMBER) != within + below + sent or not _is_countable(body):
        refuse_repeated(body)


def _task_count(task: bytes) -> int:
    return _remembered_count(task) if len(task) <= _TASK_BYTES_REMEMBERED else _count(task)


def _count(body: bytes) -> int:
    """The number of members; -1 if counting cannot tell that none is written twice."""
    try:
        found = body.count(_MEMBER)
        return found if _is_countable(body) and found == _members(_read(body)) else -1
    except (ValueError, RecursionError):
        return -1


def _is_each_member_once(body: bytes) -> bool:
    """Check whether a body has as many members as colons outside of its texts. False too for a text that is no JSON."""
    try:
        return _TEXT.sub(b"", body).count(b":") == _members(_read(body))
    except (ValueError, RecursionError):
        return False


_remembered_count = lru_cache(maxsize=1_024)(_count)


def _is_countable(body: bytes) -> bool:
    for blank in _BLANKS:
        if blank in body:
            return _APART.search(body) is None
    return True


def _members(value: Any) -> int:
    """The number of members of all objects within a value."""
    found = 0
    below = value
    if type(value) is dict:
        found, below = len(value), value.values()
    elif type(value) is not list:
        return 0
    for each in below:
        if type(each) is dict or type(each) is list:
            found += _members(each)
    return found


# ------------------------------------------------------------------------------------------ with care


class _Object(dict[str, Any]):
    """An object, and which of its members is written twice."""

    repeated: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    if len(found) != len(pairs):
        times = Counter(name for name, _ in pairs)
        found.repeated = next(name for name in times if times[name] > 1)
    return found


def _repeated(body: bytes) -> str | None:
    """The pointer to a member that is written twice."""
    try:
        # Numbers are not looked at: one of a million digits would take its time.
        return _place(json.loads(body, object_pairs_hook=_object, parse_int=len, parse_float=len))
    except (ValueError, RecursionError):
        # A part that was not read yet (a task, a payload) is no JSON, or too deep. Its reader refuses it.
        return None


class _WrittenTwice(Exception):
    """Ends the reading. Its argument is the member's name."""


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) != len(pairs):
        times = Counter(name for name, _ in pairs)
        raise _WrittenTwice(next(name for name in times if times[name] > 1))


def _name_repeated(body: bytes) -> str | None:
    """The name of the first member that is written twice."""
    try:
        json.loads(body, object_pairs_hook=_refuse_twice, parse_int=len, parse_float=len)
    except _WrittenTwice as found:
        return str(found)
    except (ValueError, RecursionError):
        return None  # as in `_repeated`
    return None


def _place(value: Any) -> str | None:
    """Depth first, without recursion: the body may be nested as deeply as it could be read."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        pointer, here = waiting.pop()
        if isinstance(here, _Object):
            if here.repeated is not None:
                return f"{pointer}/{_escaped(here.repeated)}"
            waiting += [(f"{pointer}/{_escaped(name)}", below) for name, below in here.items()]
        elif isinstance(here, list):
            waiting += [(f"{pointer}/{number}", below) for number, below in enumerate(here)]
    return None


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
