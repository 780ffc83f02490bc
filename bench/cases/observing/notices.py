"""NOTICES: T2 with 10,000 notification rules, beside T2 with none; and the time from a failed run to its receiver.

One rule concerns each job of the namespace, the others one job or one label each. None of the jobs that flow fails, so
what is measured is the price of noting nothing: the trigger of each end asks whether a rule may want it. Windows with
and without rules take turns within one flow of work, and each window with rules is held against the two around it.
Once the flow has ended, jobs fail one after the other, and a receiver of webhooks on this machine says when it heard.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID

import asyncpg

from bench import raw
from bench.cases.events import Window, cost, window
from bench.figures import percentile
from bench.harness import SQL, Case, Check, Failed, Rig, Round
from bench.stream import flowing
from bench.work import jobs, store
from tickwise.domain.model import time_id
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.rules import NoticeChannel, NoticeChannelKind, NoticeEvent, NotificationRule

RULES: Final = 10_000
PROBES: Final = 12
"""Jobs that fail, each once the one before was told of."""
FAILING: Final = json.dumps(
    {"schedule_type": "IMMEDIATE", "task": {"kind": "function", "name": "bench.twice"}, "payload": {"a": 1},
     "max_retries": 0}
)  # fmt: skip
"""A function that raises, for its payload has no number."""
IDLE_SECONDS: Final = 11.0
"""A scheduler that knows no rule looks for the first one at least this often."""


class Receiver:
    """Takes webhooks, and notes when each run was told of."""

    def __init__(self) -> None:
        self.heard: dict[UUID, asyncio.Future[float]] = {}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = next(int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:"))
                body = await reader.readexactly(size)
                at = clock()
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                for event in json.loads(body)["data"]["events"]:
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


async def stored_rules(rig: Rig, connection: asyncpg.Connection, url: str) -> None:
    """A channel, a rule about all jobs, and the others."""
    random = rig.clock.random_bytes
    fields = channel_fields(NoticeChannelKind.WEBHOOK, {"url": url}, random=random(32))
    channel = NoticeChannel(
        channel_id=_new_id(rig), namespace="default", name="bench", kind=NoticeChannelKind.WEBHOOK,
        settings=fields.settings, allow_private=True,
    )  # fmt: skip
    rule = NotificationRule(
        rule_id=_new_id(rig), namespace="default", name="all", on=frozenset({NoticeEvent.FAILURE}),
        channels=(channel.channel_id,),
    )  # fmt: skip
    async with store(rig) as opened:
        await opened.channels.add(channel, fields.secrets)
        await opened.notification_rules.add(rule)
    await connection.execute(SQL["notices_fill"], RULES - 1, rule.rule_id, timeout=120)


def _new_id(rig: Rig) -> UUID:
    return time_id(int(rig.clock.now() * 1000), rig.clock.random_bytes(10))


async def delays(rig: Rig, connection: asyncpg.Connection, heard: Receiver) -> list[float]:
    """From the end of each failed run to its receiver, in seconds. The bursts of the rule are forgotten between."""
    found = []
    async with store(rig) as opened:
        for _ in range(PROBES):
            [job] = jobs(rig, 1, definitions=[FAILING])
            if job.run_id is None:
                raise Failed("a one-time job has a run")
            heard.heard[job.run_id] = asyncio.get_running_loop().create_future()
            await opened.jobs.add([job])
            async with asyncio.timeout(30):
                at = await heard.heard[job.run_id]
            ended, now = await connection.fetchval(SQL["ended_at"], job.run_id), await connection.fetchval(SQL["now"])
            # The server's clock and the loop's: both are read now.
            found.append(at - asyncio.get_running_loop().time() + now - ended)
            await rig.clock.sleep(1.0)  # its delivery is on record by then
            await connection.execute(SQL["notices_bursts_forget"])
    return found


async def telling(rig: Rig) -> Round:
    """The rate with rules, of the rate without."""
    seconds, turns = (15.0, 5) if rig.full else (8.0, 3)
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
            await rig.clock.sleep(IDLE_SECONDS)
            with_rules.append(await window(stream, seconds))
            await connection.execute(SQL["notices_off"])
            await rig.clock.sleep(1.0)
            without.append(await window(stream, seconds))
        await stream.finish()
        await connection.execute(SQL["notices_enable"])
        await connection.execute(SQL["notices_on"])
        await rig.clock.sleep(IDLE_SECONDS)
        took = sorted(await delays(rig, connection, heard))
        await connection.execute(SQL["notices_empty"])
    around = [statistics.mean(each.rate for each in without[at : at + 2]) for at in range(turns)]
    ratios = [each.rate / rate for each, rate in zip(with_rules, around, strict=True)]
    return Round(
        statistics.median(ratios),
        {
            "ratios": [round(ratio, 3) for ratio in ratios],
            "without": [round(each.rate) for each in without],
            "cpu_us_a_run_without": cost(without),
            "cpu_us_a_run": cost(with_rules),
            "cpu_more_percent": round(100 * (cost(with_rules)["product"] / cost(without)["product"] - 1), 1),
            "told_p50_s": round(percentile(took, 0.5), 2),
            "told_most_s": round(took[-1], 2),
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
        Check("CPU for each run, more in percent", "cpu_more_percent", 3.0),
        Check("most seconds from a failed run to its receiver", "told_most_s", 2.0),
    ),
)
