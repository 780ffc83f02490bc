"""A caller that waits no longer learns why it waited."""

from __future__ import annotations

import asyncio
import time

import pytest

from tickwise.domain.errors import CassandraAway, InDoubt, KeeperAway, StoreUnavailable
from tickwise.observability.waits import WaitNote, answered, note_wait, noting


async def never() -> None:
    """No answer."""
    await asyncio.Event().wait()


async def test_an_answer_comes_as_it_is() -> None:
    """Also one that is an error."""

    async def one() -> int:
        return 1

    async def refused() -> int:
        raise KeeperAway("at once")

    assert 1 == await answered(one, 5.0)
    with pytest.raises(KeeperAway, match="at once"):
        await answered(refused, 5.0)


async def test_the_latest_failure_is_told_also_of_a_task_of_the_call() -> None:
    """Of its kind; and a call that met none says how long it was waited for."""

    async def tries() -> None:
        note_wait(KeeperAway("first"))
        await asyncio.create_task(fails())
        await never()

    async def fails() -> None:
        note_wait(CassandraAway("last"))

    with pytest.raises(CassandraAway, match="^last$"):
        await answered(tries, 0.05)
    with pytest.raises(StoreUnavailable, match="did not answer within 0.05 s"):
        await answered(never, 0.05)


async def test_a_call_that_has_met_nothing_is_waited_for_longer() -> None:
    """A store under load is not taken for one that is away; once the call meets a failure, it is."""
    late = asyncio.Event()

    async def slow() -> str:
        await late.wait()
        return "late"

    async def fails_later() -> None:
        await late.wait()
        note_wait(KeeperAway("later"))
        await never()

    loop = asyncio.get_running_loop()
    loop.call_later(0.05, late.set)
    assert "late" == await answered(slow, 0.001, silent_seconds=60.0)
    with pytest.raises(KeeperAway, match="later"):
        await answered(fails_later, 0.001, silent_seconds=60.0)


async def test_a_guess_gives_way_to_a_failure_and_a_note_holds_no_frames() -> None:
    """A doubt becomes a store that is away: the caller asked whether there is an answer."""
    with noting(WaitNote()) as note:
        note_wait(InDoubt("cut off"))
        note_wait(KeeperAway("silent"), is_guess=True)
        assert (StoreUnavailable, "cut off") == (type(note.failure), str(note.failure))
        try:
            raise CassandraAway("away")
        except CassandraAway as failure:
            note_wait(failure)
        assert note.failure is not None
        assert (CassandraAway, None) == (type(note.failure), note.failure.__traceback__)
    note_wait(KeeperAway("nobody asks"))
    assert "away" == note.failure.detail


async def test_both_ends_of_the_wait_may_come_in_one_turn_of_the_loop() -> None:
    """Where a call that has failed is waited for no longer than a silent one, both are due at the same moment; a busy
    machine carries them out one after the other."""
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))

    async def call() -> None:
        note_wait(StoreUnavailable("Cassandra does not answer"))
        loop.call_soon(time.sleep, 0.05)  # noqa: TID251  # a loop that is held up for longer than the wait
        await loop.create_future()

    with pytest.raises(StoreUnavailable, match="Cassandra does not answer"):
        await answered(call, 0.01)
    assert [] == complaints
