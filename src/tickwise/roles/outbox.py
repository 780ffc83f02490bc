"""What an executor has not told the store yet: starts worth recording, and outcomes.

    began ──► starts ───(gathered 50 ms)──► attempts_start  ──► refused: kill it
    ended ──► outcomes ─(gathered 4 ms)───► attempts_finish ──► refused: forget it

Invariant: an outcome leaves the box only when the store has accepted or refused it, or when its executor was buried.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

import structlog

from tickwise.domain.errors import Bug
from tickwise.domain.model import Outcome
from tickwise.domain.retry import LEASE_OVER
from tickwise.ports.clock import Clock
from tickwise.ports.store import Began, Runs
from tickwise.roles.endings import FAILED, RETRYING, SUCCESS
from tickwise.roles.intake import Intake
from tickwise.roles.service import Telemetry

STARTS_SECONDS: Final = 0.05
"""How long starts are gathered before they are recorded."""
PRESSED_SECONDS: Final = 0.25
"""How long an outcome waits more while a burst starts: what is due is late already, what ended is only unrecorded."""

logger = structlog.get_logger("tickwise.executor")


class Outbox:
    """One executor's."""

    def __init__(
        self,
        *,
        runs: Runs,
        clock: Clock,
        telemetry: Telemetry,
        batch: int,
        flush_seconds: float,
        emptied: asyncio.Event,
        followed: Callable[[], None],
    ) -> None:
        """`emptied` is set whenever the last outcome was taken by the store; `followed` is called after a batch from
        which a sequence goes on."""
        self.outcomes_more = asyncio.Event()
        self.starts_more = asyncio.Event()
        self._runs = runs
        self._clock = clock
        self._telemetry = telemetry
        self._batch = batch
        self._flush_seconds = flush_seconds
        self._emptied = emptied
        self._followed = followed
        self._outcomes: collections.deque[tuple[Outcome, Intake]] = collections.deque()
        self._under_way: list[tuple[Outcome, Intake]] = []
        self._starts: list[Began] = []
        self._lateness: list[float] = []

    def __len__(self) -> int:
        """How many outcomes wait."""
        return len(self._outcomes) + len(self._under_way)

    def add(self, outcome: Outcome, intake: Intake) -> None:
        """One more outcome."""
        intake.unrecorded += 1
        self._outcomes.append((outcome, intake))
        if not self.outcomes_more.is_set():
            self.outcomes_more.set()

    def add_many(self, outcomes: Sequence[tuple[Outcome, Intake]], late_seconds: Sequence[float]) -> None:
        """Many more, and how much after they were due the first attempts among them began."""
        for _, intake in outcomes:
            intake.unrecorded += 1
        self._outcomes.extend(outcomes)
        self._lateness += late_seconds
        if outcomes:
            self.outcomes_more.set()

    def late(self, seconds: float) -> None:
        """A first attempt began so much after it was due."""
        self._lateness.append(seconds)

    def start(self, began: Began) -> None:
        """A start worth recording."""
        self._starts.append(began)
        self.starts_more.set()

    def tokens(self) -> Iterator[int]:
        """Of all outcomes that wait."""
        for outcome, _ in (*self._under_way, *self._outcomes):
            yield outcome.token

    def forget(self) -> None:
        """The executor was buried: nothing of this counts any more."""
        self._starts.clear()
        waiting = [*self._outcomes]
        self._outcomes.clear()
        for _, intake in waiting:
            intake.recorded(1)

    # ------------------------------------------------------------------ steps of the executor's loops

    async def send_outcomes(self, number: Callable[[], int], *, pressed: bool = False) -> float:
        """Tell one batch. `number` is the executor's, asked before and after: a buried one's outcomes are dropped.

        `pressed`: a burst waits to start, and starts come before ends.
        """
        if not self._outcomes:
            return 3600.0
        if pressed:
            await self._clock.sleep(PRESSED_SECONDS)
        elif len(self._outcomes) < self._batch:
            await self._clock.sleep(self._flush_seconds)
        outcomes = self._outcomes
        batch = self._under_way = [outcomes.popleft() for _ in range(min(self._batch, len(outcomes)))]
        sender = number()
        try:
            refused = set(await self._tell(sender, [outcome for outcome, _ in batch]))
        except BaseException:
            # Whatever it was, the store's word on these is still out.
            if sender == number():
                outcomes.extendleft(reversed(batch))
            else:
                for _, intake in batch:
                    intake.recorded(1)
            raise
        finally:
            self._under_way = []
        self._told(batch, refused)
        return 0.0 if outcomes else 3600.0

    async def _tell(self, executor: int, outcomes: Sequence[Outcome]) -> Sequence[UUID]:
        """The refused. One outcome that cannot be stored must not take the others of its batch with it."""
        if not outcomes:
            return []
        begun = [Began(each.run_id, each.token, each.started) for each in outcomes if each.reason == LEASE_OVER]
        if begun:
            # They were stopped while the store was away, perhaps before it knew that they had begun. It must, or the
            # next attempt would bear the same number.
            await self._runs.attempts_start(executor, begun)
        try:
            return await self._runs.attempts_finish(executor, outcomes)
        except Bug as bug:
            logger.error("outcome_impossible", run_id=str(outcomes[0].run_id), count=len(outcomes), detail=bug.detail)
            if len(outcomes) == 1:
                return await self._tell_plainly(executor, outcomes[0], bug)
        half = len(outcomes) // 2
        return [*await self._tell(executor, outcomes[:half]), *await self._tell(executor, outcomes[half:])]

    async def _tell_plainly(self, executor: int, outcome: Outcome, bug: Bug) -> Sequence[UUID]:
        """The attempt is over, so its run must not stay ours in the books for ever: it ends with what went wrong.
        Whether its job names others that go on from a failure is read by whoever goes on."""
        ended = max(outcome.started, outcome.ended)
        plain = Outcome(
            outcome.run_id, outcome.token, FAILED, outcome.started, ended, "invalid", bug.detail, follow=True
        )  # fmt: skip
        try:
            return await self._runs.attempts_finish(executor, [plain])
        except Bug:
            return [outcome.run_id]

    def _told(self, batch: Sequence[tuple[Outcome, Intake]], refused: set[UUID]) -> None:
        counts = collections.Counter(intake for _, intake in batch)
        for intake, count in counts.items():
            intake.recorded(count)
        if refused:
            logger.warning("outcomes_refused", runs=[str(run) for run in refused][:20], count=len(refused))
            self._telemetry.refused(len(refused))
            batch = [one for one in batch if one[0].run_id not in refused]
        accepted = [outcome for outcome, _ in batch]
        lateness, self._lateness = self._lateness, []
        states = [outcome.state for outcome in accepted]
        self._telemetry.started(lateness)
        # What never began has no start, and took no time.
        seconds = [outcome.ended - (outcome.started or outcome.ended) for outcome in accepted]
        self._telemetry.finished(states, seconds)
        if states.count(SUCCESS) != len(states):
            self._tell_failures(accepted)
        if any([outcome.follow for outcome in accepted]):  # noqa: C419  # a list is made in half the time
            self._followed()
        if not self._outcomes:
            self._emptied.set()

    def _tell_failures(self, outcomes: Sequence[Outcome]) -> None:
        retried, ended = (
            collections.Counter(outcome.reason or "error" for outcome in outcomes if outcome.state == state)
            for state in (RETRYING, FAILED)
        )
        if retried:
            self._telemetry.retried(retried)
        if ended:
            self._telemetry.failed(ended)

    async def send_starts(self, executor: int, lives: Callable[[Began], bool]) -> Sequence[Began]:
        """Record what began and still lives; the refused. The store refuses by run: an old attempt's start, which it
        would refuse, must not go with the one of the attempt that lives."""
        await self._clock.sleep(STARTS_SECONDS)
        batch, self._starts = self._starts, []
        batch = [began for began in batch if lives(began)]
        if not batch:
            return []
        try:
            refused = set(await self._runs.attempts_start(executor, batch))
        except BaseException:
            self._starts = batch + self._starts
            raise
        return [began for began in batch if began.run_id in refused]
