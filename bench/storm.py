"""`make storm`: 100,000 failures under one notification rule, by the shipped roles, told to a real receiver.

    jobs that fail ──► executor ──► database ──► scheduler ──► webhooks ──► the receiver in this process

Not a measurement: what counts is how many messages come, and that their counts add up. The first must come at once, the
second within half a minute, the others as seldom as the rule says (`GROUP` seconds). Exits 1 if a failure is in no
message or in two, if an alert missed one, or if there are more messages than that.

FAILURES=n another number; GROUP=n another pause between messages. NAMES=n so few names of jobs: those of one name have
one alert, which is told when it opens and counts the others; then the counts of the messages are what came until then.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Final

import asyncpg
import uvloop

from bench.cases.observing.notices import FAILING, receiver, stored_rule
from bench.harness import SQL, Failed, Rig, rig
from bench.work import jobs, store
from tickwise.domain.notices.judging import STORM_AT_ONCE

FAILURES: Final = int(os.environ.get("FAILURES") or 100_000)
GROUP: Final = float(os.environ.get("GROUP") or 30.0)
NAMES: Final = int(os.environ.get("NAMES") or FAILURES)
BATCH: Final = 500
SECONDS: Final = 900.0
"""For all of it."""


def check(messages: list[dict[str, Any]], stood: dict[str, int], seconds: float) -> None:
    """Judge the storm. Raises `Failed`."""
    most = STORM_AT_ONCE + seconds // GROUP + 1
    told = sum(each["count"] for each in messages)
    wrong = {
        "failures in messages": (told, FAILURES if NAMES == FAILURES else min(told, FAILURES)),
        "failures in alerts": (stood["counted"], FAILURES),
        "events that are not judged": (stood["pending"], 0),
        "messages with one id": (len(messages) - len({each["id"] for each in messages}), 0),
    }
    found = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
    if found or len(messages) > most:
        raise Failed(f"{found}, {len(messages)} messages, at most {most:.0f}")


async def until_told(rig: Rig, connection: asyncpg.Connection[Any]) -> dict[str, int]:
    """Wait until nothing is to be judged or to be sent."""
    async with asyncio.timeout(SECONDS):
        while True:
            row = dict(await connection.fetchrow(SQL["storm_stands"]))
            if row["counted"] == FAILURES and not row["pending"] and not row["waiting"]:
                return row
            await rig.clock.sleep(0.5)


async def storm() -> None:
    """All of it. Raises `Failed`."""
    async with (
        rig(full=False) as here,
        receiver() as (heard, url),
        here.role("scheduler"),
        here.role("executor"),
        store(here) as opened,
    ):
        await here.until_executors(1, 120.0)
        connection = await here.connect()
        await stored_rule(here, url, group_seconds=GROUP)
        begun = here.clock.monotonic()
        for begin in range(0, FAILURES, BATCH):
            made = jobs(here, BATCH, definitions=[FAILING] * BATCH)
            named = [job._replace(name=f"job {(begin + place) % NAMES}") for place, job in enumerate(made)]
            await opened.jobs.add(named)
        stood = await until_told(here, connection)
        seconds = here.clock.monotonic() - begun
        first = await connection.fetchval(SQL["storm_first"])
        await connection.close()
        messages = heard.messages
        print(f"{FAILURES:,} failures, {stood['alerts']} alerts, {len(messages)} messages")
        for each in messages:
            print(f"  {each['at'] - first:6.1f} s after the first failure: {each['count']:,} events, {each['title']}")
        print(json.dumps({"failures": FAILURES, "messages": len(messages), "counts": [e["count"] for e in messages]}))
        check(messages, stood, seconds)


def main() -> int:
    """The command."""
    try:
        uvloop.run(storm())
    except (Failed, TimeoutError) as wrong:
        print(f"the storm went wrong: {wrong!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
