"""Lines of Tickwise itself in a log: told by their place, so that no task can print one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from obstore.store import MemoryStore

from tests.support.waiting import eventually
from tickwise.adapters.blobs import StoredBlobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner import output
from tickwise.adapters.runner.output import OutputSink
from tickwise.api.wire import log_view
from tickwise.control.live.log_follower import OutputPart, written_lines
from tickwise.control.runs.logs import LogChunk, read_log
from tickwise.documents.log_origin import RANGES_MOST, holds, joined, own_key, read_own
from tickwise.domain.secrets.output_masking import ValueForms
from tickwise.ports.blobs import SpoolFull, log_chunk_key
from tickwise.web.ansi import lines_of

LINE = "[its pod waits: no node has room]"
RUN = UUID("01a3185c-5000-834e-94b6-daa72b1d976d")


class Memory(StoredBlobs):
    """Memory that notes its writes in their order, and refuses the content of some for good."""

    def __init__(self, refused: bytes | None = None) -> None:
        super().__init__(MemoryStore())
        self.refused = refused
        self.written: list[str] = []

    async def put(self, key: str, content: bytes) -> None:
        if self.refused is not None and self.refused in content:
            self.refused = None
            raise SpoolFull("the disk is full")
        self.written.append(key)
        await super().put(key, content)


def sink(blobs: StoredBlobs, *, limit_bytes: int = 1 << 20, forms: ValueForms | None = None) -> OutputSink:
    """The output of an attempt."""
    return OutputSink(blobs, SystemClock(), RUN, 1, limit_bytes=limit_bytes, forms=forms)


async def log_of(blobs: StoredBlobs, offset: int = 0, limit: int = 1 << 20) -> LogChunk:
    """A part of the log."""
    return await read_log(blobs, RUN, 1, offset=offset, limit=limit, ended=True)


def ours(chunk: LogChunk) -> list[bytes]:
    """The parts of Tickwise itself."""
    return [chunk.content[begin - chunk.offset : end - chunk.offset] for begin, end in chunk.own]


async def test_a_line_of_ours_is_told_apart_from_one_that_a_task_prints() -> None:
    """The same text, byte for byte: one is ours. The log is what it was."""
    blobs = Memory()
    made = sink(blobs)
    made.write(f"{LINE}\nhalf a line".encode())
    made.write_own(LINE)
    made.write(f"{LINE}\n".encode())
    await made.close()
    chunk = await log_of(blobs)
    assert f"{LINE}\nhalf a line\n{LINE}\n{LINE}\n".encode() == chunk.content
    assert [f"\n{LINE}\n".encode()] == ours(chunk)
    assert blobs.written.index(own_key(RUN, 1)) < blobs.written.index(log_chunk_key(RUN, 1, 0, last=True))


async def test_a_task_alone_has_no_ranges() -> None:
    """And one write less."""
    blobs = Memory()
    made = sink(blobs)
    made.write(f"{LINE}\n".encode())
    await made.close()
    assert ((), [log_chunk_key(RUN, 1, 0, last=True)]) == ((await log_of(blobs)).own, blobs.written)


async def test_no_text_makes_two_lines_of_one() -> None:
    """Names of files and messages of others stand in our lines: they end none, and move no cursor."""
    blobs = Memory()
    made = sink(blobs)
    made.write_own("[kept: a\nb\r\x1b[2K\u2028c]", "second")
    await made.close()
    assert [b"[kept: a?b??[2K?c]\nsecond\n"] == ours(await log_of(blobs))


@pytest.mark.parametrize("size", [1, 7, 40, 64])
async def test_ranges_hold_over_parts_of_any_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A line of ours that is cut into parts is ours in each of them, and in each part that is read."""
    monkeypatch.setattr(output, "CHUNK_BYTES", size)
    blobs = Memory()
    made = sink(blobs)
    for number in range(3):
        made.write(f"task {number}\n".encode())
        made.write_own(f"ours {number}")
    await made.close()
    assert [b"ours 0\n", b"ours 1\n", b"ours 2\n"] == ours(await log_of(blobs))
    assert [b"rs 1\n"] == ours(await log_of(blobs, offset=23, limit=9))


async def test_output_that_is_lost_takes_its_ranges_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in its place is the task's; the line about the loss is ours."""
    monkeypatch.setattr(output, "FLUSH_SECONDS", 0.01)
    blobs = Memory(refused=b"first")
    made = sink(blobs)
    made.write(b"first\n")
    made.write_own(LINE * 20)
    await eventually(lambda: blobs.refused is None)
    made.write(b"x" * 2_000 + b"\n")
    await made.close()
    chunk = await log_of(blobs)
    [note] = ours(chunk)
    assert note.startswith(b"\n[667 bytes of output were lost here: the disk is full")
    assert b"x" * 2_000 + b"\n" == chunk.content[len(note) :]
    assert ((0, len(note)),) == await read_own(blobs, RUN, 1)


