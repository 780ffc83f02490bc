"""What an executor holds."""

from __future__ import annotations

import asyncio
import json

from tests.unit.roles.rig import ScriptedRunner
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.model import Claimed
from tickwise.roles.books import Books, Held, Stage
from tickwise.roles.definition import decode_work
from tickwise.roles.intake import Intake
from tickwise.testing.factories import Factory

SPEC = json.dumps({"schedule_type": "IMMEDIATE", "task": {"kind": "scripted"}})


async def test_a_newer_claim_of_the_same_run_takes_the_place_of_the_older() -> None:
    """A start that the store refused, and a new claim of that run which overtakes the refusal: the older claim is void,
    and its slot must not be lost with it."""
    clock = VirtualClock()
    run = Factory(clock.now()).identifier()
    intake = Intake(ScriptedRunner(), clock=clock, wake=asyncio.Event(), slots=1, spare=None, held_max=10)

    def claim(token: int) -> Held:
        now = clock.now()
        claimed = Claimed(run, token, run, "default", 1, 0, 0, True, now, now, now, 1, SPEC, now)
        return Held(claimed, decode_work(SPEC), intake)

    books, older, newer = Books(), claim(1), claim(2)
    books.add(older)
    intake.held -= 1
    intake.launched += 1
    older.stage = Stage.STARTING
    books.add(newer)
    assert [False, True] == [books.holds(older), books.holds(newer)]
    assert (1, 0) == (intake.held, intake.launched)
    books.forget(newer)
    assert 1 == intake.room()
