"""Tables of requests that meet: two requests to the holder of one run, in both orders, before and after it begins."""

from __future__ import annotations

from enum import Enum, auto
from itertools import product
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.decision import PAUSED_SENTENCE, Overlap, SkipReason
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Claimed, Lane
from tickwise.domain.rules.requests import StopRequest, kept, merged
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


class Begins(Enum):
    """The time at which the run begins."""

    FIRST = 0
    BETWEEN = 1
    LAST = 2
    NEVER = 3


class Meeting(NamedTuple):
    """Two calls about one held run."""

    first: StopCall
    second: StopCall
    begins: Begins


class ShownRequest(NamedTuple):
    """A request and its effect, as the store shows them."""

    told: CancelKind | None
    """With the heartbeat."""
    shown: tuple[str | None, bool] | None
    """With the run: the sentence, and whether its holder has heard it."""
    back: tuple[RunState, str | None, str | None, bool] | None
    """The run after its holder gave it back: state, reason, error, whether it can be claimed; None: it is forgotten."""


NOT_OF_CANCELLED: Final = (
    StopCall.PAUSE,
    StopCall.PAUSE_POSTPONED,
    StopCall.RESUME,
    StopCall.PLAN_WITHOUT,
    StopCall.PLAN_WITH,
)
"""Calls that a store refuses for a job that is cancelled."""

MEETINGS: Final = [
    Meeting(first, second, begins)
    for first, second, begins in product(StopCall, StopCall, Begins)
    if (first is not StopCall.CANCEL_JOB or second not in NOT_OF_CANCELLED)
    # No run starts in a queue that is on hold, so none replaces another one.
    and {first, second} != {StopCall.HOLD_QUEUE, StopCall.REPLACE}
]


class RequestTableContract(TableContract):
    """All calls that ask something of the holder of a run follow `domain.rules.requests`."""

    async def test_each_meeting_of_two_requests_meets_the_verdict(self, store: Store, make: Factory) -> None:
        """By what the holder is told, what the run shows, and what happens to the run when it comes back."""
        scene = await MeetingScene.made(self, store, make)
        for place, begins in enumerate((Begins.FIRST, Begins.BETWEEN)):
            await scene.begin(begins)
            if place:
                await self.cancels(store, scene.executor)
            for one in MEETINGS:
                await scene.call(one, place)
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
        scene.claims = await table.take(store, executor, scene.runs.values())
        scene.claims |= await table.take(store, other, scene._replacing.values())
        return scene

    async def _add(self, one: Meeting) -> None:
        make = self._make
        self._origins[one] = make.identifier()
        run = postponed(make, make.now + HOUR)._replace(origin=self._origins[one])
        replacing = {
            place: make.run(make.identifier(), make.now + HOUR + 1.0 + place, overlap=Overlap.CANCEL_RUNNING)
            for place, call in enumerate(one[:2])
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

    async def call(self, one: Meeting, place: int) -> None:
        """Make the first or the second call."""
        store, make, run_id, job_id = self._store, self._make, self.runs[one], self._jobs[one]
        who = str(place)
        match one[place]:
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
                await store.jobs.change(make.change(row, replan=make.plan(keep_dues=kept_dues)))
            case StopCall.HOLD_QUEUE:
                await store.queues.hold(make.hold(queue_of(one)))


def queue_of(one: Meeting) -> str:
    """The queue of the run: one for each place of a hold, because a hold concerns a whole queue."""
    if StopCall.HOLD_QUEUE not in one[:2]:
        return "default"
    return "held" if one.first is StopCall.HOLD_QUEUE else "held later"


def expected_meeting(one: Meeting) -> ShownRequest:
    """The request that the rule predicts, and its effect."""
    request, paused = None, False
    for place, call in enumerate(one[:2]):
        begun = one.begins.value <= place
        if place and request is not None and not (begun and request.kind is CancelKind.RETURN):
            request = request._replace(heard_at=1.0)
        paused = call in (StopCall.PAUSE, StopCall.PAUSE_POSTPONED) or (paused and call is not StopCall.RESUME)
        request = _asked(request, call, str(place), begun=begun, paused=paused, resumed=_resumed(one, place))
    begun = one.begins is not Begins.NEVER
    told = None if request is None or (begun and request.kind is CancelKind.RETURN) else request.kind
    shown = None
    if request is not None and request.kind is not CancelKind.RETURN:
        shown = (request.error, request.heard_at is not None)
    return ShownRequest(told, shown, _back(request, begun=begun, paused=paused))


def _resumed(one: Meeting, place: int) -> bool:
    """Check whether a resume ends a pause; any other changes nothing."""
    return place == 1 and one.second is StopCall.RESUME and one.first in (StopCall.PAUSE, StopCall.PAUSE_POSTPONED)


def _asked(
    standing: StopRequest | None, call: StopCall, who: str, *, begun: bool, paused: bool, resumed: bool
) -> StopRequest | None:
    new = requested(call, who)
    if new is not None:
        unbegun_only = new.kind is not CancelKind.CANCEL
        return standing if begun and unbegun_only else merged(standing, new)
    if call is StopCall.PLAN_WITH or resumed:
        return standing if begun else kept(standing, paused=paused)
    return standing


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
        case StopCall.HOLD_QUEUE:
            return StopRequest(CancelKind.RETURN, 0.0)
        case StopCall.RESUME | StopCall.PLAN_WITH:
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
