"""How each part of the installation is judged, and that one that does not answer holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from tickwise.adapters.clock import SystemClock, VirtualClock
from tickwise.domain.errors import StoreUnavailable, Unavailable
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.ports.broker import BrokerState
from tickwise.ports.store import KindBacklog, StoreStats
from tickwise.roles.shared.health import (
    DiskSpace,
    HealthCheck,
    HealthReport,
    HealthSources,
    InvariantPass,
    PartStatus,
    trouble,
)
from tickwise.roles.shared.membership import RoleFacts

WELL = StoreStats(
    queued=0, held=0, retrying=0, oldest_ready_seconds=0.0, timers=0, timers_late_seconds=0.0, executors=2
)
SCHEDULER = RoleFacts(role="scheduler", name="a:1", version="1", since=0.0, invariants_at=1_800_000_000.0)
MAIL = NoticeChannelKind.EMAIL
OK, DEGRADED, FAILING = PartStatus.OK, PartStatus.DEGRADED, PartStatus.FAILING


async def look(
    stats: StoreStats | Exception = WELL,
    *,
    roles: Sequence[RoleFacts] | Exception = (SCHEDULER,),
    reachable: bool = True,
    needed: bool = False,
    space: DiskSpace | OSError | None = None,
    backlog: Mapping[NoticeChannelKind, KindBacklog] | Exception = MappingProxyType({}),
) -> HealthReport:
    """The report of these sources."""

    async def answer(what: Any) -> Any:
        if isinstance(what, Exception):
            raise what
        return what

    sources = HealthSources(
        stats=lambda: answer(stats),
        roles=lambda: answer(roles),
        broker=lambda: BrokerState(reachable, "at 10.1.2.3", 0, 0, 0, 0),
        broker_is_needed=needed,
        blobs=lambda: answer(space),
        notices=lambda: answer(backlog),
    )
    return await HealthCheck(sources, VirtualClock()).report()


async def test_an_installation_that_works_is_ok() -> None:
    """Each part says so by itself."""
    report = await look(space=DiskSpace(90, 100, 0.0))
    assert OK is report.status
    assert dict.fromkeys(report.parts, OK) == {name: part.status for name, part in report.parts.items()}
    assert report.parts.keys() == {
        "store", "executors", "oldest_ready", "timers", "broker", "signals", "schedulers", "invariants", "blobs",
        "notices",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "status", "words", "given"),
    [
        ("store", FAILING, "does not answer", {"stats": StoreUnavailable("at 10.1.2.3")}),
        ("notices", OK, "No notice waits.", {}),
        ("notices", OK, "1 notice waits, the oldest for 20 s.", {"backlog": {MAIL: KindBacklog(1, 20.0, 0)}}),
        (
            "notices",
            DEGRADED,
            "1 channel fails. 3 notices wait, the oldest for 90 s.",
            {"backlog": {MAIL: KindBacklog(2, 90.0, 0), NoticeChannelKind.SLACK: KindBacklog(1, 5.0, 1)}},
        ),
        ("notices", DEGRADED, "2 notices wait, the oldest for 301 s.", {"backlog": {MAIL: KindBacklog(2, 301.0, 0)}}),
        ("notices", DEGRADED, "cannot be known", {"backlog": StoreUnavailable("at 10.1.2.3")}),
        ("timers", DEGRADED, "cannot be known", {"stats": StoreUnavailable("away")}),
        ("timers", DEGRADED, "30 s late", {"stats": replace(WELL, timers_late_seconds=30.0)}),
        ("timers", FAILING, "61 s late", {"stats": replace(WELL, timers_late_seconds=61.0)}),
        ("executors", DEGRADED, "will wait", {"stats": replace(WELL, executors=0)}),
        ("executors", FAILING, "Start one", {"stats": replace(WELL, executors=0, oldest_ready_seconds=61.0)}),
        ("oldest_ready", DEGRADED, "waited 90 s", {"stats": replace(WELL, oldest_ready_seconds=90.0)}),
        ("broker", DEGRADED, "Runs go on", {"reachable": False}),
        ("broker", FAILING, "refused", {"reachable": False, "needed": True}),
        ("signals", DEGRADED, "by itself", {"roles": Unavailable("away", retry_after_seconds=1.0)}),
        ("schedulers", DEGRADED, "cannot be known", {"roles": Unavailable("away", retry_after_seconds=1.0)}),
        ("schedulers", FAILING, "Start one", {"roles": ()}),
        ("blobs", DEGRADED, "are free", {"space": DiskSpace(9, 100, 0.0)}),
        ("blobs", FAILING, "are free", {"space": DiskSpace(1, 100, 0.0)}),
        ("blobs", FAILING, "No output could be stored for 12 s", {"space": DiskSpace(90, 100, 12.0)}),
        ("blobs", FAILING, "does not answer", {"space": OSError("10.1.2.3:/exports")}),
    ],
)
async def test_a_part_that_is_not_well_says_so(
    part: str, status: PartStatus, words: str, given: dict[str, Any]
) -> None:
    """With a sentence, and without the addresses of other machines. The whole is as its worst part."""
    report = await look(**given)
    assert status is report.parts[part].status
    assert words in report.parts[part].sentence
    assert "10.1.2.3" not in str(report)
    ranks = [OK, DEGRADED, FAILING]
    assert max((each.status for each in report.parts.values()), key=ranks.index) is report.status


async def test_the_newest_pass_of_all_schedulers_counts() -> None:
    """What an earlier one found may be repaired by now."""
    sick = replace_facts(SCHEDULER, invariants_violated=3)
    later = replace_facts(SCHEDULER, name="b:2", invariants_at=1_800_000_060.0)
    assert OK is (await look(roles=[sick, later])).parts["invariants"].status
    found = (await look(roles=[sick])).parts["invariants"]
    assert (DEGRADED, True) == (found.status, "found 3 violations" in found.sentence)


def replace_facts(facts: RoleFacts, **more: Any) -> RoleFacts:
    """The facts of another role."""
    return RoleFacts(**{name: getattr(facts, name) for name in facts.__struct_fields__} | more)


async def test_a_part_that_hangs_is_failing_and_holds_up_no_other() -> None:
    """It is given up after a while; who asks meanwhile waits for the same look."""
    asked = 0

    async def never() -> Any:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()

    async def roles() -> Sequence[RoleFacts]:
        return [SCHEDULER]

    check = HealthCheck(HealthSources(stats=never, roles=roles), SystemClock(), look_seconds=0.05)
    report, same = await asyncio.gather(check.report(), check.report())
    assert (FAILING, OK) == (report.parts["store"].status, report.parts["schedulers"].status)
    assert (report, 1) == (same, asked)


def test_waiting_runs_are_no_trouble_of_the_scheduler() -> None:
    """The heartbeat is about what schedulers do: executors that are missing have alarms of their own."""
    assert None is trouble(replace(WELL, executors=0, oldest_ready_seconds=900.0), None)
    assert None is trouble(replace(WELL, timers_late_seconds=30.0), InvariantPass(0.0, 0, 0))
    assert None is not trouble(replace(WELL, timers_late_seconds=61.0), None)
    assert None is not trouble(WELL, InvariantPass(0.0, 1, 0))
