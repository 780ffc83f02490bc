"""Claims as many runs as the runners have room for, each runner's as far ahead as suits it.

    room? ──► hints? ──► attempts.claim of these ──► taken
       │                     └── failed: in doubt ──► executors.release_unknown, before the next
       └── none, or for long: attempts.claim     claim, and again for a while: perhaps it still will be, by a server
                                                 that stood still

Runs that hold counted capacities come one at a time (`ledger`): the first of all runs that each runner can take is
claimed alone, as long as it is one of those, and then the others are claimed in batches.

Without a broker, or while it is away, every wake-up leads to a claim of any ready runs. With one, hints name new runs,
and any ready runs are claimed every `poll_seconds`, repeatedly while the claim fills the room.

Invariant: what the store gave us and we do not know of goes back, if the store did so within `RECALL_SECONDS` of
answering us again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Sequence
from typing import Final
from uuid import UUID

import structlog

from tickwise.domain.model import Claimed
from tickwise.ports.clock import Clock
from tickwise.ports.store import AttemptStore, ClaimRequest, ExecutorStore
from tickwise.roles.executor.admission import Admission
from tickwise.roles.executor.answered_claims import log_given_back
from tickwise.roles.executor.capacity import AHEAD_SLOTS_SECONDS, RunnerCapacity
from tickwise.roles.executor.claim_hints import Hinting, ahead_of
from tickwise.roles.executor.held_runs import HeldRuns, is_counted
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.service import IDLE_SECONDS, Telemetry

CLAIM_GAP_SECONDS: Final = 0.001
"""Between two claims that did not fill, so that a ring for each submit does not become a claim for each submit. Rings
of one process are 2 ms apart; a longer gap would add its own half to what an immediate job waits."""
CALM_SECONDS: Final = 0.05
"""The interval at which runners with little to do claim while another one is busy."""
PREFETCH_LEAST: Final = 100
"""A claim smaller than this is not worth being sent ahead."""
ANSWER_SECONDS: Final = 0.05
"""A claim that filled and took longer is followed by one of as many more runs: two claims at most are under way, so
a store that answers after 150 ms (a keeper on Cassandra) would give 3,000 runs a second to one executor."""
LARGE_CLAIM: Final = 2_000
"""Runs of such a claim at most."""
LOOK_SECONDS: Final = 1.0
"""The interval at which an executor that is busy with hinted runs looks for others: runs whose hints were lost, and
what became free long after it was ready."""
MAX_SINGLY: Final = 16
"""Runs claimed one at a time before the others get a turn."""
LEAST_SECONDS: Final = 0.001
"""Shorter pauses are not worth a timer."""
RECALL_SECONDS: Final = 120.0
"""After the first answer that follows a claim in doubt, what we hold is named again for so long, once per lease: no
client of a store waits longer for a command, and a server that is back does what it has of us in seconds."""

logger = structlog.get_logger("tickwise.executor")


class ClaimLoop:
    """Claims runs for one executor."""

    def __init__(
        self,
        *,
        attempts: AttemptStore,
        executors: ExecutorStore,
        clock: Clock,
        time: StoreClock,
        lease: Lease,
        settings: ExecutorSettings,
        capacities: Sequence[RunnerCapacity],
        held_runs: HeldRuns,
        admission: Admission,
        telemetry: Telemetry,
        wake: asyncio.Event,
        hinting: Hinting | None = None,
    ) -> None:
        """`wake` brings the next step forward."""
        self._attempts = attempts
        self._executors = executors
        self._clock = clock
        self._time = time
        self._lease = lease
        self._settings = settings
        self._capacities = capacities
        self._held_runs = held_runs
        self._ledger = held_runs.ledger
        self._admission = admission
        self._wake = wake
        self._hinting = hinting
        self._telemetry = telemetry
        self._calm_claimed_at = 0.0
        self._answer_seconds = 0.0
        """Of the newest claim, if it filled."""
        self._in_doubt = False
        self._afresh = False
        self._recall_at = self._recall_until = float("-inf")
        """Of our monotonic clock."""

    async def step(self) -> float:
        """One claim, if the lease stands. Returns the seconds until the next."""
        if self._held_runs.closed:
            return IDLE_SECONDS
        if self._lease.stands() and await self._claim():
            return 0.0
        await self._clock.sleep(CLAIM_GAP_SECONDS)
        return self._until_look()

    async def _claim(self) -> bool:
        """Claim as many runs as there is room for; True if there may be more."""
        if self._in_doubt or self._recall_at <= self._clock.monotonic() < self._recall_until:
            await self._recover()
        ready = [capacity for capacity in self._capacities if capacity.runner.labels() and capacity.ready()]
        more = False
        if self._ledger.is_counting:
            more = await self._claim_singly(ready)
            ready = [capacity for capacity in ready if capacity.ready()]
        hinting = self._hinting
        if hinting is None or not hinting.reachable():
            return await self._claim_any(ready) or more
        hinting.ripen()
        for capacity in ready:
            if hinting.waiting(capacity):
                more |= await self._claim_named(hinting, capacity)
        now = self._clock.monotonic()
        return await self._claim_any([each for each in ready if self._looks(each, hinting, now)]) or more

    async def _claim_singly(self, ready: Sequence[RunnerCapacity]) -> bool:
        """Claim runs that hold counted capacities, each alone, so that none comes for which there is no room; return
        whether there may be more. The store gives the most urgent run of all, counted or not: so neither kind starves
        the other."""
        for awaited in self._ledger.to_look_for() if ready else ():
            rows = await self._ask_singly(ready, self._ledger.offered(), (awaited.run_id,))
            if not rows:
                self._ledger.not_found(awaited.run_id)
        more = False
        for capacity in ready:
            for _ in range(MAX_SINGLY):
                labels = self._ledger.counted_labels()
                if not labels or capacity.room() <= 0 or self._held_runs.closed:
                    break
                rows = await self._ask_singly((capacity,), (*self._ledger.labels(), *labels))
                if not rows or not is_counted(rows[0]):
                    break
            else:
                more = True
        return more

    async def _ask_singly(
        self, group: Sequence[RunnerCapacity], labels: Sequence[str], runs: Sequence[UUID] | None = None
    ) -> Sequence[Claimed]:
        """Claim one run with these labels besides the usual ones, and take it in."""
        request = self._request(group, 1, min(self._settings.ahead_seconds, AHEAD_SLOTS_SECONDS), runs, labels)
        self._in_doubt = True
        rows = await self._attempts.claim(request)
        self._in_doubt = False
        if rows:
            self._admission.take(rows, by_name=runs is not None)
        return rows

    async def look_afresh(self) -> float:
        """Claim from the start of each queue: a queue goes on, whose runs have no hint, and which the last claims read
        past."""
        self._afresh = True
        for capacity in self._capacities:
            capacity.looked_at = float("-inf")
        self._wake.set()
        return IDLE_SECONDS

    def _until_look(self) -> float:
        """The time until the next look for runs that no hint names."""
        poll = self._settings.poll_seconds
        if self._hinting is None or not self._hinting.reachable():
            return poll
        ready = [capacity.looked_at for capacity in self._capacities if capacity.runner.labels() and capacity.ready()]
        look = min(ready, default=self._clock.monotonic()) + poll - self._clock.monotonic()
        ripe = self._hinting.ripen()
        return max(min(look, poll if ripe is None else ripe), LEAST_SECONDS)

    def _looks(self, capacity: RunnerCapacity, hinting: Hinting, now: float) -> bool:
        """Check whether it is time to claim any ready runs for this runner: its last such claim was full, or is long
        ago."""
        if hinting.waiting(capacity):
            return now - capacity.looked_at >= max(LOOK_SECONDS, self._settings.poll_seconds)
        return capacity.hungry or now - capacity.looked_at >= self._settings.poll_seconds

    async def _claim_any(self, ready: Sequence[RunnerCapacity]) -> bool:
        """Claim any ready runs for these runners; return whether there may be more.

        While there is little to do, one claim asks for all runners at once, so that a ring costs one statement. After
        a claim that filled, each runner asks for itself, as much as it has room for and as far ahead as suits it, until
        one of its claims does not fill; meanwhile the others ask together now and then.
        """
        groups = [[capacity] for capacity in ready if capacity.hungry]
        calm = [capacity for capacity in ready if not capacity.hungry]
        now = self._clock.monotonic()
        if calm and (not groups or now - self._calm_claimed_at >= CALM_SECONDS):
            groups.append(calm)
            self._calm_claimed_at = now
        filled = False
        for group in groups:
            for capacity in group:
                capacity.looked_at = now
            filled |= await self._claim_for(group)
        return filled

    async def _claim_for(self, group: Sequence[RunnerCapacity]) -> bool:
        """Claim for these runners; whether the last claim filled, so that there may be more.

        While one runner's claims fill, the next is on its way to the store before the last one's runs are looked at:
        store and executor then work at the same time, instead of waiting for each other.
        """
        limit = self._limit(group, 0)
        claim: Awaitable[Sequence[Claimed]] = self._ask(group, limit)
        while True:
            rows = await claim
            filled = len(rows) >= limit
            limit = self._limit(group, len(rows))
            further = filled and len(group) == 1 and limit >= PREFETCH_LEAST and not self._held_runs.closed
            if further:
                claim = asyncio.ensure_future(self._ask(group, limit))
                # One turn of the loop: the request is sent.
                await self._clock.sleep(0)
            for capacity in group:
                capacity.hungry = filled
                if rows:
                    capacity.ahead_only = rows[0].due > rows[0].now
            if rows:
                self._admission.take(rows)
            if not further:
                return filled

    def _limit(self, group: Sequence[RunnerCapacity], coming: int) -> int:
        """The number of runs to claim, with `coming` about to be held."""
        batch = self._settings.claim_batch
        if self._answer_seconds > ANSWER_SECONDS:
            batch = max(batch, min(LARGE_CLAIM, int(batch * self._answer_seconds / ANSWER_SECONDS)))
        return min(batch, *(capacity.room() - coming for capacity in group))

    async def _ask(self, group: Sequence[RunnerCapacity], limit: int) -> Sequence[Claimed]:
        # A busy runner with slots takes little ahead, so that they stay free; with little to do that is no matter.
        near = len(group) == 1 and not group[0].quick
        ahead = min(self._settings.ahead_seconds, AHEAD_SLOTS_SECONDS) if near else self._settings.ahead_seconds
        self._in_doubt = True
        request, self._afresh = self._request(group, limit, ahead), False
        began = self._clock.monotonic()
        try:
            rows = await self._attempts.claim(request)
        except BaseException:
            self._afresh |= request.afresh
            raise
        self._in_doubt = False
        self._answer_seconds = self._clock.monotonic() - began if len(rows) >= limit else 0.0
        return rows

    def _request(
        self,
        group: Sequence[RunnerCapacity],
        limit: int,
        ahead_seconds: float,
        runs: Sequence[UUID] | None = None,
        counted: Sequence[str] | None = None,
    ) -> ClaimRequest:
        """`counted`: the labels of counted capacities; None: those for claims of many runs."""
        settings = self._settings
        offered = itertools.chain.from_iterable(capacity.runner.labels() for capacity in group)
        return ClaimRequest(
            executor=self._lease.number,
            queues=settings.queues,
            labels=(*settings.labels, *offered, *(self._ledger.labels() if counted is None else counted)),
            limit=limit,
            ahead_seconds=ahead_seconds,
            afresh=self._afresh,
            runs=runs,
        )

    async def _claim_named(self, hinting: Hinting, capacity: RunnerCapacity) -> bool:
        """Claim for this runner what hints name; whether more of them wait. As in `_claim_for`, one claim is on its way
        while the runs of the last one are looked at."""
        limit = self._limit((capacity,), 0)
        claim: Awaitable[Sequence[Claimed]] = self._ask_named(hinting, capacity, limit)
        while True:
            rows = await claim
            limit = self._limit((capacity,), len(rows))
            further = min(hinting.waiting(capacity), limit) >= PREFETCH_LEAST and not self._held_runs.closed
            if further:
                claim = asyncio.ensure_future(self._ask_named(hinting, capacity, limit))
                await self._clock.sleep(0)
            if rows:
                capacity.ahead_only = rows[0].due > rows[0].now
                self._admission.take(rows)
            if not further:
                return hinting.waiting(capacity) > 0

    async def _ask_named(self, hinting: Hinting, capacity: RunnerCapacity, limit: int) -> Sequence[Claimed]:
        named = hinting.take(capacity, limit)
        request = self._request((capacity,), limit, ahead_of(capacity, self._settings), named.runs)
        self._in_doubt = True
        try:
            rows = await self._attempts.claim(request)
        except BaseException:
            hinting.untake(capacity, named)
            raise
        self._in_doubt = False
        hinting.claimed(named)
        self._telemetry.hinted(named=len(named.runs), claimed=len(rows))
        return rows

    async def _recover(self) -> None:
        """A claim failed, and may have been carried out all the same: what the store says is ours and we do not know
        goes back. No other process would ever free it, because this executor stays active."""
        number = self._lease.number
        returned = await self._executors.release_unknown(number, [*self._admission.known_tokens()], self._time.now())
        now = self._clock.monotonic()
        if self._in_doubt:
            self._recall_until = now + RECALL_SECONDS
        self._recall_at = now + self._settings.lease_seconds
        self._in_doubt = False
        log_given_back(number, returned)
