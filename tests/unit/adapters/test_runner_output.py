"""The way of output into blob storage, also when that is away."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from obstore.store import MemoryStore

from tests.support.waiting import eventually
from tickwise.adapters.blobs import StoredBlobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner import output
from tickwise.adapters.runner.output import OutputSink
from tickwise.documents.progress import progress_of, read_progress
from tickwise.domain.errors import Bug, Unavailable
from tickwise.ports.blobs import log_chunk_key, log_prefix


class Shaky(StoredBlobs):
    """Memory that refuses a number of writes."""

    def __init__(self, refusals: int) -> None:
        super().__init__(MemoryStore())
        self.refusals = refusals

    async def put(self, key: str, content: bytes) -> None:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("away")
        await super().put(key, content)


class Gate(StoredBlobs):
    """Memory that stores nothing until it is opened, or raises what it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(MemoryStore())
        self.open = asyncio.Event()
        self.error = error

    async def put(self, key: str, content: bytes) -> None:
        if self.error is not None:
            raise self.error
        await self.open.wait()
        await super().put(key, content)


def sink(blobs: StoredBlobs, limit_bytes: int = 1 << 20) -> tuple[OutputSink, str]:
    run_id = uuid4()
    return OutputSink(blobs, SystemClock(), run_id, 1, limit_bytes=limit_bytes), log_prefix(run_id, 1)


async def _content(blobs: StoredBlobs, prefix: str) -> list[tuple[str, bytes]]:
    return [(info.key.removeprefix(prefix), await blobs.get(info.key)) for info in await blobs.list(prefix)]


async def test_the_newest_progress_is_kept_beside_the_output() -> None:
    """In one small blob, whatever a worker said; a blob store that is away gets it later."""
    blobs, clock = Shaky(1), SystemClock()
    run_id = uuid4()
    told = OutputSink(blobs, clock, run_id, 1, limit_bytes=100)
    for share in (0.1, 0.2, float("nan"), 7.0):
        told.tell_progress(share, f"{share} \x1b[31m\u202e" + "x" * 1_000)
    told.write(b"progress 100%\n")
    await told.close()
    found = await read_progress(blobs, run_id, 1)
    assert found is not None
    assert (1.0, "7.0  [31m " + "x" * 190) == (found.share, found.text)
    assert [("000000.last", b"progress 100%\n")] == await _content(blobs, log_prefix(run_id, 1))
    assert 0.0 == progress_of(float("nan"), "", 0.0).share
    assert await read_progress(blobs, run_id, 2) is None


async def test_short_output_is_one_blob_that_is_the_last() -> None:
    """One write for most runs that say something."""
    blobs = Shaky(0)
    made, prefix = sink(blobs)
    made.write(b"one ")
    made.write(b"two")
    await made.close()
    assert await _content(blobs, prefix) == [("000000.last", b"one two")]


async def test_a_log_that_was_written_in_time_still_ends() -> None:
    """With an empty last chunk, so that a follower knows."""
    blobs = Shaky(0)
    made, prefix = sink(blobs)
    made.write(b"one")
    await eventually(lambda: len(made._pending) == 0)
    await made.close()
    assert await _content(blobs, prefix) == [("000000", b"one"), ("000001.last", b"")]


async def test_without_output_nothing_is_stored() -> None:
    """Not even the end."""
    blobs = Shaky(0)
    made, prefix = sink(blobs)
    await made.close()
    assert await _content(blobs, prefix) == []


async def test_large_output_is_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, none larger than a reader can hold."""
    monkeypatch.setattr(output, "CHUNK_BYTES", 4)
    blobs = Shaky(0)
    made, prefix = sink(blobs)
    made.write(b"0123456789")
    await made.close()
    assert await _content(blobs, prefix) == [("000000", b"0123"), ("000001", b"4567"), ("000002.last", b"89")]


async def test_a_blob_store_that_was_away_gets_everything_later() -> None:
    """Nothing is lost while it is tried again."""
    blobs = Shaky(2)
    made, prefix = sink(blobs)
    made.write(b"kept")
    await made.close()
    assert await _content(blobs, prefix) == [("000000.last", b"kept")]


async def test_the_output_of_a_run_that_ended_well_waits_for_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is refused; nothing of it is given up before somebody is in a hurry."""
    monkeypatch.setattr(output, "CLOSING_TRIES", 2)
    blobs = Shaky(7)
    made, prefix = sink(blobs)
    made.write(b"kept")
    await made.close(patient=True)
    assert (None, [("000000.last", b"kept")]) == (made.lost, await _content(blobs, prefix))


