"""Images of earlier releases stay readable, and what cannot be read is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import pytest

from tests.support.effects import differences
from tests.unit.adapters.keeper.test_recording import life_of_runs
from tickwise.adapters.store.keeper import images
from tickwise.adapters.store.keeper.file_frames import FrameFile
from tickwise.adapters.store.keeper.images import CODECS, SCHEMA, RecordCodec, entry_body, joined
from tickwise.adapters.store.keeper.rebuild import Contents
from tickwise.adapters.store.keeper.tracking import EffectRecorder
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.memory.records import RunRecord
from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import Misconfigured
from tickwise.domain.lifecycle import RunState
from tickwise.testing import factories
from tickwise.testing.clock import VirtualClock

KEPT = Path(__file__).with_name("version_1.bin")
"""Frames of the life of runs (`test_recording`), as the first release with a log wrote them. Never written again."""


async def recorded() -> tuple[State, list[bytes]]:
    """A state after the life of runs, and the entries that it left."""
    store = MemoryStore(VirtualClock())
    recorder = EffectRecorder(store.state)
    first = entry_body(*recorder.everything(), with_schema=True)
    await life_of_runs(store)
    return store.state, [first, entry_body(*recorder.take())]


def rebuilt(bodies: Sequence[bytes]) -> State:
    """The state that these entries give."""
    contents = Contents()
    for position, body in enumerate(bodies, 1):
        contents.read_entry(position, body)
    state = State(VirtualClock(), 2.0)
    contents.fill(state)
    return state


def with_codes(codec: RecordCodec, codes: dict[str, str]) -> RecordCodec:
    """The codec of a release that has other codes of the fields."""
    return replace(codec, codes=codes, whole_image=images.whole_image(codec.kind, codes))


async def test_entries_of_the_first_version_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kept bytes give the state that this release comes to by itself."""
    monkeypatch.setattr(factories, "_NUMBERS", count(1_000_001))  # those of the executors in the bytes
    kept = [frame.body for frame in FrameFile(KEPT, 0).frames(1)]
    live, _ = await recorded()
    found = rebuilt(kept)
    assert (3, 1, 1) == (len(found.jobs), len(found.runs), len(found.ended))
    assert [RunState.RETRYING] == [run.state for run in found.runs.values()]
    assert {} == differences(live, found)


async def test_fields_that_moved_are_read_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release whose records had their fields in another order, one that this one has not, and tables of its own."""
    with monkeypatch.context() as earlier:
        for kind, codec in CODECS.items():
            names = ["before", *reversed([*codec.codes])]
            earlier.setitem(SCHEMA, kind.__name__, names)
            codes = {name: images._code(number) for number, name in enumerate(names) if name != "before"}
            earlier.setitem(CODECS, kind, with_codes(codec, codes))
        live, bodies = await recorded()
    assert {} == differences(live, rebuilt(bodies))


async def test_a_field_without_a_default_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no guess what it was."""
    codec = CODECS[RunRecord]
    with monkeypatch.context() as earlier:
        names = [name for name in codec.codes if name != "nominal"]
        earlier.setitem(SCHEMA, "RunRecord", names)
        codes = {name: images._code(number) for number, name in enumerate(names)}
        earlier.setitem(CODECS, RunRecord, with_codes(codec, codes))
        _, bodies = await recorded()
    with pytest.raises(Misconfigured, match="RunRecord"):
        rebuilt(bodies)


async def test_another_layout_is_refused() -> None:
    """An entry of a later release, and bytes that are none."""
    with pytest.raises(Misconfigured, match="another layout"):
        rebuilt([msgspec.msgpack.encode((2, None, [], {}))])
    with pytest.raises(Misconfigured, match="cannot be read"):
        rebuilt([b"\xc1"])


async def test_several_commits_are_one_entry() -> None:
    """In their order, with the schema of the first."""
    live, bodies = await recorded()
    assert {} == differences(live, rebuilt([joined(bodies, with_schema=True)]))


async def test_the_life_of_a_run_is_small() -> None:
    """Of a job with a run that ends, besides its definition: less than 900 bytes."""
    store = MemoryStore(VirtualClock())
    recorder = EffectRecorder(store.state)
    await life_of_runs(store)
    definitions = sum(len(job.definition) for job in store.state.jobs.values())
    assert len(entry_body(*recorder.take())) - definitions < 3 * 900
