"""Many jobs in one body: a JSON array, `{"jobs": […]}`, or one job a line (NDJSON). A bad one spoils no other.

Two faults refuse the whole body: more jobs than a batch takes, and one that is larger than a job may be. To split an
array takes time and memory for each of its parts, and a body of 32 MB may have ten million. So a body with very many
commas is first walked part by part, in turns, until there are too many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tickwise.api.problems import MalformedAt
from tickwise.api.reading import JSON_TYPES, field_names, read
from tickwise.api.repeats import refuse_repeated_in_job
from tickwise.control.bodies import JobBody
from tickwise.control.turns import Turns
from tickwise.domain.errors import Invalid, Refused, TooLarge
from tickwise.ports.clock import Clock

JOBS_MAX: Final = 10_000
LINES_TYPES: Final = frozenset({b"application/x-ndjson", b"application/ndjson", b"application/jsonl"})
BATCH_TYPES: Final = JSON_TYPES | LINES_TYPES
ITEMS: Final = 500
"""After so many jobs, or so many bytes, others get a turn: reading a usual job takes about 2 µs."""

REFUSALS: Final = 4
"""After so many refused jobs others get a turn: to say what is wrong with one takes up to 2 ms."""
COMMAS_MAX: Final = 200_000
"""Ten thousand jobs of twenty members. An array with so many commas is split at once: it takes up to 20 ms."""
LINES_MAX: Final = 10 * JOBS_MAX
"""With empty lines, each of which takes memory while a body is split."""
WINDOW_BYTES: Final = 4 << 10
"""Most jobs are smaller, so one look finds their end."""
REST_BYTES_MAX: Final = 64 << 10
"""Blanks and a brace that may follow the array of a batch object."""
_BLANKS: Final = re.compile(rb"[ \n\r\t]*+")
QUOTES_OF_ONE_NAME: Final = 2
"""The members of a batch object beside its jobs."""

JOB_FIELDS: Final = field_names(JobBody)


_Job = Annotated[msgspec.Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/JobBody"})]
"""Read one by one, so that a bad one spoils no other."""


class JobsBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A batch as an object."""

    jobs: Annotated[list[_Job], Meta(extra_json_schema={"minItems": 1, "maxItems": JOBS_MAX})]


_job: Final = msgspec.json.Decoder(JobBody)
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])
_object: Final = msgspec.json.Decoder(JobsBody)
_raw: Final = msgspec.json.Decoder(msgspec.Raw)
_walker: Final = json.JSONDecoder(parse_int=len, parse_float=len, strict=False)
"""Finds the end of a part. The values are of no use, and numbers are not looked at: see `api.repeats`."""


def job_body(body: bytes | msgspec.Raw) -> JobBody:
    """One job. Raises `Malformed` and `Invalid`."""
    job = read(_job, body, JOB_FIELDS)
    refuse_repeated_in_job(bytes(body), job)
    return job


def job_parts(body: bytes, media: bytes) -> Sequence[bytes | msgspec.Raw]:
    """The texts of the jobs of a batch. Raises `Malformed`, `TooLarge`."""
    parts: Sequence[bytes | msgspec.Raw]
    if media in LINES_TYPES:
        parts = _lines(body)
    elif _is_object(body):
        parts = _members_of_batch(body)
    else:
        parts = [*read(_array, body)]
    if len(parts) > JOBS_MAX:
        raise _too_many(len(parts))
    if not parts:
        raise Invalid("the batch is empty; send at least one job", pointer="")
    return parts


def _is_object(body: bytes) -> bool:
    return body[:1] == b"{" or body.lstrip()[:1] == b"{"


def _lines(body: bytes) -> list[bytes]:
    """One job a line, without the empty ones."""
    if body.count(b"\n") > LINES_MAX:
        raise TooLarge(f"a batch takes up to {LINES_MAX} lines, empty ones too; send several")
    return [line for line in body.split(b"\n") if line.strip()]


