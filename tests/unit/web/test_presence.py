"""Two people at one job see each other, on its page and in its form; nobody else does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.local import LocalSharedState
from tickwise.control.jobs.presence import Doing
from tickwise.ports.shared_state import Facts, Note

BODY = {"name": "books", "every": "1h", "labels": {"team": "data"}, "task": {"kind": "shell", "command": "true"}}


class Notes(LocalSharedState):
    """Counts what is written, and can be away."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.written: list[Note] = []
        self.away = False

    async def put(self, notes: Sequence[Note], ttl_seconds: float) -> bool:
        self.written += notes
        return await super().put(notes, ttl_seconds)

    async def look(self, kind: str, names: Sequence[str] | None = None) -> Mapping[str, Facts] | None:
        return None if self.away else await super().look(kind, names)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest_asyncio.fixture
async def rig(notes: Notes) -> AsyncIterator[Rig]:
    async with pages(membership=notes) as made:
        yield made


async def job_of(rig: Rig, **fields: Any) -> str:
    made = await rig.here.client.post(f"{API}/jobs", json={**BODY, **fields})
    assert 201 == made.status_code, made.text
    return str(made.json()["job_id"])


async def test_two_people_at_one_job_see_each_other(rig: Rig) -> None:
    """The one who came second sees it at once, the first one at the next renewal; nobody sees oneself."""
    ada, bob = await rig.signed_in("ada", ("operator", "default")), await rig.signed_in("bob", ("operator", "default"))
    job = await job_of(rig)
    first = (await ada.get(f"/jobs/{job}")).text
    assert "looks at this job" not in first
    second = Markup((await bob.get(f"/jobs/{job}")).text).words
    assert "ada looks at this job, too" in second
    assert "bob looks" not in second
    renewed = Markup((await ada.get(f"/jobs/{job}", tickwise_part="live")).text).words
    assert "bob looks at this job, too" in renewed


async def test_an_open_form_is_said_on_the_page_and_in_the_form_of_the_other(rig: Rig) -> None:
    """A renewal asks for that part of the form alone, and keeps the time at which the form was opened."""
    ada, bob = (
        await rig.signed_in("ada", ("developer", "default")),
        await rig.signed_in("bob", ("developer", "default")),
    )
    job = await job_of(rig)
    await ada.get(f"/jobs/{job}/edit")
    for path in (f"/jobs/{job}", f"/jobs/{job}/edit"):
        assert "ada has the form of this job open" in Markup((await bob.get(path)).text).words, path
    part = (await ada.get(f"/jobs/{job}/edit", tickwise_part="live")).text
    assert "bob has the form of this job open" in Markup(part).words
    assert "<form" not in part


async def test_another_job_and_another_namespace_know_nothing_of_it(rig: Rig) -> None:
    """A note is about one job."""
    ada, bob = await rig.signed_in("ada", ("operator", "default")), await rig.signed_in("bob", ("operator", "default"))
    job, other = await job_of(rig), await job_of(rig, name="bills")
    await ada.get(f"/jobs/{job}")
    assert "ada looks" not in (await bob.get(f"/jobs/{other}")).text


async def test_who_may_only_read_neither_sees_nor_is_seen(rig: Rig, notes: Notes) -> None:
    """The right to change or operate the job is what names people to each other."""
    ada = await rig.signed_in("ada", ("operator", "default"))
    vera = await rig.signed_in("vera", ("viewer", "default"))
    job = await job_of(rig)
    await ada.get(f"/jobs/{job}")
    assert "ada" not in Markup((await vera.get(f"/jobs/{job}")).text).words
    assert "vera" not in Markup((await ada.get(f"/jobs/{job}")).text).words
    assert {"ada"} == {str(note.facts["name"]) for note in notes.written}


async def test_a_page_that_is_renewed_often_writes_seldom(rig: Rig, notes: Notes) -> None:
    """One note in ten seconds at most, whatever happens to the job."""
    ada = await rig.signed_in("ada", ("operator", "default"))
    job = await job_of(rig)
    for _ in range(5):
        await ada.get(f"/jobs/{job}", tickwise_part="live")
    assert [Doing.LOOKS] == [note.facts["doing"] for note in notes.written]


async def test_pages_are_there_while_the_notes_are_away(rig: Rig, notes: Notes) -> None:
    """Nobody is seen then."""
    ada, bob = await rig.signed_in("ada", ("operator", "default")), await rig.signed_in("bob", ("operator", "default"))
    job = await job_of(rig)
    await ada.get(f"/jobs/{job}")
    notes.away = True
    answer = await bob.get(f"/jobs/{job}")
    assert 200 == answer.status_code
    assert "ada looks" not in answer.text


async def test_a_note_of_another_version_is_passed_over(rig: Rig, notes: Notes) -> None:
    """And a name from outside is text."""
    bob = await rig.signed_in("bob", ("operator", "default"))
    job = await job_of(rig)
    facts: list[dict[str, Any]] = [
        {"name": 7, "doing": "looks", "since": 1.0}, {"name": "x", "doing": "sleeps", "since": 1.0},
        {"name": "<script>alert(1)</script>", "doing": "edits", "since": 1.0},
    ]  # fmt: skip
    await notes.put([Note(f"at job {UUID(job)}", f"{place}.looks", each) for place, each in enumerate(facts)], 9.0)
    text = (await bob.get(f"/jobs/{job}")).text
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert 1 == text.count('class="alert others"')
