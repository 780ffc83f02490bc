"""Tables of requests that meet: two requests to the holder of one run, in both orders, before and after it begins; and
the withdrawal of one of two."""

from __future__ import annotations

import math
from enum import Enum, auto
from itertools import product, zip_longest
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.decision import PAUSED_SENTENCE, Overlap, SkipReason
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Claimed, Lane
from tickwise.domain.rules.requests import StopRequest, kept, merged, told_to_holder
from tickwise.domain.rules.returns import ReturnVerdict, came_back
from tickwise.domain.rules.sentences import CANCELLED, REPLACED_SENTENCE, cancelled_sentence
from tickwise.ports.store import JobAction, RunCancel, RunSkip, Store
from tickwise.testing.contracts.base import began
from tickwise.testing.contracts.store.dispatch.rule_tables import (
    HOUR,
    POSTPONED_SECONDS,
    SKIP_SENTENCE,
    TableContract,
    postponed,
)
from tickwise.testing.factories import Factory, outcome


class StopCall(Enum):
    """A call that makes or withdraws a request."""

    CANCEL = auto()
    CANCEL_JOB = auto()
    CANCEL_BACKFILL = auto()
    REPLACE = auto()
    SKIP = auto()
    PAUSE = auto()
    PAUSE_POSTPONED = auto()
    RESUME = auto()
    PLAN_WITHOUT = auto()
    PLAN_WITH = auto()
    HOLD_QUEUE = auto()
    RESUME_QUEUE = auto()


class Begins(Enum):
    """The time at which the run begins."""

    FIRST = 0
    BETWEEN = 1
    """After the first call."""
    LAST = 3
    NEVER = 4


class Meeting(NamedTuple):
    """Calls about one held run, one after the other."""

    calls: tuple[StopCall, ...]
    begins: Begins


class ShownRequest(NamedTuple):
    """A request and its effect, as the store shows them."""

    told: CancelKind | None
    """With the heartbeat."""
    shown: tuple[str | None, bool] | None
    """With the run: the sentence, and whether its holder has heard it."""
    back: tuple[RunState, str | None, str | None, bool] | None
    """The run after its holder gave it back: state, reason, error, whether it can be claimed; None: it is forgotten."""


OF_QUEUES: Final = MappingProxyType({StopCall.HOLD_QUEUE: "h", StopCall.RESUME_QUEUE: "r"})
"""Calls that concern a whole queue, and their letters in its name."""

NOT_OF_CANCELLED: Final = (
    StopCall.PAUSE,
    StopCall.PAUSE_POSTPONED,
    StopCall.RESUME,
    StopCall.PLAN_WITHOUT,
    StopCall.PLAN_WITH,
)
"""Calls that a store refuses for a job that is cancelled."""

WITHDRAWN: Final = (
    StopCall.CANCEL,
    StopCall.SKIP,
    StopCall.PAUSE,
    StopCall.PAUSE_POSTPONED,
    StopCall.PLAN_WITHOUT,
    StopCall.PLAN_WITH,
    StopCall.HOLD_QUEUE,
)
"""One call of each kind that may stand before a withdrawal."""

WITHDRAWALS: Final = (StopCall.RESUME, StopCall.PLAN_WITH, StopCall.RESUME_QUEUE)
"""Calls that withdraw a request. What was asked before it, or because of another state, is asked again."""

HOLD_SECONDS: Final = 6.0
"""A hold that is older is asked for no more because it is new."""


def _can_meet(calls: tuple[StopCall, ...]) -> bool:
    """Check whether a store takes these calls, one after the other."""
    cancelled = calls.index(StopCall.CANCEL_JOB) if StopCall.CANCEL_JOB in calls else len(calls)
    # No run starts in a queue that is on hold, so none replaces another one.
    replaced_on_hold = {StopCall.HOLD_QUEUE, StopCall.REPLACE} <= set(calls)
    return not replaced_on_hold and not set(calls[cancelled:]) & set(NOT_OF_CANCELLED)


MEETINGS: Final = [
    Meeting(calls, begins)
    for calls, begins in (
        *product(product(StopCall, StopCall), Begins),
        *((calls, Begins.NEVER) for calls in product(WITHDRAWN, WITHDRAWN, WITHDRAWALS)),
    )
    if _can_meet(calls)
]
"""Two calls, and a run that begins or does not; and three of which the last withdraws."""
PLACES: Final = max(len(one.calls) for one in MEETINGS)