async def test_behind_a_part_that_the_store_lost_nothing_is_taken_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets hold no more there. The line about the lost part is ours."""
    monkeypatch.setattr(output, "CHUNK_BYTES", 10)
    blobs = Memory()
    made = sink(blobs)
    made.write_own("ours 0")
    made.write(b"task 0\n" * 4)
    made.write_own("ours 1")
    await made.close()
    await blobs.delete([log_chunk_key(RUN, 1, 1, last=False)])
    first, second = ours(await log_of(blobs))
    assert (b"ours 0\n", True) == (first, second.startswith(b"[the store of outputs has lost"))


async def test_a_secret_in_a_line_of_ours_is_masked_and_held_back_output_stays_whole() -> None:
    """Output that may be the beginning of a secret waits on; at the end of the task it comes before our lines."""
    forms = ValueForms([b"correct-horse-battery"])
    blobs = Memory()
    made = sink(blobs, forms=forms)
    made.write(b"a\ncorrect-")
    made.write_own("network: correct-horse-battery is refused")
    made.write(b"horse-battery\nrest correct-ho")
    made.end_output()
    made.write_own("[kept]")
    await made.close()
    chunk = await log_of(blobs)
    assert b"correct-horse-battery" not in chunk.content
    assert chunk.content.endswith(b"***\nrest ***\n[kept]\n")
    assert [b"network: ", b"\n[kept]\n"] == [text[:9] for text in ours(chunk)]


async def test_ranges_are_bounded() -> None:
    """Lines beyond them count as the task's."""
    blobs = Memory()
    made = sink(blobs)
    for _ in range(RANGES_MOST + 10):
        made.write(b"task\n")
        made.write_own("ours")
    await made.close()
    assert [b"ours\n"] * RANGES_MOST == ours(await log_of(blobs))
    assert 8_000 > len(await blobs.get(own_key(RUN, 1)))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[[1]]", b"[[5,1]]", b"[[-1,4]]", b"[[0,9],[5,12]]", b'["ab"]', b"null", b"7"]
)
async def test_ranges_that_cannot_be_read_mark_nothing(content: bytes) -> None:
    """The log is read all the same."""
    blobs = Memory()
    await blobs.put(own_key(RUN, 1), content)
    await blobs.put(log_chunk_key(RUN, 1, 0, last=True), b"task\n")
    chunk = await log_of(blobs)
    assert (b"task\n", ()) == (chunk.content, chunk.own)


def test_a_line_is_ours_if_all_of_it_is() -> None:
    """Ranges that touch are one."""
    ranges = joined([(0, 0), (3, 5), (5, 9), (12, 20)])
    assert ((3, 9), (12, 20)) == ranges
    asked: Sequence[tuple[int, int]] = [(3, 9), (4, 6), (2, 5), (8, 10), (9, 12), (12, 20), (13, 13), (0, 2)]
    assert [True, True, False, False, False, True, False, False] == [holds(ranges, *each) for each in asked]


def test_the_api_says_the_origin_of_each_part() -> None:
    """As JSON, by parts of the text; in the stream, line by line. A log of the task alone has no parts."""
    content = "täsk\nours\nend\n".encode()
    chunk = LogChunk(1, 10, content, complete=True, own=((16, 21),))
    parts = [(each.origin, each.offset, each.text) for each in log_view(uuid4(), chunk).parts]
    assert [("task", 10, "täsk\n"), ("tickwise", 16, "ours\n"), ("task", 21, "end\n")] == parts
    assert [] == log_view(uuid4(), chunk._replace(own=())).parts
    lines: list[tuple[bytes, int]] = [("täsk\n".encode(), 16), (b"ours\n", 21), (b"end\n", 25)]
    told = written_lines(OutputPart(RUN, 1, 10, lines, chunk.own)).decode()
    origins: list[Any] = [part.partition('"')[0] for part in told.split('"origin":"')[1:]]
    assert ["task", "tickwise", "task"] == origins


def test_a_page_marks_lines_of_ours_and_no_colour_of_the_task_reaches_them() -> None:
    """A colour that the task left on goes on behind them."""
    content = b"\x1b[31mred\nours\nred\n"
    lines = lines_of(content, 0, ((9, 14),))
    assert [False, True, False] == [line.is_own for line in lines]
    assert ["a-1", "", "a-1"] == [line.pieces[0].classes.replace("red", "1") for line in lines]
