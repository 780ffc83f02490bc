"""Takes in the runs that a claim brought: reads their definitions, holds them, and hands them to the starter.

claimed ──► definition read ──► held ──► run_starter
               │                  └── this executor drains: given back
               ├── unreadable: ends as `invalid`
               ├── an older attempt of the run still dies here: given back for a second
               ├── a counted capacity that it needs is not free: given back (`ledger`)
               └── its task names secrets: it goes to the starter when their values are there (`secret_values`)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import structlog

from tickwise.domain.model import Claimed
from tickwise.roles.executor.answered_claims import AnsweredClaims
from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns, read_body
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.ledger import AdmissionVerdict
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.outcomes import UNOFFERED_SECONDS, given_back, unreadable
from tickwise.roles.executor.run_starter import RunStarter
from tickwise.roles.executor.secret_values import SecretValues
from tickwise.roles.executor.settlement import RunSettlement
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.service import Telemetry

DYING_SECONDS: Final = 1.0
"""The time for which a run goes back while an older attempt of it dies here."""
LATER_SECONDS: Final = 2.0
"""The time for which a run goes back while others wait for the capacity that it needs. Of a job that was stored before
memory was reserved, the lane does not say so, and the next claim would bring it again at once."""
_PAUSES: Final = {AdmissionVerdict.LATER: LATER_SECONDS, AdmissionVerdict.NEVER: UNOFFERED_SECONDS}

logger = structlog.get_logger("tickwise.executor")


class Admission:
    """Takes in the runs that one executor claims."""

    def __init__(
        self,
        *,
        time: StoreClock,
        lease: Lease,
        answered: AnsweredClaims,
        held_runs: HeldRuns,
        capacities: Sequence[RunnerCapacity],
        starter: RunStarter,
        secrets: SecretValues,
        settlement: RunSettlement,
        outbox: Outbox,
        telemetry: Telemetry,
    ) -> None:
        self._time = time
        self._lease = lease
        self._answered = answered
        self._held_runs = held_runs
        self._by_kind = {kind: capacity for capacity in capacities for kind in capacity.kinds}
        self._starter = starter
        self._secrets = secrets
        self._settlement = settlement
        self._outbox = outbox
        self._telemetry = telemetry

    def take(self, rows: Sequence[Claimed], *, by_name: bool = False) -> None:
        """Hold these runs, and start those that are due. `by_name`: it was asked for, because it is remembered."""
        self._time.saw(rows[0].now)
        self._answered.add(rows)
        self._telemetry.claimed(len(rows))
        by_kind, live, dying = self._by_kind, self._held_runs.live, self._held_runs.dying
        taken: list[HeldRun] = []
        naming: list[HeldRun] = []
        for claimed in rows:
            try:
                body = read_body(claimed.spec)
                held = HeldRun(claimed, body, by_kind[body.kind], claimed.guarded or body.guarded)
            except (msgspec.MsgspecError, KeyError) as wrong:
                self._refuse(claimed, f"{type(wrong).__name__}: {wrong}")
                continue
            run_id = claimed.run_id
            if (run_id in live or run_id in dying) and self._has_dying_attempt(claimed):
                later = self._time.now() + DYING_SECONDS
                self._outbox.add(given_back(held, self._time.now())._replace(retry_at=later), held.capacity)
                continue
            if body.demand is not None and not self._has_capacity(held, by_name=by_name):
                continue
            live[run_id] = held
            held.capacity.held += 1
            (naming if body.secrets else taken).append(held)
        if self._held_runs.closed:
            # The claim was under way when the executor began to drain.
            self._settlement.give_back([*taken, *naming])
            return
        self._starter.take(taken)
        if naming:
            self._secrets.take(naming)

    def known_tokens(self) -> Iterator[int]:
        """The tokens of all claims that the store answered. Ended runs count: the store may have lost their ends."""
        live = (held.claimed.token for held in self._held_runs.live.values())
        return itertools.chain(live, self._outbox.tokens(), self._answered.tokens())

    def _has_dying_attempt(self, claimed: Claimed) -> bool:
        """Check whether an older attempt of this run, which the store took from this executor, is still alive here. The
        end of the older attempt would be taken for the end of the new one."""
        old = self._held_runs.live.get(claimed.run_id)
        if old is not None:
            logger.warning("attempt_superseded", run_id=str(claimed.run_id), executor=self._lease.number)
            self._held_runs.abandon(old)
        return claimed.run_id in self._held_runs.dying

    def _has_capacity(self, held: HeldRun, *, by_name: bool) -> bool:
        """Take the counted capacities that a run needs; else give it back, as if it had never been claimed."""
        verdict = self._held_runs.ledger.admit(held.claimed.run_id, held.body.demand or {}, by_name=by_name)
        if verdict is AdmissionVerdict.HELD:
            return True
        now = self._time.now()
        pause = _PAUSES.get(verdict)
        retry_at = None if pause is None else now + pause
        self._outbox.add(given_back(held, now)._replace(retry_at=retry_at), held.capacity)
        return False

    def _refuse(self, claimed: Claimed, detail: str) -> None:
        logger.error("definition_unreadable", run_id=str(claimed.run_id), detail=detail)
        self._outbox.add_unheld(unreadable(claimed, self._time.now(), detail))
