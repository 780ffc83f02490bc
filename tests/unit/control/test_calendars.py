"""Which times a calendar covers, as one stretch after the other."""

from __future__ import annotations

import asyncio
import threading
from datetime import date

import pytest

from tests.support.scene import DAY, START, scene
from tickwise.control.schedules import stored_rules as module
from tickwise.control.schedules.stored_rules import Range
from tickwise.documents.calendars import CalendarBody, written
from tickwise.domain.calendar.rules import Calendar, Dates, Period, Recurring, Weekly, covers
from tickwise.domain.errors import Busy, Invalid
from tickwise.domain.model import Principal

ADA, BERT, CARL = (Principal("ada", namespace, frozenset({"*"})) for namespace in ("default", "two", "three"))


def body_of(calendar: Calendar) -> CalendarBody:
    said = written(calendar)
    return CalendarBody(
        timezone=said.timezone, dates=said.dates, weekly=said.weekly, recurring=said.recurring, periods=said.periods
    )


@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(
            "Europe/Berlin", (Weekly(frozenset({5, 6}), 0, 86_400, None), Weekly(frozenset({4}), 72_000, 86_400, None))
        ),
        Calendar("UTC", (Recurring("0 */6 * * *", 5_400, None), Period(START + 1_000.5, START + 30_000.25, None))),
        Calendar("America/New_York", (Recurring("30 1 * 3 *", 7_200, None),)),
    ],
)
async def test_stretches_are_exactly_what_is_covered(calendar: Calendar) -> None:
    """Inside every one all is covered, between two nothing is, and none touches the next."""
    async with scene() as here:
        within = Range(start=START, end=START + 90 * DAY, limit=1_000)
        found = await here.world.control.calendars.preview(ADA, body_of(calendar), within)
        assert not found.more
        at = START
        for each in found.stretches:
            assert each.end is not None
            assert each.begin >= at
            if each.begin > START:
                assert covers(calendar, each.begin - 0.001) is None
            assert covers(calendar, each.begin) is not None
            assert covers(calendar, each.end - 0.001) is not None
            assert covers(calendar, each.end) is None
            at = each.end + 0.001
        assert found.stretches


async def test_no_more_is_told_than_was_asked_for() -> None:
    """`more` is told only if there is more."""
    days = Calendar("UTC", tuple(Dates(day, day) for day in (date(2027, 1, 16), date(2027, 1, 18), date(2027, 1, 20))))
    async with scene() as here:
        control = here.world.control
        for limit, more in ((2, True), (3, False), (4, False)):
            found = await control.calendars.preview(ADA, body_of(days), Range(limit=limit))
            assert (min(limit, 3), more) == (len(found.stretches), more), limit


async def test_a_thread_that_is_given_up_keeps_its_place_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many callers give up, no more threads work than there are places; then the next one is served."""
    monkeypatch.setattr(module, "MAX_READING_SECONDS", 0.02)
    go, at_work = threading.Event(), threading.Semaphore(0)
    async with scene() as here:
        control = here.world.control

        def work() -> None:
            at_work.release()
            go.wait(60)

        try:
            for who in (ADA, ADA, BERT, CARL, ADA):
                with pytest.raises(Busy):
                    await control.calendars._rules.in_thread(who, work)
            for _ in range(module.MAX_READINGS):
                assert await asyncio.to_thread(at_work.acquire, True, 60)
            assert not at_work.acquire(blocking=False)
        finally:
            go.set()
        monkeypatch.setattr(module, "MAX_READING_SECONDS", 60.0)
        assert "done" == await control.calendars._rules.in_thread(ADA, lambda: "done")


async def test_what_goes_wrong_in_a_thread_is_what_the_caller_gets() -> None:
    """And its place is free again."""
    async with scene() as here:
        for _ in range(module.MAX_READINGS + 1):
            with pytest.raises(Invalid, match="not like this"):
                await asyncio.wait_for(here.world.control.calendars._rules.in_thread(ADA, _refuse), 60)


def _refuse() -> None:
    raise Invalid("not like this")


async def test_one_namespace_takes_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its calendars are read at once, another namespace's is read beside the first of them."""
    monkeypatch.setattr(module, "MAX_READING_SECONDS", 0.02)
    go, at_work = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        at_work.release()
        go.wait(60)

    async with scene() as here:
        control = here.world.control
        try:
            for _ in range(3):
                with pytest.raises(Busy, match="namespace default"):
                    await control.calendars._rules.in_thread(ADA, work)
            assert await asyncio.to_thread(at_work.acquire, True, 60)
            assert not at_work.acquire(blocking=False)
            monkeypatch.setattr(module, "MAX_READING_SECONDS", 60.0)
            assert "done" == await control.calendars._rules.in_thread(BERT, lambda: "done")
        finally:
            go.set()
        assert "done" == await control.calendars._rules.in_thread(ADA, lambda: "done")