class RequestTableContract(TableContract):
    """All calls that ask something of the holder of a run follow `domain.rules.requests`."""

    async def test_each_meeting_of_requests_meets_the_verdict(self, store: Store, make: Factory) -> None:
        """By what the holder is told, what the run shows, and what happens to the run when it comes back."""
        scene = await MeetingScene.made(self, store, make)
        for place in range(PLACES):
            for begins in (Begins.FIRST, Begins.BETWEEN):
                if begins.value == place:
                    await scene.begin(begins)
            if place:
                await self.cancels(store, scene.executor)
            await scene.call_all(place)
        await scene.begin(Begins.LAST)
        shown = {one: await self._shown(store, scene.runs[one]) for one in MEETINGS}
        told = {each.run_id: each.kind for each in await self.cancels(store, scene.executor)}
        ends = [
            outcome(scene.claims[scene.runs[one]], RunState.QUEUED, started=float(one.begins is not Begins.NEVER))
            for one in MEETINGS
        ]
        assert await self.finish(store, scene.executor, *ends) == []
        found = {
            one: ShownRequest(told.get(scene.runs[one]), shown[one], await self._back(store, scene.runs[one]))
            for one in MEETINGS
        }
        self.assert_table({one: expected_meeting(one) for one in MEETINGS}, found)

    async def _shown(self, store: Store, run_id: UUID) -> tuple[str | None, bool] | None:
        cancel = (await self.run_row(store, run_id)).cancel
        return None if cancel is None else (cancel.error, cancel.heard_at is not None)

    async def _back(self, store: Store, run_id: UUID) -> tuple[RunState, str | None, str | None, bool] | None:
        row = await store.runs.get("default", run_id)
        return None if row is None else (row.state, row.reason, row.error, row.ready_at is not None)


class MeetingScene:
    """A held run for each meeting, in a job of its own, and the runs that are to replace it."""

    def __init__(self, table: TableContract, store: Store, make: Factory, executor: int, other: int) -> None:
        self.executor = executor
        self.runs: dict[Meeting, UUID] = {}
        self.claims: dict[UUID, Claimed] = {}
        self._table = table
        self._store = store
        self._make = make
        self._other = other
        """Holds the runs that are to replace others."""
        self._jobs: dict[Meeting, UUID] = {}
        self._origins: dict[Meeting, UUID] = {}
        self._replacing: dict[tuple[Meeting, int], UUID] = {}
        self._nominal = make.now + HOUR - POSTPONED_SECONDS

    @classmethod
    async def made(cls, table: TableContract, store: Store, make: Factory) -> MeetingScene:
        """All runs, claimed."""
        executor, other = [await table.executor(store, name) for name in ("one", "other")]
        scene = cls(table, store, make, executor, other)
        for one in MEETINGS:
            await scene._add(one)
        queues = sorted({queue_of(one) for one in MEETINGS})
        scene.claims = await table.take(store, executor, scene.runs.values(), queues=queues)
        scene.claims |= await table.take(store, other, scene._replacing.values(), queues=queues)
        return scene

    async def _add(self, one: Meeting) -> None:
        make = self._make
        self._origins[one] = make.identifier()
        run = postponed(make, make.now + HOUR)._replace(origin=self._origins[one])
        replacing = {
            place: make.run(make.identifier(), make.now + HOUR + 1.0 + place, overlap=Overlap.CANCEL_RUNNING)
            for place, call in enumerate(one.calls)
            if call is StopCall.REPLACE
        }
        self.runs[one] = run.run_id
        self._replacing |= {(one, place): each.run_id for place, each in replacing.items()}
        queue = queue_of(one)
        jobs = await self._table.jobs_for(self._store, make, {one: [run, *replacing.values()]}, lane=Lane(queue))
        self._jobs[one] = jobs[one]

    async def begin(self, begins: Begins) -> None:
        """The runs of these situations begin."""
        starts = [began(self.claims[self.runs[one]]) for one in MEETINGS if one.begins is begins]
        assert list(await self._store.attempts.start(self.executor, starts)) == []

    async def call_all(self, place: int) -> None:
        """Make the calls of this place. One concerns a whole queue, and the holds of before are no longer new."""
        await self._table.shift(self._store, HOLD_SECONDS)
        await self._table.cancels(self._store, self._other)
        queues: set[str] = set()
        for one in MEETINGS:
            if place < len(one.calls):
                await self._call(one, place, queues)

    async def _call(self, one: Meeting, place: int, queues: set[str]) -> None:
        """Make a call, unless it concerns one of these queues: then it is made."""
        store, make, run_id, job_id = self._store, self._make, self.runs[one], self._jobs[one]
        who = str(place)
        if one.calls[place] in OF_QUEUES:
            if (queue := queue_of(one)) not in queues:
                queues.add(queue)
                await self._call_queue(one.calls[place], queue)
            return
        match one.calls[place]:
            case StopCall.CANCEL:
                await store.runs.move(RunCancel("default", run_id, who))
            case StopCall.CANCEL_JOB:
                await store.jobs.move(make.move(job_id, JobAction.CANCEL, reason=cancelled_sentence(who)))
            case StopCall.CANCEL_BACKFILL:
                assert await store.runs.cancel_all("default", job_id, self._origins[one], principal=who) == 1
            case StopCall.REPLACE:
                started = began(self.claims[self._replacing[one, place]])
                assert list(await store.attempts.start(self._other, [started])) == [started.run_id]
            case StopCall.SKIP:
                await store.runs.move(RunSkip("default", run_id, f"{SKIP_SENTENCE} {who}"))
            case StopCall.PAUSE:
                await store.jobs.move(make.move(job_id, JobAction.PAUSE))
            case StopCall.PAUSE_POSTPONED:
                pause = make.move(job_id, JobAction.PAUSE, postponed_after_seconds=POSTPONED_SECONDS / 2)
                await store.jobs.move(pause)
            case StopCall.RESUME:
                await store.jobs.move(make.move(job_id, JobAction.RESUME, make.plan(keep_dues=[self._nominal])))
            case StopCall.PLAN_WITHOUT | StopCall.PLAN_WITH as call:
                kept_dues = [self._nominal] if call is StopCall.PLAN_WITH else []
                row = await self._table.job_row(store, job_id)
                plan = make.plan(keep_dues=kept_dues)
                after = _postponed_after(one, place)
                await store.jobs.change(make.change(row, replan=plan, postponed_after_seconds=after))

    async def _call_queue(self, call: StopCall, queue: str) -> None:
        if call is StopCall.HOLD_QUEUE:
            await self._store.queues.hold(self._make.hold(queue))
        else:
            await self._store.queues.resume("default", queue)


