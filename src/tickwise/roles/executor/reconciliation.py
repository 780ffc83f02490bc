"""Compares the runs that this executor holds with those on the store's record, both ways, after each heartbeat.

    digests alike? ── yes ──► done
        └── no: the list, twice
              ├── the store says that we hold a run, and we do not
              │      ├── its claim was never answered ──► given back as never claimed, not counted
              │      └── its end was acknowledged and then lost
              │             ├── remembered ─────────► reported again
              │             └── else ───────────────► what it did is unknown: the job's `on_unknown` decides
              └── we hold a run, and the store does not say so: its claim was lost; the task is stopped, unreported

A database behind asynchronous replication forgets its last commits when its standby takes over; leases free nothing
then, because this executor lives (docs/decisions/0033).

Invariant: no false alarm. While the store answers, an outcome on its way is in the outbox before the question or after
the answer; one claim is under way at a time, under a token above all that were answered. So a run counts as different
only if it is on one side alone both before the question and after the answer, for two questions in a row. A server that
stood still may carry out a claim that we gave up, and then answer another: a run under the token of a claim that was
never answered is given back, and does not count. What is stopped because this executor leaves is held until it has
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

import msgspec
import structlog

from tickwise.domain.fencing import digest_of
from tickwise.domain.model import Claimed, Outcome
from tickwise.ports.clock import Clock
from tickwise.ports.store import HeldRunStore
from tickwise.roles.executor.answered_claims import AnsweredClaims, log_given_back
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns, RunStage, read_body
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.outcomes import end_lost, never_answered, unreadable
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.service import Telemetry

SHARE: Final = 100.0
"""Comparing takes a hundredth of the time at most, however much the store has to read for it."""
SLOW_SECONDS: Final = 2.0
SLOW_IN_A_ROW: Final = 3
"""A comparison that took longer than that may have waited for a store that was away, which is no cost of it. So many
in a row have not."""
MAX_PAUSE_SECONDS: Final = 300.0
"""The longest pause: a difference that no epoch tells of is found by then."""
MAX_UNSURE: Final = 3
"""After so many digests in a row that differed while runs ended, the list is asked for."""
THOROUGH_EVERY: Final = 100
"""The interval, in comparisons, at which the list is read although digests agree: a digest covers lanes that this
executor has claimed from."""
MAX_COUNTED: Final = 10_000
MAX_SHOWN: Final = 20

Pair = tuple[UUID, int]
"""A run and the token under which it is held."""

logger = structlog.get_logger("tickwise.executor")


class Reconciliation:
    """Compares one executor with the store."""

    def __init__(
        self,
        held: HeldRunStore,
        *,
        clock: Clock,
        time: StoreClock,
        lease: Lease,
        answered: AnsweredClaims,
        held_runs: HeldRuns,
        outbox: Outbox,
        telemetry: Telemetry,
        pause_seconds: float,
    ) -> None:
        """At least `pause_seconds` pass between two comparisons."""
        self.wake = asyncio.Event()
        self.differs = 0
        """Runs that are on one side alone, as the last comparison found."""
        self._held_on_record = held
        self._clock = clock
        self._time = time
        self._lease = lease
        self._answered = answered
        self._held_runs = held_runs
        self._outbox = outbox
        self._telemetry = telemetry
        self._pause_seconds = pause_seconds
        self._epoch: int | None = None
        self._upto = 0
        self._unsure = 0
        self._count = 0
        self._thorough = False
        self._slow = 0
        """Slow comparisons in a row."""
        self._next_at = float("-inf")
        self._counted: dict[Pair, None] = {}
        self._stopped: Collection[Pair] = ()

    def heard(self, epoch: int) -> None:
        """Take in the epoch of a heartbeat's answer. A new epoch makes every held run doubtful."""
        if self._epoch is not None and epoch != self._epoch:
            logger.warning("store_set_back", executor=self._lease.number, epoch=epoch, before=self._epoch)
            self.doubt()
        self._epoch = epoch

    def doubt(self) -> None:
        """Compare every run with the store at once, for there is a sign that the store and this executor differ."""
        self._thorough = True
        self._next_at = float("-inf")
        self.wake.set()

    def forget(self) -> None:
        """The store has expired this executor: it holds nothing any more."""
        self._answered.forget()
        self.differs = self._upto = self._unsure = 0
        self._thorough = False

    async def compare(self) -> float:
        """One comparison, if its time has come and the lease stands. Returns the seconds until the next."""
        now = self._clock.monotonic()
        upto, number = self._upto, self._lease.number
        if now < self._next_at:
            return self._next_at - now
        if not number or not self._lease.stands():
            return self._pause_seconds
        self._upto = self._answered.highest
        self._count += 1
        thorough = self._thorough or self._count % THOROUGH_EVERY == 0
        if thorough or not await self._is_alike(number, upto):
            self._thorough = False
            try:
                await self._compare_in_full(number)
            except BaseException:
                self._thorough = thorough
                raise
        took = self._clock.monotonic() - now
        self._slow = self._slow + 1 if took > SLOW_SECONDS else 0
        pause = self._pause_seconds
        if self._slow in (0, SLOW_IN_A_ROW):
            self._slow = 0
            pause = max(pause, min(SHARE * took, MAX_PAUSE_SECONDS))
        self._next_at = self._clock.monotonic() + pause
        if self._thorough:
            self._next_at = float("-inf")
            return 0.0
        return pause

    def leaving(self, stopped: Collection[Pair]) -> None:
        """Note the runs that are stopped because this executor leaves. Their ends are not reported: until it has left,
        the store is right that it holds them."""
        self._stopped = stopped

    async def settle(self) -> None:
        """Before this executor leaves: what the store believes to be held here, beyond what was stopped for that, has
        ended. The store would take it for what never began."""
        number, upto = self._lease.number, self._answered.highest
        if upto:
            lost, _ = await self._look(number, upto)
            await self._report_again(number, lost)

    # ------------------------------------------------------------------ digests

    async def _is_alike(self, number: int, upto: int) -> bool:
        """Check whether both sides have equal digests of the runs claimed before the last comparison. A difference
        counts as equal, a few times in a row, while outcomes under way may explain it."""
        if not upto:
            return True
        live = self._held_runs.live
        before = [held for held in live.values() if held.claimed.token <= upto]
        sent = any(token <= upto for _, token in self._outbox.pairs())
        mine = digest_of((held.claimed.run_id, held.claimed.token) for held in before)
        theirs = await self._held_on_record.digest(number, upto)
        if theirs == mine:
            self.differs = self._unsure = 0
            return True
        if sent or any(live.get(held.claimed.run_id) is not held for held in before):
            self._unsure += 1
            return self._unsure < MAX_UNSURE
        return False

    # ------------------------------------------------------------------ lists

    async def _compare_in_full(self, number: int) -> None:
        self._unsure = 0
        upto = self._answered.highest
        lost, stray = await self._look(number, upto)
        if lost or stray:
            again_lost, again_stray = await self._look(number, upto)
            still_lost, still_stray = set(again_lost), {id(held) for held in again_stray}
            lost = [pair for pair in lost if pair in still_lost]
            stray = [held for held in stray if id(held) in still_stray]
        if number != self._lease.number:
            return
        if not lost and not stray:
            self.differs = 0
            return
        unheard = self._unheard(lost)
        differing = [*(pair for pair in lost if pair not in unheard), *map(_pair, stray)]
        self.differs = len(differing)
        await self._count_them(differing)
        self._stop(stray)
        await self._report_again(number, lost)

    async def _look(self, number: int, upto: int) -> tuple[list[Pair], list[HeldRun]]:
        """Pairs that only the store knows, and runs that only we do. Of one whose start is being recorded, the store's
        answer says whether it is ours still."""
        before = set(self._known())
        mine = [*self._held_runs.live.values()]
        listed = await self._held_on_record.tokens(number, upto)
        known = before.union(self._known())
        lost = [pair for pair in listed.items() if pair not in known]
        stray = [
            held
            for held in mine
            if held.claimed.token <= upto
            and held.stage is not RunStage.STARTING
            and self._held_runs.holds(held)
            and listed.get(held.claimed.run_id) != held.claimed.token
        ]
        return lost, stray

    def _known(self) -> Iterator[Pair]:
        yield from map(_pair, self._held_runs.live.values())
        yield from self._outbox.pairs()
        yield from self._stopped

    def _unheard(self, lost: Sequence[Pair]) -> Collection[Pair]:
        """The lost runs whose claim was never answered, and which were not given back before: the store lost nothing
        there."""
        told = self._outbox.remembered(lost)
        return {pair for pair in lost if pair not in told and self._answered.never_came(pair[1])}

    async def _count_them(self, pairs: Iterable[Pair]) -> None:
        """Each is told of once, however often it is found."""
        fresh = [pair for pair in pairs if pair not in self._counted]
        if not fresh:
            return
        while len(self._counted) + len(fresh) > MAX_COUNTED and self._counted:
            del self._counted[next(iter(self._counted))]
        await self._held_on_record.differed(len(fresh))
        self._counted |= dict.fromkeys(fresh)
        self._telemetry.differed(len(fresh))
        runs = [str(run_id) for run_id, _ in fresh[:MAX_SHOWN]]
        logger.error("held_otherwise", executor=self._lease.number, count=len(fresh), runs=runs)

    def _stop(self, stray: Sequence[HeldRun]) -> None:
        """The store gives, or has given, these to others."""
        for held in stray:
            if self._held_runs.holds(held):
                self._held_runs.abandon(held)
                self._held_runs.idle.set()

    async def _report_again(self, number: int, lost: Sequence[Pair]) -> None:
        """Let runs go on that only the store believes to be held here: report their remembered outcomes again, and
        return the others."""
        remembered = self._outbox.remembered(lost)
        for outcome in remembered.values():
            self._outbox.add_unheld(outcome)
        rest = [run_id for run_id, token in lost if (run_id, token) not in remembered]
        if not rest:
            return
        tokens = dict(lost)
        rows = await self._held_on_record.take_again(number, rest)
        known, now = set(self._known()), self._time.now()
        if number != self._lease.number:
            return
        returned = 0
        for claimed in rows:
            pair = claimed.run_id, claimed.token
            if tokens[claimed.run_id] != claimed.token or pair in known:
                continue
            if self._answered.never_came(claimed.token):
                self._outbox.add_unheld(never_answered(claimed, now))
                returned += 1
            else:
                self._outbox.add_unheld(self._end_of(claimed, now))
        log_given_back(number, returned)

    def _end_of(self, claimed: Claimed, now: float) -> Outcome:
        try:
            return end_lost(claimed, read_body(claimed.spec).work.on_unknown, now)
        except (msgspec.MsgspecError, KeyError) as wrong:
            return unreadable(claimed, now, f"{type(wrong).__name__}: {wrong}")


def _pair(held: HeldRun) -> Pair:
    return held.claimed.run_id, held.claimed.token