async def test_output_that_waits_is_given_up_when_its_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one last try."""
    monkeypatch.setattr(output, "CLOSING_TRIES", 2)
    made, _ = sink(Shaky(1_000_000))
    made.write(b"lost")
    closing = asyncio.create_task(made.close(patient=True))
    await eventually(lambda: len(made._pending) > 0)
    assert not closing.done()
    made.hurry()
    await closing
    assert made.lost is not None


async def test_a_blob_store_that_stays_away_does_not_hold_the_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is given up, loudly."""
    monkeypatch.setattr(output, "CLOSING_TRIES", 2)
    made, _ = sink(Shaky(1_000))
    made.write(b"lost")
    await made.close()
    assert "output of run" in caplog.text


@pytest.mark.parametrize("error", [OSError("disk"), Bug("ours"), RuntimeError("theirs")], ids=repr)
async def test_whatever_storage_raises_closing_raises_nothing(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """Else the run would lose its ending over its log. What comes later is not gathered any more."""
    made, _ = sink(Gate(error))
    made.write(b"lost")
    await eventually(lambda: len(made._pending) == 0)
    made.write(b"lost too")
    assert len(made._pending) == 0
    assert made.tail == "lostlost too"
    await made.close()
    assert caplog.text.count("output of run") == 1


async def test_storage_that_never_answers_does_not_hold_the_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is given up, loudly."""
    monkeypatch.setattr(output, "MAX_CLOSING_SECONDS", 0.05)
    made, _ = sink(Gate())
    made.write(b"lost")
    await made.close()
    assert "output of run" in caplog.text


async def test_a_source_that_can_wait_waits_while_too_much_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on when it is."""
    monkeypatch.setattr(output, "MAX_PENDING_BYTES", 5)
    blobs = Gate()
    made, prefix = sink(blobs)
    made.write(b"12345")
    await asyncio.wait_for(made.room(), 60)
    made.write(b"6")
    waiting = asyncio.create_task(made.room())
    await asyncio.wait([waiting], timeout=0.01)
    assert not waiting.done()
    blobs.open.set()
    await waiting
    await made.close()
    assert b"".join(content for _, content in await _content(blobs, prefix)) == b"123456"


async def test_a_source_that_cannot_wait_loses_output_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each gap."""
    monkeypatch.setattr(output, "MAX_PENDING_BYTES", 5)
    blobs = Gate()
    made, prefix = sink(blobs)
    for piece in (b"first ", b"dropped", b"dropped"):
        made.write_or_drop(piece)
    blobs.open.set()
    await asyncio.wait_for(made.room(), 60)
    made.write_or_drop(b"last")
    await made.close()
    assert b"".join(content for _, content in await _content(blobs, prefix)) == b"first " + output.DROPPED + b"last"


async def test_the_limit_is_exact() -> None:
    """What passes it is refused, what does not is kept."""
    blobs = Shaky(0)
    made, prefix = sink(blobs, limit_bytes=5)
    assert made.write(b"12345")
    assert not made.write(b"6")
    await made.close()
    assert await _content(blobs, prefix) == [("000000.last", b"12345")]


async def test_the_tail_is_the_end_of_the_output_as_text() -> None:
    """For error messages, bounded."""
    made, _ = sink(Shaky(0))
    made.write(b"x" * 10_000 + b"\xff the end")
    assert made.tail.endswith("\N{REPLACEMENT CHARACTER} the end")
    assert len(made.tail) == output.TAIL_BYTES
    await made.close()


def test_chunk_keys_sort_as_they_were_written() -> None:
    """The last one too, whatever its number."""
    run_id = uuid4()
    keys = [log_chunk_key(run_id, 1, number, last=number == 11) for number in range(12)]
    assert sorted(keys) == keys
