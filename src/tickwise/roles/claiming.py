"""What an executor takes: as much as its runners have room for, each as far ahead as suits it.

    room? ──► attempts_claim ──► taken
                  └── failed: perhaps it was carried out all the same ──► attempts_keep, before the next claim, and
                      again for a while: perhaps it still will be, by a server that stood still

Invariant: what the store gave us and we do not know of goes back, if the store did so within `RECALL_SECONDS` of
answering us again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from tickwise.domain.model import Claimed
from tickwise.ports.clock import Clock
from tickwise.ports.store import ClaimRequest, Runs
from tickwise.roles.intake import Intake
from tickwise.roles.leasing import Lease
from tickwise.roles.store_clock import StoreClock

CALM_SECONDS: Final = 0.05
"""How often runners with little to do are asked for while another one is busy."""
PREFETCH_LEAST: Final = 100
"""A claim smaller than this is not worth being sent ahead."""
AHEAD_SLOTS_SECONDS: Final = 0.6
"""How far ahead runs that need a slot are claimed: they keep the slot free until then."""
RECALL_SECONDS: Final = 120.0
"""After the first answer that follows a claim in doubt, what we hold is named again for so long, once per lease: no
client of a store waits longer for a command, and a server that is back does what it has of us in seconds."""

logger = structlog.get_logger("tickwise.executor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an executor takes at all."""

    queues: tuple[str, ...]
    labels: tuple[str, ...]
    ahead_seconds: float
    batch: int
    lease_seconds: float


class Claimer:
    """One executor's."""

    def __init__(
        self,
        *,
        runs: Runs,
        clock: Clock,
        time: StoreClock,
        lease: Lease,
        terms: Terms,
        intakes: Sequence[Intake],
        take: Callable[[Sequence[Claimed]], None],
        tokens: Callable[[], Iterable[int]],
    ) -> None:
        """`take` gets what was claimed; `tokens` tells what is known of what the store believes that we hold."""
        self.ending = False
        """Nothing more is claimed, but for what is under way."""
        self._runs = runs
        self._clock = clock
        self._time = time
        self._lease = lease
        self._terms = terms
        self._intakes = intakes
        self._take = take
        self._tokens = tokens
        self._calm_claimed_at = 0.0
        self._in_doubt = False
        self._recall_at = self._recall_until = float("-inf")
        """Of our monotonic clock."""

    async def claim(self) -> bool:
        """Take what there is room for; whether there may be more.

        While there is little to do, one claim asks for all runners at once, so that a ring costs one statement. After
        a claim that filled, each runner asks for itself, as much as it has room for and as far ahead as suits it, until
        one of its claims does not fill; meanwhile the others ask together now and then.
        """
        if self._in_doubt or self._recall_at <= self._clock.monotonic() < self._recall_until:
            await self._recover()
        ready = [intake for intake in self._intakes if intake.runner.labels() and intake.ready()]
        groups = [[intake] for intake in ready if intake.hungry]
        calm = [intake for intake in ready if not intake.hungry]
        now = self._clock.monotonic()
        if calm and (not groups or now - self._calm_claimed_at >= CALM_SECONDS):
            groups.append(calm)
            self._calm_claimed_at = now
        filled = False
        for group in groups:
            filled |= await self._claim_for(group)
        return filled

    async def _claim_for(self, group: Sequence[Intake]) -> bool:
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
            further = filled and len(group) == 1 and limit >= PREFETCH_LEAST and not self.ending
            if further:
                claim = asyncio.ensure_future(self._ask(group, limit))
                # One turn of the loop: the request is sent.
                await self._clock.sleep(0)
            for intake in group:
                intake.hungry = filled
                if rows:
                    intake.ahead_only = rows[0].due > rows[0].now
            if rows:
                self._take(rows)
            if not further:
                return filled

    def _limit(self, group: Sequence[Intake], coming: int) -> int:
        """How many to claim, with `coming` on their way into the books."""
        return min(self._terms.batch, *(intake.room() - coming for intake in group))

    async def _ask(self, group: Sequence[Intake], limit: int) -> Sequence[Claimed]:
        terms = self._terms
        # A busy runner with slots takes little ahead, so that they stay free; with little to do that is no matter.
        near = len(group) == 1 and not group[0].quick
        request = ClaimRequest(
            executor=self._lease.number,
            queues=terms.queues,
            labels=(*terms.labels, *itertools.chain.from_iterable(intake.runner.labels() for intake in group)),
            limit=limit,
            ahead_seconds=min(terms.ahead_seconds, AHEAD_SLOTS_SECONDS) if near else terms.ahead_seconds,
        )
        self._in_doubt = True
        rows = await self._runs.attempts_claim(request)
        self._in_doubt = False
        return rows

    async def _recover(self) -> None:
        """A claim failed, and may have been carried out all the same: what the store says is ours and we do not know
        goes back. Nobody else would ever free it, because we go on living."""
        number = self._lease.number
        returned = await self._runs.attempts_keep(number, [*self._tokens()], self._time.now())
        now = self._clock.monotonic()
        if self._in_doubt:
            self._recall_until = now + RECALL_SECONDS
        self._recall_at = now + self._terms.lease_seconds
        self._in_doubt = False
        if returned:
            logger.warning("claim_given_back", executor=number, count=returned)