def _postponed_after(one: Meeting, place: int) -> float:
    """The delay from which a plan takes a run for a postponed one: as the last pause before it did."""
    pauses = [call for call in one.calls[:place] if call in (StopCall.PAUSE, StopCall.PAUSE_POSTPONED)]
    return POSTPONED_SECONDS / 2 if pauses[-1:] == [StopCall.PAUSE_POSTPONED] else math.inf


def queue_of(one: Meeting) -> str:
    """The queue of the run: one for each order of calls that concern a whole queue."""
    letters = [OF_QUEUES.get(call, "-") for call in one.calls]
    return "".join(letters).rstrip("-") or "default"


def expected_meeting(one: Meeting) -> ShownRequest:
    """The request that the rule predicts, and its effect."""
    request: StopRequest | None = None
    pause: StopRequest | None = None
    on_hold = False
    for place, call in zip_longest(range(PLACES), one.calls):
        begun = one.begins.value <= place
        if place and request is not None and not (begun and request.kind is CancelKind.RETURN):
            request = request._replace(heard_at=1.0)
        new = None if call is None else requested(call, str(place))
        match call:
            case StopCall.PAUSE | StopCall.PAUSE_POSTPONED:
                pause = new
            case StopCall.HOLD_QUEUE | StopCall.RESUME_QUEUE:
                on_hold = call is StopCall.HOLD_QUEUE
        withdraws = call is StopCall.PLAN_WITH or (call is StopCall.RESUME and pause is not None)
        pause = None if call is StopCall.RESUME else pause
        if begun and (new is None or new.kind is not CancelKind.CANCEL):
            continue
        if new is not None:
            request = merged(request, new)
        elif withdraws:
            request = kept(request, pause=pause)
    begun = one.begins is not Begins.NEVER
    shown = None
    if request is not None and request.kind is not CancelKind.RETURN:
        shown = (request.error, request.heard_at is not None)
    told = told_to_holder(request, begun=begun, on_hold=on_hold)
    return ShownRequest(told, shown, _back(request, begun=begun, paused=pause is not None))


def requested(call: StopCall, who: str) -> StopRequest | None:
    """The request that a call makes; None: it makes none."""
    match call:
        case StopCall.CANCEL | StopCall.CANCEL_JOB | StopCall.CANCEL_BACKFILL:
            return StopRequest(CancelKind.CANCEL, 0.0, cancelled_sentence(who))
        case StopCall.REPLACE:
            return StopRequest(CancelKind.CANCEL, 0.0, REPLACED_SENTENCE)
        case StopCall.SKIP:
            return StopRequest(CancelKind.REVOKE, 0.0, f"{SKIP_SENTENCE} {who}", SkipReason.REQUESTED)
        case StopCall.PAUSE:
            return StopRequest(CancelKind.REVOKE, 0.0, PAUSED_SENTENCE, SkipReason.PAUSED)
        case StopCall.PAUSE_POSTPONED:
            return StopRequest(CancelKind.RETURN, 0.0, PAUSED_SENTENCE, SkipReason.PAUSED)
        case StopCall.PLAN_WITHOUT:
            return StopRequest(CancelKind.REVOKE, 0.0)
        case StopCall.RESUME | StopCall.PLAN_WITH | StopCall.HOLD_QUEUE | StopCall.RESUME_QUEUE:
            return None


def _back(
    request: StopRequest | None, *, begun: bool, paused: bool
) -> tuple[RunState, str | None, str | None, bool] | None:
    asked = None if request is None else request.kind
    for_pause = paused and request is not None and request.skipped is SkipReason.PAUSED
    match came_back(asked, begun=begun, paused=for_pause):
        case ReturnVerdict.CANCEL if request is not None:
            return RunState.CANCELLED, CANCELLED, request.error, False
        case ReturnVerdict.REVOKE if request is not None:
            return None if request.skipped is None else (RunState.SKIPPED, request.skipped, request.error, False)
        case ReturnVerdict.HOLD_BACK:
            return RunState.QUEUED, None, None, False
    return RunState.QUEUED, None, None, True
