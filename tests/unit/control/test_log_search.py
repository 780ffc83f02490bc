"""A search in the output of a run, beside a slow, obvious one."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwise.adapters.blobs import open_blobs
from tickwise.control.runs import logs
from tickwise.control.runs.logs import LogReader, LogSearch, find_in_log, hit_in, read_log
from tickwise.domain.model import time_id
from tickwise.ports.blobs import Blobs, log_chunk_key

RUN = time_id(1_700_000_000_000, b"0123456789")
ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")
LINES = st.lists(st.text("abAB\x1b ä", max_size=12).map(lambda text: text.replace("\x1b", "\x1b[31m")), max_size=12)


async def _stored(content: bytes, size: int) -> Blobs:
    """A log in chunks of this size."""
    blobs = open_blobs("memory://")
    for number, begin in enumerate(range(0, len(content), size)):
        last = begin + size >= len(content)
        await blobs.put(log_chunk_key(RUN, 1, number, last=last), content[begin : begin + size])
    return blobs


def _lines_with(content: bytes, wanted: str) -> list[int]:
    """The offsets of the lines that have it."""
    found, offset = [], 0
    for line in content.split(b"\n"):
        if wanted.encode().lower() in ESCAPE.sub(b"", line).lower():
            found.append(offset)
        offset += len(line) + 1
    return found


@settings(deadline=None)
@given(lines=LINES, wanted=st.text("abA ä", min_size=1, max_size=3), part=st.integers(20, 60), chunk=st.integers(1, 40))
async def test_each_line_is_found_once_in_both_directions(lines: list[str], wanted: str, part: int, chunk: int) -> None:
    """However the log is cut into chunks and parts. Colours in a word do not count, nor does the case of ASCII."""
    content = "\n".join(lines).encode()
    # A part holds the longest line: what is cut within a colour may be missed, and no other thing.
    size = max(part, max((len(line.encode()) for line in lines), default=0) + 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logs, "PART_BYTES", size)
        blobs = await _stored(content, chunk)
        expected = _lines_with(content, wanted)
        forward, start = [], 0
        while (hit := await find_in_log(blobs, RUN, 1, LogSearch(wanted, start))).line is not None:
            forward.append(hit.line)
            newline = content.find(b"\n", hit.line)
            start = len(content) if newline < 0 else newline + 1
        assert expected == forward
        assert hit.finished
        backward, start = [], len(content)
        while (hit := await find_in_log(blobs, RUN, 1, LogSearch(wanted, start, back=True))).line is not None:
            backward.append(hit.line)
            start = hit.line
        assert expected[::-1] == backward
        assert hit.finished


async def test_a_line_longer_than_a_part_is_searched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hit that two parts share is found."""
    monkeypatch.setattr(logs, "PART_BYTES", 10)
    for place in range(95):
        content = b"x" * place + b"word" + b"y" * (95 - place)
        blobs = await _stored(content, 7)
        for back in (False, True):
            reader = await LogReader.open(blobs, RUN, 1)
            found = await reader.find(LogSearch("word", len(content) if back else 0, back=back))
            assert (place, place) == found, (place, back)


async def test_a_search_reads_no_more_than_it_may() -> None:
    """And says where it goes on."""
    blobs = await _stored(b"a\n" * 50 + b"word\n" + b"b\n" * 50, 16)
    first = await find_in_log(blobs, RUN, 1, LogSearch("word", 0, bytes_most=64))
    assert (None, 64, False) == (first.line, first.searched_to, first.finished)
    assert 100 == (await find_in_log(blobs, RUN, 1, LogSearch("word", first.searched_to, bytes_most=64))).line
    end = await find_in_log(blobs, RUN, 1, LogSearch("b", 1 << 40, back=True, bytes_most=64))
    assert 203 == end.line
    last = await find_in_log(blobs, RUN, 1, LogSearch("none", 205, back=True, bytes_most=64))
    assert (None, False) == (last.line, last.finished)
    assert 141 <= last.searched_to < 205


async def test_a_log_that_retention_takes_ends_there() -> None:
    """Between the listing and the reading."""
    blobs = await _stored(b"0123456789" * 10, 10)
    reader = await LogReader.open(blobs, RUN, 1)
    await blobs.delete([log_chunk_key(RUN, 1, 5, last=False)])
    assert b"0123456789" * 5 == await reader.read(0, 100)
    assert (None, 50) == await reader.find(LogSearch("word", 0))
    assert b"" == (await read_log(blobs, uuid4(), 0, offset=0, limit=5, ended=True)).content


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"a word", 2), (b"\x1b[31ma wo\x1b[0mrd", 7), (b"\x1b]8;;word\x07w", None), (b"WoRD word", 0),
    ],
)  # fmt: skip
def test_escape_sequences_are_passed_over(content: bytes, place: int | None) -> None:
    """What a terminal would obey is no text."""
    assert place == hit_in(content, b"word")


async def test_a_search_takes_so_many_escape_sequences_out_of_its_way_and_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each costs a step in Python; what is left is for the next search, and nothing is missed."""
    monkeypatch.setattr(logs, "PART_BYTES", 100)
    monkeypatch.setattr(logs, "ESCAPES_MAX", 50)
    content = b"a\x1b[m\n" * 200 + b"word\n"
    blobs = await _stored(content, 64)
    searches, start = 0, 0
    while (hit := await find_in_log(blobs, RUN, 1, LogSearch("word", start))).line is None:
        assert start < hit.searched_to < len(content)
        assert not hit.finished
        start, searches = hit.searched_to, searches + 1
    assert (content.index(b"word"), 3) == (hit.line, searches)
