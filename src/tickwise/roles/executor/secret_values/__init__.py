"""Gets the values of the secrets that claimed runs name, before those runs go to the starter.

    admission ──runs that name secrets──► one question to each provider ──► run_starter
                                              ├── nothing of that name: ends as `secret_missing`, without a retry
                                              └── a provider is away: given back for a while, with the cause

The runs of one claim share one question to each provider. A run that names no secret never comes here. While a run
waits for its values it is held as any other: it may be cancelled, given back or abandoned.

Invariant: a value is with the run that named it, from here to its runner, and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from tickwise.domain.errors import Invalid
from tickwise.domain.retry import SECRET_MISSING, SECRETS_AWAY
from tickwise.domain.secrets.references import read_reference
from tickwise.ports.clock import Clock
from tickwise.ports.runner import Ending, Verdict
from tickwise.ports.secrets import SecretFault, SecretProvider, WantedSecret
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns, RunStage
from tickwise.roles.executor.run_starter import RunStarter
from tickwise.roles.executor.settlement import RunSettlement
from tickwise.roles.executor.store_clock import StoreClock

ANSWER_SECONDS: Final = 15.0
"""A provider that answers no sooner counts as away."""
AGAIN_SECONDS: Final = 10.0
"""The time for which a run goes back whose provider is away."""

logger = structlog.get_logger("tickwise.executor")

Answer = bytes | SecretFault


class HiddenValues(dict[str, bytes]):
    """Values by their references. Printed, in a traceback or a log, it shows none of them."""

    def __repr__(self) -> str:
        return f"<{len(self)} secrets>"

    __str__ = __repr__


class SecretValues:
    """Gets values for the runs of one executor."""

    def __init__(
        self,
        providers: Mapping[str, SecretProvider],
        *,
        clock: Clock,
        time: StoreClock,
        held_runs: HeldRuns,
        starter: RunStarter,
        settlement: RunSettlement,
    ) -> None:
        """`providers`: by their names."""
        self._providers = providers
        self._clock = clock
        self._time = time
        self._held_runs = held_runs
        self._starter = starter
        self._settlement = settlement
        # A dict, because sets of tasks have another order in each process, and a simulation none of its own.
        self._asking: dict[asyncio.Task[None], None] = {}

    def take(self, batch: Sequence[HeldRun]) -> None:
        """Runs of one claim that name secrets, each held by now. They go to the starter when their values are there."""
        task = asyncio.create_task(self._fetch(batch))
        self._asking[task] = None
        task.add_done_callback(self._asking.pop)

    async def stop(self) -> None:
        """Ask no more, and close the providers."""
        for task in [*self._asking]:
            task.cancel()
        for provider in self._providers.values():
            await provider.close()

    async def _fetch(self, batch: Sequence[HeldRun]) -> None:
        answers = await self._answers(batch)
        ready = []
        away: list[SecretFault] = []
        for held in batch:
            if not self._held_runs.holds(held) or held.stage is not RunStage.HOLDING:
                continue  # it was cancelled, given back or abandoned meanwhile
            namespace = held.claimed.namespace
            found = {text: answers[namespace, text] for text in held.body.secrets}
            faults = {text: answer for text, answer in found.items() if isinstance(answer, SecretFault)}
            if faults:
                self._settlement.end(held, self._ending(faults))
                away += [fault for fault in faults.values() if fault.is_passing]
                continue
            held.secrets = HiddenValues(found)  # type: ignore[arg-type]  # it holds no fault
            ready.append(held)
        if away:
            logger.warning("secrets_away", secrets=len(away), detail=away[0].detail)
        if ready:
            self._starter.take(ready)

    async def _answers(self, batch: Sequence[HeldRun]) -> Mapping[tuple[str, str], Answer]:
        """The answer to each reference of a namespace."""
        found: dict[tuple[str, str], Answer] = {}
        wanted: dict[str, dict[tuple[str, str], WantedSecret]] = defaultdict(dict)
        for held in batch:
            for text in held.body.secrets:
                key = held.claimed.namespace, text
                try:
                    reference = read_reference(text)
                except Invalid as refusal:
                    found[key] = SecretFault(f"{text!r} names no secret: {refusal.detail}", False)
                    continue
                assert reference is not None
                wanted[reference.provider][key] = WantedSecret(held.claimed.namespace, reference.name)
        names = [*wanted]
        for name, answers in zip(
            names, await asyncio.gather(*(self._asked(name, [*wanted[name].values()]) for name in names)), strict=True
        ):
            for key, secret in wanted[name].items():
                untold = SecretFault(f"the provider of {key[1]} did not answer about it", True)
                found[key] = answers.get(secret, untold)
        return found

    async def _asked(self, name: str, wanted: Sequence[WantedSecret]) -> Mapping[WantedSecret, Answer]:
        """The answers of one provider. Any failure of it means that it is away."""
        provider = self._providers.get(name)
        if provider is None:
            lack = f"this executor has no provider of secrets {name!r}: set one up here, or write another reference"
            return dict.fromkeys(wanted, SecretFault(lack, True))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await provider.values([*dict.fromkeys(wanted)])
        except TimeoutError:
            why = f"its provider did not answer within {ANSWER_SECONDS:g} s"
        except Exception as failure:  # noqa: BLE001  # after any failure the runs go back
            # Neither the text nor the traceback: either could hold a value.
            logger.warning("secret_provider_failing", provider=name or "own", error=type(failure).__name__)
            why = f"its provider failed ({type(failure).__name__})"
        return dict.fromkeys(wanted, SecretFault(why, True))

    def _ending(self, faults: Mapping[str, SecretFault]) -> Ending:
        """The end of a run that lacks these secrets. What cannot pass goes before what may."""
        now = self._time.now()
        lasting = {text: fault for text, fault in faults.items() if not fault.is_passing}
        error = "; ".join(f"{text}: {fault.detail}" for text, fault in (lasting or faults).items())
        if lasting:
            return Ending(Verdict.INVALID, now, now, SECRET_MISSING, error)
        return Ending(
            Verdict.UNOFFERED,
            now,
            now,
            SECRETS_AWAY,
            error,
            retry_after_seconds=AGAIN_SECONDS,
            symptoms=tuple(faults),
        )
