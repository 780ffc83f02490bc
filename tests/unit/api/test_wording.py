"""Refusals of bodies in words of people: what to write."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from tickwise.api.reading import decode
from tickwise.control.bodies import QUEUE_PATTERN, JobBody, Labels, Time
from tickwise.control.wording import PATTERNS
from tickwise.domain.errors import Invalid


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A body with each kind of field."""

    text: str | None = None
    seconds: Annotated[float, Meta(le=2_592_000.0)] = 0.0
    queue: Annotated[str, Meta(pattern=QUEUE_PATTERN)] = "a"
    labels: Labels = msgspec.field(default_factory=dict)
    way: Literal["password", "api_key"] = "password"
    at: Time | None = None


decoder = msgspec.json.Decoder(Body)


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (b'{"text": 3}', "/text", "write a text or null, not a whole number"),
        (b'{"seconds": 34560000}', "/seconds", "write a number of at most 2592000"),
        (b'{"queue": "a b"}', "/queue", f"write {PATTERNS[QUEUE_PATTERN]}"),
        (b'{"labels": {"ok": "x", "env/a": 1}}', "/labels/env~1a", "write a text, not a whole number"),
        (b'{"labels": {"": "x"}}', "/labels", "write a text of at least 1 character"),
        (b'{"way": "token"}', "/way", "invalid enum value 'token'; write one of password, api_key"),
        (b'{"at": "soon"}', "/at", "write a time as RFC 3339, such as 2027-09-25T10:00:00Z"),
    ],
)
def test_a_refusal_says_what_to_write_and_where(body: bytes, pointer: str, detail: str) -> None:
    """Without the words of a parser or a regular expression; of a mapping, the member."""
    with pytest.raises(Invalid) as refused:
        decode(decoder, body)
    assert (pointer, detail) == (refused.value.pointer, refused.value.detail)


def test_each_pattern_of_a_job_has_words() -> None:
    """So no regular expression is shown."""
    schema = str(msgspec.json.schema(JobBody)["$defs"]["JobBody"]["properties"]["queue"])
    assert "pattern" in schema
    assert QUEUE_PATTERN in PATTERNS
