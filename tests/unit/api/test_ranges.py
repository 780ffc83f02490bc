"""Parts of a file by `Range`: what RFC 9110 says of each case."""

from __future__ import annotations

import gzip

import pytest

from tickwise.api.conditions import tag_of
from tickwise.api.edge.ranges import ranged
from tickwise.api.endpoint import Reply
from tickwise.api.negotiation import encoded
from tickwise.api.problems import RangeNotSatisfiable, problem_of

FILE = bytes(range(256)) * 8
TAG = tag_of(FILE)


def answered(**headers: bytes) -> Reply:
    asked = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return ranged(asked, Reply(200, FILE, [], b"application/octet-stream"))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (b"bytes=0-0", 0, 1),
        (b"bytes=100-199", 100, 200),
        (b"Bytes= 100-199 ", 100, 200),
        (b"bytes=2000-", 2000, 2048),
        (b"bytes=2000-999999", 2000, 2048),
        (b"bytes=-48", 2000, 2048),
        (b"bytes=-999999", 0, 2048),
    ],
)
def test_a_range_is_answered_with_its_part(text: bytes, start: int, end: int) -> None:
    """206, the place of the part in the whole, and the tag of the whole."""
    part = answered(range=text)
    told = dict(part.headers)
    assert (206, FILE[start:end]) == (part.status, part.body)
    assert (b"bytes %d-%d/2048" % (start, end - 1), TAG) == (told[b"content-range"], told[b"etag"])


@pytest.mark.parametrize(
    "text",
    [
        b"bytes=",
        b"bytes=-",
        b"bytes=9-8",
        b"bytes=a-b",
        b"lines=1-2",
        b"bytes=0-1,4-5",
        b"bytes=" + b"9" * 40 + b"-",
        b"",
    ],
)
def test_what_is_no_single_range_is_answered_with_the_whole(text: bytes) -> None:
    """Several ranges, other units and nonsense are ignored."""
    whole = answered(range=text)
    assert (200, FILE, b"bytes") == (whole.status, whole.body, dict(whole.headers)[b"accept-ranges"])


@pytest.mark.parametrize("text", [b"bytes=2048-", b"bytes=5000-6000", b"bytes=-0"])
def test_a_range_that_the_file_does_not_have_is_416_with_its_size(text: bytes) -> None:
    """So that a client sees that it has all."""
    with pytest.raises(RangeNotSatisfiable) as refused:
        answered(range=text)
    problem, headers = problem_of(refused.value)
    assert (416, "range_not_satisfiable") == (problem.status, problem.code)
    assert (b"content-range", b"bytes */2048") in headers


def test_nothing_of_an_empty_file_can_be_asked_for() -> None:
    """It has no first byte."""
    with pytest.raises(RangeNotSatisfiable):
        ranged({b"range": b"bytes=0-"}, Reply(200, b"", [], b"application/octet-stream"))


@pytest.mark.parametrize(
    ("tag", "status"), [(TAG, 206), (b'"another"', 200), (b"W/" + TAG, 200), (b"Fri, 27 Nov 2026 06:00:00 GMT", 200)]
)
def test_a_part_is_sent_only_of_the_file_that_the_client_has(tag: bytes, status: int) -> None:
    """By a strong tag. Of another file all is sent, so parts of two are never joined."""
    assert status == answered(range=b"bytes=0-9", if_range=tag).status


async def test_a_part_is_never_compressed() -> None:
    """It is of the plain form, whose tag it has; the whole is compressed under a tag of its own."""
    takes = {b"accept-encoding": b"gzip"}
    part = await encoded(answered(range=b"bytes=0-2040"), takes)
    whole = await encoded(answered(), takes)
    assert (FILE[:2041], TAG) == (part.body, dict(part.headers)[b"etag"])
    assert (FILE, TAG[:-1] + b'-gzip"') == (gzip.decompress(whole.body), dict(whole.headers)[b"etag"])
