"""The recorder of requests: whatever is repeated, and however it is cut into batches, the jobs are those of direct
calls in order."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.buffered import Buffered, buffered
from tickwise.control.bodies import JobBody
from tickwise.domain.errors import Refused
from tickwise.domain.model import Principal
from tickwise.ports.broker import Delivery
from tickwise.ports.store import JobQuery

WHO = Principal("someone", "default", frozenset({"*"}))
JOBS = [UUID(int=(0x019B << 112) | (0x8 << 76) | (0b10 << 62) | number) for number in range(3)]
TASK = msgspec.Raw(b'{"kind":"shell","command":"date"}')


def body(**said: Any) -> JobBody:
    return msgspec.json.decode(msgspec.json.encode({"name": "a", "task": TASK, **said}), type=JobBody)


creates = st.tuples(
    st.just("create"), st.sampled_from(range(3)), st.sampled_from(["red", "blue"]), st.sampled_from([None, "k"])
)
changes = st.tuples(
    st.just("change"), st.sampled_from(range(3)), st.sampled_from(["green", "grey"]), st.sampled_from([None, "k", "m"])
)
cancels = st.tuples(st.just("cancel"), st.sampled_from(range(3)), st.none(), st.none())
Step = tuple[str, int, str | None, str | None]


async def take_in(here: Buffered, step: Step) -> None:
    """As the API does; what it refuses at once never reaches the broker."""
    kind, place, name, key = step
    ingest = here.ingest
    try:
        if kind == "create":
            said = body(name=name, every="1h", job_id=str(JOBS[place]), **({"key": key} if key else {}))
            await ingest.accept(WHO, said)
        elif kind == "change":
            said = msgspec.json.decode(
                msgspec.json.encode({"name": name, **({"key": key} if key else {})}), type=JobBody
            )
            await ingest.accept_change(WHO, JOBS[place], said, msgspec.json.encode(said))
        else:
            await ingest.accept_cancel(WHO, JOBS[place])
    except Refused:
        pass


async def directly(here: Buffered, delivery: Delivery) -> None:
    """The same request, as a call of the API that answers from the store."""
    from tickwise.roles.shared.messages import Request, decode

    request = decode(Request, delivery.value)
    applier = here.applier
    try:
        if request.kind == "create":
            await applier.submissions.store_accepted([request.new_job()])
        elif request.kind == "change":
            await applier.changes.change(WHO, request.job_id, msgspec.json.decode(request.body, type=JobBody))
        else:
            await applier.moves.cancel(WHO, request.job_id)
    except Refused:
        pass


async def jobs_of(here: Buffered) -> list[tuple[Any, ...]]:
    rows = await here.link.store.searches.jobs(JobQuery(namespace="default", limit=50))
    return sorted((row.job_id, row.name, row.key, str(row.status)) for row in rows)


async def converges(steps: list[Step], cuts: list[int], again: list[int]) -> None:
    async with buffered(partitions=1) as here, buffered(partitions=1) as other:
        here.link.away = True  # so that nothing is refused by what happens to be applied already
        for step in steps:
            await take_in(here, step)
        here.link.away = False
        sent = await here.batch()
        for delivery in sent:
            await directly(other, delivery)
        at = 0
        for place, cut in enumerate([*cuts, len(sent)]):
            batch = sent[at : at + cut]
            await here.recorder.apply(batch)
            if batch and place < len(again):
                # Its offsets were never committed: from some message on, it comes again.
                await here.recorder.apply(sent[max(0, at - again[place]) : at + cut])
            at += cut
        assert await jobs_of(other) == await jobs_of(here)


@given(
    st.lists(st.one_of(creates, changes, cancels), min_size=1, max_size=10),
    st.lists(st.integers(1, 4), max_size=6),
    st.lists(st.integers(0, 3), max_size=6),
)
@example([("cancel", 0, None, None), ("create", 0, "red", None)], [1], [0, 1])
@example([("create", 0, "red", "k"), ("create", 1, "red", "k"), ("change", 0, "green", "m")], [2], [0, 2])
@example([("create", 0, "red", None), ("change", 0, "green", None), ("change", 0, "grey", None)], [1, 1], [0, 1, 2])
@settings(deadline=None, max_examples=40)
def test_any_cut_and_any_repetition_ends_in_the_jobs_of_direct_calls(
    steps: list[Step], cuts: list[int], again: list[int]
) -> None:
    """Creates, changes and cancels of three jobs that want the same keys, in batches of any size, each of which may
    come again from some message before it on."""
    asyncio.run(converges(steps, cuts, again))
