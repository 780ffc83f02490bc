"""Parts of a file by `Range`: what RFC 9110 says of each case, and what is read for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tickwise.api.problems import problem_of
from tickwise.control.runs.downloads import (
    PART_BYTES,
    Download,
    DownloadAnswer,
    DownloadRequest,
    answer_download,
)
from tickwise.domain.errors import NotFound, RangeNotSatisfiable, Unavailable

FILE = bytes(range(256)) * 8
TAG = Download(size=0, identity="a", read=lambda _start, _length: _nothing()).tag


async def _nothing() -> bytes:
    return b""


def reading(content: bytes, read: list[tuple[int, int]]) -> Callable[[int, int], Awaitable[bytes]]:
    """Reads of a content, each noted with its offset and length."""

    async def piece(start: int, length: int) -> bytes:
        read.append((start, length))
        return content[start : start + length]

    return piece


async def answered(content: bytes = FILE, **headers: Any) -> tuple[DownloadAnswer, bytes, list[tuple[int, int]]]:
    """The answer about a file, what is sent of it, and what was read."""
    read: list[tuple[int, int]] = []
    file = Download(size=len(content), identity="a", read=reading(content, read))
    answer = await answer_download(file, DownloadRequest(**headers))
    assert answer.content is not None
    return answer, b"".join([part async for part in answer.content]), read


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("Bytes= 100-199 ", 100, 200),
        ("bytes=2000-", 2000, 2048),
        ("bytes=2000-999999", 2000, 2048),
        ("bytes=-48", 2000, 2048),
        ("bytes=-999999", 0, 2048),
    ],
)
async def test_a_range_is_answered_with_its_part(text: str, start: int, end: int) -> None:
    """206, the place of the part in the whole, and the tag of the whole; no other byte is read."""
    part, sent, read = await answered(range=text)
    told = dict(part.headers)
    assert (206, FILE[start:end], [(start, end - start)]) == (part.status, sent, read)
    assert (f"bytes {start}-{end - 1}/2048", TAG) == (told["content-range"], told["etag"])
    assert str(end - start) == told["content-length"]


@pytest.mark.parametrize(
    "text",
    ["bytes=", "bytes=-", "bytes=9-8", "bytes=a-b", "lines=1-2", "bytes=0-1,4-5", f"bytes={'9' * 40}-", "bytes=²-", ""],
)
async def test_what_is_no_single_range_is_answered_with_the_whole(text: str) -> None:
    """Several ranges, other units and nonsense are ignored."""
    whole, sent, _ = await answered(range=text)
    told = dict(whole.headers)
    assert (200, FILE, "bytes", "2048") == (whole.status, sent, told["accept-ranges"], told["content-length"])
    assert "content-range" not in told


@pytest.mark.parametrize("text", ["bytes=2048-", "bytes=5000-6000", "bytes=-0"])
async def test_a_range_that_the_file_does_not_have_is_416_with_its_size(text: str) -> None:
    """So that a client sees that it has all."""
    with pytest.raises(RangeNotSatisfiable) as refused:
        await answered(range=text)
    problem, headers = problem_of(refused.value)
    assert (416, "range_not_satisfiable") == (problem.status, problem.code)
    assert (b"content-range", b"bytes */2048") in headers


async def test_nothing_of_an_empty_file_can_be_asked_for() -> None:
    """It has no first byte; the whole of it is nothing."""
    with pytest.raises(RangeNotSatisfiable):
        await answered(b"", range="bytes=0-")
    whole, sent, _ = await answered(b"")
    assert (200, b"", "0") == (whole.status, sent, dict(whole.headers)["content-length"])


@pytest.mark.parametrize(
    ("tag", "status"),
    [(TAG, 206), ('"another"', 200), (f"W/{TAG}", 200), ("Fri, 27 Nov 2026 06:00:00 GMT", 200), ("", 200)],
)
async def test_a_part_is_sent_only_of_the_file_that_the_client_has(tag: str, status: int) -> None:
    """By a strong tag. Of another file all is sent, so parts of two are never joined."""
    answer, sent, _ = await answered(range="bytes=0-9", if_range=tag)
    assert (status, FILE[:10] if status == 206 else FILE) == (answer.status, sent)


async def test_a_head_reads_nothing_and_minds_no_range() -> None:
    """RFC 9110 has ranges for GET alone."""
    read: list[tuple[int, int]] = []
    file = Download(size=2048, identity="a", read=reading(FILE, read))
    for text in (None, "bytes=0-9", "bytes=9999-"):
        found = await answer_download(file, DownloadRequest(text, is_head=True))
        assert (200, "2048", None) == (found.status, dict(found.headers)["content-length"], found.content)
    assert [] == read


async def test_a_large_file_is_read_part_by_part() -> None:
    """Each read is of one part at most, in order, and begins when the part before it was taken."""
    content = bytes(PART_BYTES) * 3 + b"the end of it"
    read: list[tuple[int, int]] = []
    file = Download(size=len(content), identity="a", read=reading(content, read))
    found = await answer_download(file, DownloadRequest("bytes=5-"))
    assert found.content is not None
    counts = [len(read) async for _ in found.content]
    assert [1, 2, 3, 4] == counts
    assert [(5 + PART_BYTES * part, min(PART_BYTES, len(content) - 5 - PART_BYTES * part)) for part in range(4)] == read


async def test_a_file_that_is_gone_or_away_is_told_before_the_answer() -> None:
    """The first part is read before the status is sent."""

    async def gone(_start: int, _length: int) -> bytes:
        raise NotFound("there is no blob")

    with pytest.raises(NotFound):
        await answer_download(Download(size=9, identity="a", read=gone), DownloadRequest())
    with pytest.raises(Unavailable, match="has 0 bytes of a file that had 9"):
        await answer_download(Download(size=9, identity="a", read=reading(b"", [])), DownloadRequest())


async def test_a_file_that_became_shorter_is_not_sent_as_if_it_were_whole() -> None:
    """The answer ends with an error, not with fewer bytes."""
    content = bytes(PART_BYTES + 10)
    file = Download(size=len(content) + 1, identity="a", read=reading(content, []))
    found = await answer_download(file, DownloadRequest())
    assert found.content is not None
    assert content[:PART_BYTES] == await anext(found.content)
    assert content[PART_BYTES:] == await anext(found.content)
    with pytest.raises(Unavailable):
        await anext(found.content)
