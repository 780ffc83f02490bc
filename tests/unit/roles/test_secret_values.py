"""Runs that name secrets: one question to each provider, the values with the run alone, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.secret_providers import HeldSecrets
from tests.support.waiting import eventually
from tests.unit.roles.rig import Rig, drive
from tickwise.domain.model import joined
from tickwise.ports.store import RunCancel
from tickwise.roles.executor import secret_values
from tickwise.roles.executor.secret_values import AGAIN_SECONDS, HiddenValues

OWN = {("default", "token"): b"canary-of-default", ("default", "key"): b"canary-key", ("other", "token"): b"of-other"}


def naming(*texts: str) -> dict[str, Any]:
    """A task whose variables are these texts."""
    return {"kind": "scripted", "env": {f"V{place}": text for place, text in enumerate(texts)}}


class SecretRig(Rig):
    """An executor with two providers."""

    def __init__(self, **settings: Any) -> None:
        self.own, self.vault = HeldSecrets(OWN), HeldSecrets({("default", "app#db"): b"canary-of-vault"}, "vault")
        super().__init__(secrets={"": self.own, "vault": self.vault}, **settings)

    async def step(self, after_seconds: float = 0.0) -> None:
        """One step of every loop, and the answers of the providers."""
        await self.tick(after_seconds)
        await self.clock.settle()

    async def noted(self) -> list[tuple[str, str]]:
        """The kind and the target of what is on record for explanations."""
        assert self.executor._circuits is not None
        await self.executor._circuits.record()
        return [(each.kind, each.who) for each in await self.store.incidents.between(0.0, 1e12)]


@pytest.fixture
async def rig() -> SecretRig:
    """An executor that was born."""
    made = SecretRig(slots=8)
    await drive(made.clock, made.executor.prepare())
    return made


async def test_the_values_come_with_the_assignment(rig: SecretRig) -> None:
    """By the references of the task, from each provider; a plain text is none."""
    await rig.submit(task=naming("secret:token", "secret:vault:app#db", "secret-file:key", "plain"))
    await rig.step()
    (given,) = rig.runner.running.values()
    assert {
        "secret:token": b"canary-of-default",
        "secret:vault:app#db": b"canary-of-vault",
        "secret-file:key": b"canary-key",
    } == dict(given.secrets)


async def test_the_runs_of_a_claim_share_one_question(rig: SecretRig) -> None:
    """Also where they name the same secret. A run without references asks nobody."""
    for _ in range(3):
        await rig.submit(task=naming("secret:token", "secret:key"))
    await rig.submit(task=naming("plain"))
    await rig.step()
    assert len(rig.runner.running) == 4
    (asked,) = rig.own.asked
    assert ["key", "token"] == sorted(each.name for each in asked)
    assert [] == rig.vault.asked


async def test_a_run_without_references_does_not_wait_for_those_with_some(rig: SecretRig) -> None:
    """It begins while the provider thinks."""
    rig.own.open.clear()
    await rig.submit(task=naming("secret:token"))
    await rig.submit(task=naming("plain"))
    await rig.step()
    assert 1 == len(rig.runner.running)
    rig.own.open.set()
    await rig.clock.settle()
    assert 2 == len(rig.runner.running)


async def test_a_secret_that_is_not_there_fails_the_run_for_good(rig: SecretRig) -> None:
    """With its name and what to do; no attempt follows, though the job has retries."""
    job = await rig.submit(task=naming("secret:token", "secret:lost"), max_retries=3)
    await rig.step()
    await rig.tick()
    row = await rig.row(job)
    assert ("FAILED", "secret_missing") == (str(row.state), row.reason)
    assert row.error is not None
    assert "secret:lost" in row.error
    assert "set one" in row.error
    assert "canary" not in row.error
    assert {} == rig.runner.running


async def test_a_provider_that_is_away_costs_no_attempt(rig: SecretRig) -> None:
    """The run goes back with the cause, and begins when the provider is there again."""
    rig.own.is_away = True
    job = await rig.submit(task=naming("secret:token"))
    await rig.step()
    await rig.tick()
    row = await rig.row(job)
    assert ("QUEUED", 0) == (str(row.state), row.attempt)
    assert [("secrets_away", joined("default", "secret:token"))] == await rig.noted()
    rig.own.is_away = False
    await rig.step(AGAIN_SECONDS + 1.0)
    (given,) = rig.runner.running.values()
    assert 1 == given.attempt


@pytest.mark.parametrize("error", [RuntimeError("canary-of-default"), OSError("x")])
async def test_a_provider_that_fails_counts_as_away(
    rig: SecretRig, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text of its error is told nowhere: it may hold a value."""
    rig.own.error = error
    job = await rig.submit(task=naming("secret:token"))
    await rig.step()
    await rig.tick()
    assert "QUEUED" == await rig.state(job)
    assert ["secrets_away"] == [kind for kind, _ in await rig.noted()]
    assert "canary" not in capsys.readouterr().out


async def test_a_provider_that_does_not_answer_counts_as_away(rig: SecretRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slot is free again soon."""
    monkeypatch.setattr(secret_values, "ANSWER_SECONDS", 0.01)
    rig.own.open.clear()
    job = await rig.submit(task=naming("secret:token"))
    await rig.step()
    await eventually(lambda: not rig.executor._held_runs.live)
    await rig.tick()
    assert "QUEUED" == await rig.state(job)
    assert ["secrets_away"] == [kind for kind, _ in await rig.noted()]


async def test_a_provider_that_this_executor_lacks_may_be_at_another_one(rig: SecretRig) -> None:
    """The run goes back, and the cause says which is missing."""
    job = await rig.submit(task=naming("secret:kubernetes:db#password"))
    await rig.step()
    await rig.tick()
    assert "QUEUED" == await rig.state(job)
    assert [("secrets_away", joined("default", "secret:kubernetes:db#password"))] == await rig.noted()


async def test_a_run_that_is_cancelled_while_it_waits_never_begins(rig: SecretRig) -> None:
    """The values come, and nobody takes them."""
    rig.own.open.clear()
    job = await rig.submit(task=naming("secret:token"))
    await rig.step()
    assert job.run_id is not None
    await rig.store.runs.move(RunCancel("default", job.run_id, "ada"))
    await drive(rig.clock, rig.executor._heartbeat.beat())
    rig.own.open.set()
    await rig.clock.settle()
    assert {} == rig.runner.running
    await rig.tick()
    assert "CANCELLED" == await rig.state(job)


def test_values_are_not_shown_where_they_are_printed() -> None:
    """In a traceback or a log."""
    values = HiddenValues({"secret:a": b"canary"})
    assert "canary" not in f"{values!r} {values}"