def _members_of_batch(body: bytes) -> Sequence[msgspec.Raw]:
    """The jobs of a batch that is an object."""
    found = read(_object, body, ("jobs",)).jobs
    if body.count(b'"') - sum(bytes(part).count(b'"') for part in found) != QUOTES_OF_ONE_NAME:
        raise Invalid("jobs is written twice; send it once", pointer="/jobs", code="field_repeated")
    return found


# ------------------------------------------------------------------------------------------ very many parts


async def check_parts(body: bytes, job_bytes_max: int, turns: Turns) -> None:
    """Refuse an array that would take too long to split. Raises `TooLarge`, and `Invalid` for a second member beside
    the array; other faults are left to the reader, who comes no further than this."""
    place = _next(body, body.find(b"[") + 1)
    for count in range(JOBS_MAX + 1):
        if body[place : place + 1] == b"]":
            break
        end = _end_of_part(body, place, count, job_bytes_max)
        if end is None:
            return
        if turns.is_over(end - place):
            await turns.give()
        place = _next(body, end)
        if body[place : place + 1] == b",":
            place = _next(body, place + 1)
    else:
        raise _too_many()
    if _is_object(body) and len(body) - place > REST_BYTES_MAX:
        raise Invalid("send nothing beside jobs, and jobs once", pointer="")


def _next(body: bytes, place: int) -> int:
    """The place of the next character that is no blank."""
    return _BLANKS.match(body, place).end()  # type: ignore[union-attr]  # it matches nothing, too


def _end_of_part(body: bytes, start: int, count: int, job_bytes_max: int) -> int | None:
    """The end of the JSON value that starts here; None for what is no JSON. Raises `TooLarge`.

    It is looked for in a window that grows, so that no step takes longer than to read one job. The window is read as
    Latin-1, which has one character for each byte: the structure of JSON is ASCII.
    """
    size = WINDOW_BYTES
    while True:
        window = body[start : start + size]
        is_last = start + size >= len(body)
        try:
            end = _walker.raw_decode(window.decode("latin-1"))[1]
        except RecursionError:
            raise MalformedAt("the body is nested too deeply", start) from None
        except ValueError:
            if is_last or not _is_cut(window):
                return None
        else:
            # A number that reaches the end of the window may go on behind it.
            if is_last or end < len(window):
                if end > job_bytes_max:
                    raise _job_too_large(count, job_bytes_max)
                return start + end
        if size > job_bytes_max:
            raise _job_too_large(count, job_bytes_max)
        size = min(8 * size, job_bytes_max + 1)


def _is_cut(text: bytes) -> bool:
    """Check whether a value ends too early, and has no other fault."""
    try:
        _raw.decode(text)
    except (ValueError, RecursionError) as failure:
        return "truncated" in str(failure)
    return False


def _too_many(count: int | None = None) -> TooLarge:
    there = "more" if count is None else str(count)
    return TooLarge(f"a batch takes up to {JOBS_MAX} jobs, this one has {there}; send several")


def _job_too_large(place: int, most: int) -> TooLarge:
    return TooLarge(f"the job at /{place} has more than {most} bytes; a job takes up to so many. No job was stored")


# ------------------------------------------------------------------------------------------ one by one


async def job_bodies(body: bytes, media: bytes, clock: Clock, job_bytes_max: int) -> list[JobBody | Refused]:
    """Each job of a batch, or why it is none. Raises `Malformed` for a body that has no parts, `TooLarge`."""
    turns = Turns(clock, items=ITEMS)
    if body.count(b",") > COMMAS_MAX and media not in LINES_TYPES:
        await check_parts(body, job_bytes_max, turns)
    parts = job_parts(body, media)
    found: list[JobBody | Refused] = []
    refused = 0
    for place, part in enumerate(parts):
        size = len(bytes(part))
        if size > job_bytes_max:
            raise _job_too_large(place, job_bytes_max)
        if turns.is_over(size):
            await turns.give()
        try:
            found.append(job_body(part))
        except Refused as refusal:
            found.append(refusal)
            refused += 1
            if refused % REFUSALS == 0:
                await turns.give()
    return found
