"""The report of `tickwise db restored`: a new epoch has begun, and this is going to run again.

It asks the same pure function as the schedulers (`domain/decision.py`) about each timer in the past, and leaves the
timers as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tickwise.domain.audit import sessions_by_program
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.decision import decide
from tickwise.domain.fencing import first_token
from tickwise.domain.model import Claimed
from tickwise.ports.store import ExecutorRow, FireRequest, Store, Timer
from tickwise.roles.scheduler.fires import TakenTimers, read_plan
from tickwise.wiring.findings import written
from tickwise.wiring.keys.returned_keys import ReturnedKey, logged_ends, returned_keys

MAX_TIMERS: Final = 5_000
"""The most timers in the past that are looked at: some seconds of a scheduler's work."""
MAX_JOBS_SHOWN: Final = 50
MAX_HELD_SHOWN: Final = 50
GREATEST_TOKEN: Final = (1 << 53) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueJob:
    """A job with occurrences in the past, and what its `misfire` rule makes of them."""

    namespace: str
    job_id: str
    name: str
    since: str
    """Nominal time of the first, RFC 3339."""
    runs: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeld:
    """A run that an executor holds, as the store has it."""

    namespace: str
    run_id: str
    job_id: str
    name: str
    executor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The findings of a new epoch."""

    epoch: int
    tokens_from: int
    """Fencing tokens are greater than this from now on."""
    queued: int
    retrying: int
    held: int
    """Runs that executors hold, as the store has it."""
    executors: int
    """The executors that have one lease to answer. The runs of one that does not run again, or go by `on_unknown`."""
    holding: Sequence[RunHeld]
    """Some of these runs, `MAX_HELD_SHOWN` at most."""
    jobs: int
    """With occurrences in the past."""
    runs: int
    """Made of these, …"""
    skipped: int
    """… and occurrences that are only put on record."""
    more: bool
    """There are further jobs with occurrences in the past."""
    overdue: Sequence[OverdueJob]
    """The first of them, the earliest first."""
    browser_sessions_ended: int
    """The sessions of browsers that the backup holds as good. Some of them had ended since."""
    returned_keys: Sequence[ReturnedKey] | None = None
    """The keys that work again though the logs say that they were taken away. None: no log was given."""

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        found = asdict(self)
        if self.returned_keys is not None:
            found["returned_keys"] = [each._asdict() for each in self.returned_keys]
        return found

    def as_text(self) -> str:
        """Lines for people."""
        lines = [
            f"A new epoch has begun: {self.epoch}. Fencing tokens go on above {self.tokens_from}.",
            f"{self.queued} runs are queued and {self.retrying} wait for a retry: they run.",
            f"{self.held} runs are held by {self.executors} executors. Those of executors that do not answer within "
            f"their lease run again, or end as their job's on_unknown says.",
            *self._held_as_text(),
            f"{self.jobs}{' and more' if self.more else ''} jobs have occurrences in the past: {self.runs} runs are "
            f"made of them, and {self.skipped} occurrences are skipped (misfire).",
        ]
        lines += [
            f"  {job.name} ({job.namespace}), since {job.since}: {job.runs} runs, {job.skipped} skipped"
            for job in self.overdue
        ]
        if self.jobs > len(self.overdue):
            lines.append(f"  … and {self.jobs - len(self.overdue)} more")
        ended = self.browser_sessions_ended
        lines.append(
            f"{ended} sessions of browsers ended: people sign in again." if ended else "No browser was signed in."
        )
        return "\n".join([*lines, *self._keys_as_text()])

    def _held_as_text(self) -> list[str]:
        lines = [f"  {run.name} ({run.namespace}), run {run.run_id}, by {run.executor}" for run in self.holding]
        more = self.held - len(self.holding)
        if more <= 0:
            return lines
        return [*lines, f"  … and {more} more"] if lines else [f"  ({more} that no active executor holds any more)"]

    def _keys_as_text(self) -> list[str]:
        if self.returned_keys is None:
            return [
                "Keys that were revoked or rotated after the backup work as they did then. Name the logs of the API "
                "since then (--log FILE), and they are found."
            ]
        if not self.returned_keys:
            return ["No key came back that the logs say was taken away."]
        again = all(key.revoked for key in self.returned_keys)
        head = f"{len(self.returned_keys)} keys came back that were taken away since the backup"
        return [
            f"{head}, and are revoked now:" if again else f"{head}; revoke them with --revoke:",
            *(f"  {key.key_id} {key.name}: {_key_in_words(key)}" for key in self.returned_keys),
        ]


def _key_in_words(key: ReturnedKey) -> str:
    """The fate of a key that the backup holds as it was."""
    if key.why == "revoked":
        return "revoked after the backup, and now again" if key.revoked else "works again: revoked after the backup"
    return (
        "rotated after the backup, revoked now"
        if key.revoked
        else "its old secret works again: rotated after the backup"
    )


def restored(make: Callable[[], Store], logs: Sequence[Path] = (), *, revoke: bool = False) -> Restored:
    """Begin an epoch, and say what follows from it. `make` gives the store, not yet open.

    `logs`: those of the API since the backup, by which keys that came back are found, and with `revoke` revoked again.
    Raises `Misconfigured`, `StoreUnavailable`.
    """
    ends = logged_ends(logs) if logs else None
    return asyncio.run(_restored(make, ends, revoke=revoke))


async def _restored(make: Callable[[], Store], ends: Mapping[UUID, int | None] | None, *, revoke: bool) -> Restored:
    store = make()
    await store.open()
    try:
        report = await begin_and_report(store)
        if ends is None:
            return report
        return replace(report, returned_keys=await returned_keys(store.keys, ends, revoke=revoke))
    finally:
        await store.close()


async def begin_and_report(store: Store) -> Restored:
    """See `restored`."""
    epoch = await store.epochs.begin()
    # A sign-out, a revoked key and another password ended sessions that the backup holds as good: all end.
    ended = await store.browser_sessions.end_all(audit=sessions_by_program("the database was restored", INSTALLATION))
    stats = await store.upkeep.stats()
    active = [row for row in await store.executors.all() if row.gone_at is None]
    async with TakenTimers(store.timers, FireRequest(horizon_seconds=0.0, limit=MAX_TIMERS + 1, once=True)) as batch:
        timers, now = batch.timers, batch.now
    judged = [(timer, *_judged(timer, now)) for timer in timers[:MAX_TIMERS]]
    shown = [await _shown(store, timer, runs, skipped) for timer, runs, skipped in judged[:MAX_JOBS_SHOWN]]
    return Restored(
        epoch=epoch,
        tokens_from=first_token(epoch),
        queued=stats.queued,
        retrying=stats.retrying,
        held=stats.held,
        executors=len(active),
        holding=await _holding(store, active, stats.held),
        jobs=len(judged),
        runs=sum(runs for _, runs, _ in judged),
        skipped=sum(skipped for _, _, skipped in judged),
        more=len(timers) > MAX_TIMERS,
        overdue=shown,
        browser_sessions_ended=ended,
    )


async def _holding(store: Store, executors: Sequence[ExecutorRow], held: int) -> list[RunHeld]:
    """Some of the runs that these hold; `held`: the number of all."""
    found: list[RunHeld] = []
    # A count may be that of the last heartbeat, so those with none are asked, too, as long as runs are missing.
    for row in sorted(executors, key=lambda row: -row.held):
        room = min(MAX_HELD_SHOWN, held) - len(found)
        if room <= 0:
            break
        runs = sorted(await store.held.tokens(row.executor, GREATEST_TOKEN))[:room]
        found += [await _held(store, each, row) for each in await store.held.take_again(row.executor, runs)]
    return found


async def _held(store: Store, claimed: Claimed, executor: ExecutorRow) -> RunHeld:
    job = await store.jobs.get(claimed.namespace, claimed.job_id)
    return RunHeld(
        namespace=claimed.namespace,
        run_id=str(claimed.run_id),
        job_id=str(claimed.job_id),
        name="" if job is None else job.name,
        executor=executor.name,
    )


def _judged(timer: Timer, now: float) -> tuple[int, int]:
    """Runs and skipped occurrences that a timer comes to, but for calendars and windows."""
    decision = decide(read_plan(timer.definition, timer.job_id).schedule, timer.pending, now=now, until=now)
    return len(decision.fires), sum(skip.occurrences for skip in decision.skips)


async def _shown(store: Store, timer: Timer, runs: int, skipped: int) -> OverdueJob:
    job = await store.jobs.get(timer.namespace, timer.job_id)
    return OverdueJob(
        namespace=timer.namespace,
        job_id=str(timer.job_id),
        name="" if job is None else job.name,
        since=written(timer.pending.due),
        runs=runs,
        skipped=skipped,
    )
