"""Many jobs in one body: a JSON array, `{"jobs": […]}`, or one job a line (NDJSON). A bad one spoils no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

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


def job_body(body: bytes | msgspec.Raw) -> JobBody:
    """One job. Raises `Malformed` and `Invalid`."""
    job = read(_job, body, JOB_FIELDS)
    refuse_repeated_in_job(bytes(body), job)
    return job


def job_parts(body: bytes, media: bytes) -> Sequence[bytes | msgspec.Raw]:
    """The texts of the jobs of a batch. Raises `Malformed`, `TooLarge`."""
    parts: Sequence[bytes | msgspec.Raw]
    if media in LINES_TYPES:
        parts = [line for line in body.split(b"\n") if line.strip()]
    elif body.lstrip()[:1] == b"{":
        parts = read(_object, body, ("jobs",)).jobs
        if body.count(b'"') - sum(bytes(part).count(b'"') for part in parts) != QUOTES_OF_ONE_NAME:
            raise Invalid("jobs is written twice; send it once", pointer="/jobs", code="field_repeated")
    else:
        parts = [*read(_array, body)]
    count = len(parts)
    if count > JOBS_MAX:
        raise TooLarge(f"a batch takes up to {JOBS_MAX} jobs, this one has {count}; send several")
    if count == 0:
        raise Invalid("the batch is empty; send at least one job", pointer="")
    return parts


async def job_bodies(body: bytes, media: bytes, clock: Clock) -> list[JobBody | Refused]:
    """Each job of a batch, or why it is none. Raises `Malformed` for a body that has no parts, `TooLarge`."""
    parts = job_parts(body, media)
    found: list[JobBody | Refused] = []
    turns = Turns(clock, items=ITEMS)
    refused = 0
    for part in parts:
        if turns.is_over(len(bytes(part))):
            await turns.give()
        try:
            found.append(job_body(part))
        except Refused as refusal:
            found.append(refusal)
            refused += 1
            if refused % REFUSALS == 0:
                await turns.give()
    return found
