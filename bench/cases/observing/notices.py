"""NOTICES: T2 with 10,000 notification rules, beside T2 with none; and the time from a failed run to its receiver.

One rule concerns each job of the namespace, the others one job or one label each. None of the jobs that flow fails, so
what is measured is the price of noting nothing: the trigger of each end asks whether a rule may want it. Windows with
and without rules take turns within one flow of work, and each window with rules is held against the two around it.
Then jobs fail one after the other, some beside the flow and some once it has ended. A receiver of webhooks on this
machine says when it heard. Where the time went is read from the notice: noted and judged, taken by a sender, sent.
At last the price of noting is measured alone, in the session that pays it (`bench/noting.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from bench import raw
from bench.cases.events import Window, cost, window
from bench.figures import percentile
from bench.harness import SQL, Case, Check, Failed, Rig, Round
from bench.noting import noting_us, percent
from bench.stream import flowing
from bench.work import jobs, store
from tickwise.adapters.clock import SystemClock
from tickwise.domain.model import time_id
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.rules import NoticeChannel, NoticeChannelKind, NoticeEvent, NotificationRule
from tickwise.roles.scheduler.alerting import IDLE_SECONDS

RULES: Final = 10_000
PROBES: Final = 6
"""Jobs that fail beside the flow, and as many after it; each once the delivery of the one before is on record."""
TOLD_SECONDS: Final = 30.0
"""A failure that is told later makes the case void."""
FAILING: Final = json.dumps(
    {"schedule_type": "IMMEDIATE", "task": {"kind": "function", "name": "bench.twice"}, "payload": {"a": 1},
     "max_retries": 0}
)  # fmt: skip
"""A function that raises, for its payload has no number."""
HEEDED_SECONDS: Final = IDLE_SECONDS + 1.0
"""After so long a scheduler that knew no rule has read them all."""
CLOCK: Final = SystemClock()


class Receiver:
    """Takes webhooks, and notes when each run was told of."""

    def __init__(self) -> None:
        self.heard: dict[UUID, asyncio.Future[float]] = {}
        self.messages: list[dict[str, Any]] = []
        """Each with its id, the time at which it came (Unix seconds), its title and the number of its events."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                said = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                body = await reader.readexactly(int(said["content-length"]))
                at = clock()
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                data = json.loads(body)["data"]
                known = {"id": said["webhook-id"], "at": CLOCK.now(), "title": data["title"], "count": data["count"]}
                self.messages.append(known)
                for event in data["events"]:
                    run = event["run_id"] and UUID(event["run_id"])
                    if run in self.heard and not self.heard[run].done():
                        self.heard[run].set_result(at)
        writer.close()


@contextlib.asynccontextmanager
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    """A receiver, and its address."""
    made = Receiver()
    server = await asyncio.start_server(made, "127.0.0.1", 0)
    try:
        yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def stored_rule(rig: Rig, url: str, **more: Any) -> NotificationRule:
    """A channel, and a rule about all jobs."""
    random = rig.clock.random_bytes
    fields = channel_fields(NoticeChannelKind.WEBHOOK, {"url": url}, random=random(32))
    channel = NoticeChannel(
        channel_id=_new_id(rig), namespace="default", name="bench", kind=NoticeChannelKind.WEBHOOK,
        settings=fields.settings, allow_private=True,
    )  # fmt: skip
    rule = NotificationRule(
        rule_id=_new_id(rig), namespace="default", name="all", on=frozenset({NoticeEvent.FAILURE}),
        channels=(channel.channel_id,), **more,
    )  # fmt: skip
    async with store(rig) as opened:
        await opened.channels.add(channel, fields.secrets)
        return await opened.notification_rules.add(rule)


async def stored_rules(rig: Rig, connection: asyncpg.Connection, url: str) -> None:
    """That, and the other rules."""
    rule = await stored_rule(rig, url)
    await connection.execute(SQL["notices_fill"], RULES - 1, rule.rule_id, timeout=120)


def _new_id(rig: Rig) -> UUID:
    return time_id(int(rig.clock.now() * 1000), rig.clock.random_bytes(10))


class Delay(NamedTuple):
    """From the end of a failed run to its receiver, in seconds."""

    told: float
    judged: float
    """Of that, until a scheduler had made the notice, …"""
    taken: float
    """… until a sender took it …"""
    sent: float
    """… and until the receiver had it."""


