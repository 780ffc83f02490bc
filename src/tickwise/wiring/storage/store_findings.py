"""The findings of `tickwise doctor` on what any store holds: its time, lost writes, executors, and what is late."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

from tickwise.ports.clock import Clock
from tickwise.ports.store import Epoch, EpochCause
from tickwise.wiring.findings import SKEW_SECONDS, DoctorFinding

LATE_SECONDS: Final = 60.0
"""A run that waits longer is reported."""
RECENT_SECONDS: Final = 7 * 86_400.0
"""A failover that lost something is worth a warning for so long."""
PAGE: Final = "docs/how-to/failover-and-restore.md"
WORDS: Final = {
    EpochCause.PROMOTED: "a standby took over",
    EpochCause.RESTORED: "a backup was restored",
    EpochCause.WENT_BACK: "the database went back in time",
    EpochCause.TOLD: "an operator said that a backup was restored",
}


async def store_findings(store: Any, clock: Clock) -> AsyncIterator[DoctorFinding]:
    """The findings on a store that is open. Raises `StoreUnavailable`."""
    skew = await store.now() - clock.now()
    if abs(skew) > SKEW_SECONDS:
        yield DoctorFinding("clock", "warning", f"this machine is {-skew:+.1f} s off the database", "run an NTP client")
    else:
        yield DoctorFinding("clock", "ok", f"within {SKEW_SECONDS:.0f} s of the database")
    async for finding in _continuity(store):
        yield finding
    stats = await store.upkeep.stats()
    if stats.executors:
        yield DoctorFinding("executors", "ok", f"{stats.executors} alive")
    else:
        yield DoctorFinding("executors", "warning", "none is alive: nothing will run", "start one: tickwise executor")
    if stats.timers_late_seconds > LATE_SECONDS:
        late = f"the oldest timer is {stats.timers_late_seconds:.0f} s late"
        yield DoctorFinding("lateness", "error", late, "start a scheduler, or look at the logs of those that run")
    elif stats.oldest_ready_seconds > LATE_SECONDS:
        waits = f"the oldest of {stats.queued} queued runs waits for {stats.oldest_ready_seconds:.0f} s"
        advice = (
            "start executors, or ones that meet its requirements: `tickwise runs show` gives the reason of its wait"
        )
        yield DoctorFinding("lateness", "warning", waits, advice)
    else:
        yield DoctorFinding("lateness", "ok", f"{stats.queued} queued, {stats.timers} timers, none overdue")


async def _continuity(store: Any) -> AsyncIterator[DoctorFinding]:
    """The findings about lost writes: the store lost acknowledged writes, or executors hold newer results than the
    store."""
    epoch, now = (await store.epochs.all())[0], await store.now()
    if epoch.cause is EpochCause.FIRST:
        yield DoctorFinding("continuity", "ok", "the database was never set back")
    else:
        yield _of_epoch(epoch, now)
    differing = [row for row in await store.executors.all() if row.gone_at is None and row.differs]
    if differing:
        runs, since = sum(row.differs for row in differing), min(row.differing_since or now for row in differing)
        yield DoctorFinding(
            "held runs", "error",
            f"{runs} runs are held otherwise than the database says, by the word of {len(differing)} executors, since "
            f"{written(since)}",
            f"executors put it right within seconds; if it lasts, restart them ({PAGE})",
        )  # fmt: skip


def _of_epoch(epoch: Epoch, now: float) -> DoctorFinding:
    text = f"{WORDS.get(epoch.cause, epoch.cause)} at {written(epoch.began_at)}: epoch {epoch.epoch}"
    if epoch.timeline is not None:
        text += f", timeline {epoch.timeline}"
    if not epoch.lost_writes:
        return DoctorFinding("continuity", "ok", f"{text}; no loss was noticed")
    text += f"; acknowledged writes were lost, {epoch.differed} runs differed and were put right"
    if now - epoch.began_at > RECENT_SECONDS:
        return DoctorFinding("continuity", "ok", text)
    return DoctorFinding(
        "continuity", "warning", text, f"compare the answers that clients received before that: {PAGE}"
    )


def written(instant: float) -> str:
    """A time in RFC 3339, in seconds, in UTC."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds")
