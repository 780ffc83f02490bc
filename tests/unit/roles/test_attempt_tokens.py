"""Identity tokens of an executor: signed when a run begins, renewed while it goes on, and no run begins without."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.unit.roles.rig import Rig, ScriptedRunner, drive
from tickwise.domain.accounts.identity_tokens import TokenFacts
from tickwise.ports.identity.tokens import SignedToken, TokenFault
from tickwise.ports.store import NewJob, RunCancel

LIFE = 3_600.0
ASKS: dict[str, Any] = {"identity_token": {"audience": "vault"}, "job_key": "nightly"}


class Signer:
    """An issuer whose tokens say for whom, and how many there were before."""

    def __init__(self, rig: Rig | None = None) -> None:
        self.rig = rig
        self.facts: list[TokenFacts] = []
        self.fault: TokenFault | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def sign(self, facts: TokenFacts) -> SignedToken | TokenFault:
        """The next token, once the gate is open."""
        await self.gate.wait()
        self.facts.append(facts)
        assert self.rig is not None
        return self.fault or SignedToken(f"token {len(self.facts)}", self.rig.clock.now() + LIFE)


class Renewing(ScriptedRunner):
    """A runner that notes renewed tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[tuple[UUID, str]] = []

    def renew_identity_token(self, run_id: UUID, token: str) -> None:
        """Note it."""
        self.renewed.append((run_id, token))


async def house(runner: ScriptedRunner | None = None) -> tuple[Rig, Signer]:
    """An executor that has joined, with a signer."""
    signer: Any = Signer()
    rig = signer.rig = Rig(runner or Renewing(), issuer=signer)
    await drive(rig.clock, rig.executor.prepare())
    return rig, signer


async def settled(rig: Rig) -> None:
    """A step, and what it began."""
    await rig.tick()
    await rig.clock.settle()


async def begun(rig: Rig, **definition: Any) -> NewJob:
    """A job that asks for a token and whose run has begun."""
    job = await rig.submit(**{**ASKS, **definition})
    await settled(rig)
    assert job.run_id in rig.runner.running
    return job


@pytest.mark.parametrize("more", [{}, {"on_unknown": "fail"}], ids=["ordinary", "guarded"])
async def test_a_run_begins_with_a_token_that_names_it(more: dict[str, Any]) -> None:
    """Namespace, job, run and attempt come from the claim, the rest from the definition."""
    rig, signer = await house()
    job = await begun(rig, **more)
    assert job.run_id is not None
    assert "token 1" == rig.runner.running[job.run_id].identity_token
    (facts,) = signer.facts
    assert ("default", job.job_id, job.run_id, 1) == facts[1:]
    assert (("vault",), "RS256", "run", "nightly") == facts.wish


async def test_a_run_of_a_job_that_asks_for_none_begins_at_once() -> None:
    """In the same step, with no task of its own for it."""
    rig, signer = await house()
    signer.gate.clear()
    job = await rig.submit()
    await rig.tick()
    assert job.run_id is not None
    assert rig.runner.running[job.run_id].identity_token is None


async def test_a_run_that_is_cancelled_while_its_token_is_signed_never_begins() -> None:
    rig, signer = await house()
    signer.gate.clear()
    job = await rig.submit(**ASKS)
    await settled(rig)
    assert [] == rig.runner.launched
    assert job.run_id is not None
    await rig.store.runs.move(RunCancel("default", job.run_id, "ada"))
    await settled(rig)
    signer.gate.set()
    await settled(rig)
    await settled(rig)
    assert [] == rig.runner.launched
    assert "CANCELLED" == await rig.state(job)


async def test_a_run_that_is_lost_while_its_token_is_signed_never_begins() -> None:
    """Another executor may have it by now."""
    rig, signer = await house()
    signer.gate.clear()
    await rig.submit(**ASKS)
    await settled(rig)
    rig.executor._held_runs.abandon_all()
    signer.gate.set()
    await rig.clock.settle()
    assert [] == rig.runner.launched


async def test_without_a_token_for_now_a_run_goes_back_and_waits() -> None:
    """Another executor may sign it; the reason is on record."""
    rig, signer = await house()
    signer.fault = TokenFault("the store is away", is_passing=True)
    job = await rig.submit(**ASKS)
    await settled(rig)
    await settled(rig)
    assert [] == rig.runner.launched
    assert "QUEUED" == await rig.state(job)
    signer.fault = None
    await rig.tick(after_seconds=11.0)
    await settled(rig)
    assert [job.run_id] == rig.runner.launched


async def test_a_token_that_cannot_be_fails_the_attempt() -> None:
    """By a reason of its own, which rules of retrying can name."""
    rig, signer = await house()
    signer.fault = TokenFault("no issuer is set", is_passing=False)
    job = await rig.submit(**ASKS, max_retries=0)
    await settled(rig)
    await settled(rig)
    row = await rig.row(job)
    assert ("FAILED", "identity_token_refused", "no issuer is set") == (str(row.state), row.reason, row.error)


async def test_an_executor_that_signs_none_gives_the_run_back() -> None:
    """As one of a release or a set-up without."""
    rig = Rig()
    await drive(rig.clock, rig.executor.prepare())
    job = await rig.submit(**ASKS)
    await settled(rig)
    await settled(rig)
    assert [] == rig.runner.launched
    assert "QUEUED" == await rig.state(job)


async def test_a_token_is_renewed_before_it_ends_while_its_task_goes_on() -> None:
    """After two thirds of its life, again and again; of a task that has ended, no more."""
    runner = Renewing()
    rig, _ = await house(runner)
    job = await begun(rig)
    step = rig.executor._tokens.step
    await step()
    assert [] == runner.renewed
    for number in (2, 3):
        await rig.clock.advance(LIFE * 2 / 3 + 1)
        await step()
        assert (job.run_id, f"token {number}") == runner.renewed[-1]
        await step()
    assert 2 == len(runner.renewed)
    assert job.run_id is not None
    runner.end(job.run_id)
    await rig.clock.advance(LIFE)
    await step()
    assert 2 == len(runner.renewed)


async def test_a_renewal_that_fails_is_tried_again() -> None:
    """The token still lives for a third of its time."""
    runner = Renewing()
    rig, signer = await house(runner)
    await begun(rig)
    await rig.clock.advance(LIFE * 2 / 3 + 1)
    signer.fault = TokenFault("the store is away", is_passing=True)
    assert 10.0 >= await rig.executor._tokens.step()
    assert [] == runner.renewed
    signer.fault = None
    await rig.clock.advance(10.0)
    await rig.executor._tokens.step()
    assert 1 == len(runner.renewed)