async def delays(rig: Rig, connection: asyncpg.Connection, heard: Receiver) -> list[Delay]:
    """Of each probe. The bursts of the rule are forgotten between; the runs are taken out of the history."""
    found = []
    clock = asyncio.get_running_loop().time
    async with store(rig) as opened:
        for _ in range(PROBES):
            [job] = jobs(rig, 1, definitions=[FAILING])
            if job.run_id is None:
                raise Failed("a one-time job has a run")
            heard.heard[job.run_id] = asyncio.get_running_loop().create_future()
            await opened.jobs.add([job])
            try:
                async with asyncio.timeout(TOLD_SECONDS):
                    at = await heard.heard[job.run_id]
            except TimeoutError:
                stands = [dict(row) for row in await connection.fetch(SQL["notices_stand"])]
                raise Failed(f"a failure was not told within {TOLD_SECONDS:g} s: {stands}") from None
            ended, now = await connection.fetchval(SQL["ended_at"], job.run_id), await connection.fetchval(SQL["now"])
            # The server's clock and the loop's: both are read now.
            told = at - clock() + now - ended
            made, tried = await delivered(rig, connection, str(job.run_id))
            found.append(Delay(told, made - ended, tried - made, told - (tried - ended)))
            await connection.execute(SQL["notices_probe_forget"], job.run_id)
    return found


async def delivered(rig: Rig, connection: asyncpg.Connection, run_id: str) -> tuple[float, float]:
    """Wait until the delivery of the notice of a run is on record; when it was made, and first tried."""
    async with asyncio.timeout(TOLD_SECONDS):
        while (row := await connection.fetchrow(SQL["notices_of_run"], run_id)) is None:
            await rig.clock.sleep(0.05)
    return row["made"], row["tried"]


PARTS: Final[Mapping[str, Callable[[Delay], float]]] = {
    name: attrgetter(name) for name in Delay._fields
}  # fmt: skip


def more(without: Sequence[Window], with_rules: Sequence[Window]) -> list[float]:
    """How much more CPU a run took in each window with rules than in the two around it, in percent. Pairs: a machine
    that others use changes from minute to minute."""

    def used(each: Window) -> float:
        return sum(spent for name, spent in each.cpu.items() if name != "client")

    around = [statistics.mean(map(used, without[at : at + 2])) for at in range(len(with_rules))]
    return [100 * (used(each) / base - 1) for each, base in zip(with_rules, around, strict=True)]


async def telling(rig: Rig) -> Round:
    """The rate with rules, of the rate without."""
    seconds, turns = (15.0, 5) if rig.full else (4.0, 4)
    without: list[Window] = []
    with_rules: list[Window] = []
    async with receiver() as (heard, url), flowing(rig) as stream:
        connection = stream.connection
        await stored_rules(rig, connection, url)
        await connection.execute(SQL["notices_off"])
        await rig.clock.sleep(1.0)
        without.append(await window(stream, seconds))
        for _ in range(turns):
            await connection.execute(SQL["notices_enable"])
            await connection.execute(SQL["notices_on"])
            await rig.clock.sleep(HEEDED_SECONDS)
            with_rules.append(await window(stream, seconds))
            await connection.execute(SQL["notices_off"])
            await rig.clock.sleep(1.0)
            without.append(await window(stream, seconds))
        await connection.execute(SQL["notices_enable"])
        await connection.execute(SQL["notices_on"])
        await rig.clock.sleep(HEEDED_SECONDS)
        beside = await delays(rig, connection, heard)
        await stream.finish()
        took = beside + await delays(rig, connection, heard)
    await rig.reset()
    connection = await rig.connect()
    noting = await noting_us(rig, connection, turns=8)
    await connection.execute(SQL["notices_empty"])
    await connection.close()
    around = [statistics.mean(each.rate for each in without[at : at + 2]) for at in range(turns)]
    ratios = [each.rate / rate for each, rate in zip(with_rules, around, strict=True)]
    whole = cost(without)["product"]
    told = sorted(each.told for each in took)
    return Round(
        statistics.median(ratios),
        {
            "ratios": [round(ratio, 3) for ratio in ratios],
            "without": [round(each.rate) for each in without],
            "cpu_us_a_run_without": cost(without),
            "cpu_us_a_run": cost(with_rules),
            "cpu_more_percents": [round(each, 1) for each in more(without, with_rules)],
            "noting_us": noting,
            "noting_percent": percent(noting, "with_rules", whole),
            "noting_with_an_alert_percent": percent(noting, "with_an_alert", whole),
            "told_p50_s": round(percentile(told, 0.5), 2),
            "told_most_s": round(told[-1], 2),
            "beside_the_flow_s": {name: round(max(map(part, beside)), 2) for name, part in PARTS.items()},
            "rules": RULES,
        },
    )


CASE = Case(
    "NOTICES",
    "of T2",
    0.97,
    True,
    telling,
    raw.sustained,
    "raw SQL: submit, claim and finish with history",
    checks=(
        Check("CPU of noting, of a run's in percent", "noting_percent", 3.0),
        Check("the same while an alert stands", "noting_with_an_alert_percent", 3.0),
        Check("most seconds from a failed run to its receiver", "told_most_s", 2.0),
    ),
)
