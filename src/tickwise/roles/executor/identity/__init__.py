"""The identity tokens of the runs that one executor starts, and their renewal while the tasks go on.

    run_starter ──sign──► TokenIssuer ──► Assignment.identity_token ──► runner ──► the task's file
    step, before a token ends ──► TokenIssuer ──► RenewingRunner.renew_identity_token ──► the same file

Invariant: a token is signed for the attempt that is about to begin here, and renewed only while it is held here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from tickwise.domain.accounts.identity_tokens import TokenFacts
from tickwise.domain.retry import TOKEN_MISSING, TOKEN_REFUSED
from tickwise.ports.clock import Clock
from tickwise.ports.identity.tokens import SignedToken, TokenFault, TokenIssuer
from tickwise.ports.runner import Ending, RenewingRunner, Verdict
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns
from tickwise.roles.shared.service import IDLE_SECONDS

RENEWED_AT: Final = 2 / 3
"""Of its life, after which a token is renewed: the other side may be away for the rest of it."""
RETRY_SECONDS: Final = 10.0
"""Between two tries to renew a token."""
NO_ISSUER: Final = TokenFault("this executor signs no identity tokens", is_passing=True)

logger = structlog.get_logger("tickwise.executor")


@dataclass(slots=True)
class _RenewedToken:
    """The token of a task that goes on."""

    held: HeldRun
    renew_at: float
    """On the monotonic clock."""


class AttemptTokens:
    """The identity tokens of one executor."""

    def __init__(self, issuer: TokenIssuer | None, *, clock: Clock, held_runs: HeldRuns) -> None:
        self.changed = asyncio.Event()
        """Set when another token is to be renewed."""
        self._issuer = issuer
        self._clock = clock
        self._held_runs = held_runs
        self._renewed: dict[UUID, _RenewedToken] = {}

    async def sign(self, held: HeldRun) -> SignedToken | TokenFault:
        """The token of the attempt that is about to begin. Never raises."""
        claimed, wish = held.claimed, held.body.token_wish
        if self._issuer is None or wish is None:
            return NO_ISSUER
        return await self._issuer.sign(
            TokenFacts(wish, claimed.namespace, claimed.job_id, claimed.run_id, claimed.attempt)
        )

    def begun(self, held: HeldRun, token: SignedToken) -> None:
        """Renew this token while its task goes on."""
        if isinstance(held.capacity.runner, RenewingRunner):
            self._renewed[held.claimed.run_id] = _RenewedToken(held, self._renew_at(token))
            self.changed.set()

    async def step(self) -> float:
        """Renew the tokens that are due; return the time to the next."""
        now = self._clock.monotonic()
        for run_id, each in [*self._renewed.items()]:
            if not self._held_runs.holds(each.held):
                del self._renewed[run_id]
            elif each.renew_at <= now:
                await self._renew(each)
        soonest = min((each.renew_at for each in self._renewed.values()), default=None)
        return IDLE_SECONDS if soonest is None else max(0.0, min(soonest - self._clock.monotonic(), IDLE_SECONDS))

    async def _renew(self, each: _RenewedToken) -> None:
        signed = await self.sign(each.held)
        runner = each.held.capacity.runner
        if isinstance(signed, TokenFault):
            each.renew_at = self._clock.monotonic() + RETRY_SECONDS
            logger.warning("identity_token_not_renewed", run_id=str(each.held.claimed.run_id), detail=signed.detail)
        elif self._held_runs.holds(each.held) and isinstance(runner, RenewingRunner):
            each.renew_at = self._renew_at(signed)
            runner.renew_identity_token(each.held.claimed.run_id, signed.text)

    def _renew_at(self, token: SignedToken) -> float:
        return self._clock.monotonic() + RENEWED_AT * max(0.0, token.ends_at - self._clock.now())


def without_token(fault: TokenFault, now: float) -> Ending:
    """The end of an attempt that has no token: given back if that may pass, for another executor may sign it."""
    if fault.is_passing:
        return Ending(Verdict.UNOFFERED, now, now, TOKEN_MISSING, fault.detail)
    return Ending(Verdict.FAILED, now, now, TOKEN_REFUSED, fault.detail)
