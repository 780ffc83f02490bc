"""What an executor has not told the store yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from tests.unit.roles.rig import Silent, drive
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.domain.errors import Bug, InDoubt
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Claimed, Outcome
from tickwise.domain.observing.usage import NO_USAGE, ResourceUsage, UsageByRun
from tickwise.domain.trace_context import TraceContext, TracesByRun
from tickwise.ports.store import Began
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns, read_body
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.ledger import CapacityLedger
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.start_records import StartRecords
from tickwise.roles.shared.outcome_writer import OutcomeWriter

RUN = UUID(int=1)


class Refusing:
    """A store whose first answer is lost, and that then refuses every start of an older token than `token`."""

    def __init__(self, token: int) -> None:
        self.token = token
        self.asked: list[list[int]] = []

    async def start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        self.asked.append([began.token for began in starts])
        if len(self.asked) == 1:
            raise InDoubt("the answer is lost")
        return [began.run_id for began in starts if began.token != self.token]


async def test_the_start_of_an_older_attempt_does_not_cost_the_active_one_its_right() -> None:
    """A run that was given back and claimed again by the same executor, while the start of its first attempt was still
    to be recorded: the store refuses by run, so that the old start must not be sent with the new one."""
    clock, store = VirtualClock(), Refusing(token=2)
    lease, held_runs = (
        Lease(clock, 10.0, doubted=asyncio.Event()),
        HeldRuns(CapacityLedger({}, clock=clock, wake=asyncio.Event())),
    )
    starts = StartRecords(attempts=cast(Any, store), clock=clock, lease=lease, held_runs=held_runs)
    older, newer = held(clock, 1), held(clock, 2)

    async def fails() -> None:
        try:
            await starts.send()
        except InDoubt:
            held_runs.live[RUN] = newer
            starts.add(Began(RUN, 2, clock.now()))

    held_runs.live[RUN] = older
    starts.add(Began(RUN, 1, clock.now()))
    await drive(clock, fails())
    await drive(clock, starts.send())
    assert [[1], [2]] == store.asked
    assert held_runs.holds(newer)


async def test_an_attempt_whose_start_is_refused_as_stale_is_killed_here() -> None:
    """Another executor may run it. A start that the store accepts changes nothing."""
    clock, store = VirtualClock(), Refusing(token=2)
    store.asked.append([])  # so that the first answer is not lost
    lease, held_runs = (
        Lease(clock, 10.0, doubted=asyncio.Event()),
        HeldRuns(CapacityLedger({}, clock=clock, wake=asyncio.Event())),
    )
    starts = StartRecords(attempts=cast(Any, store), clock=clock, lease=lease, held_runs=held_runs)
    for token, is_kept in ((2, True), (1, False)):
        attempt = held_runs.live[RUN] = held(clock, token)
        starts.add(Began(RUN, token, clock.now()))
        await drive(clock, starts.send())
        assert is_kept is held_runs.holds(attempt)


def held(clock: VirtualClock, token: int) -> HeldRun:
    """An attempt of the run under this token."""
    now = clock.now()
    spec = '{"schedule_type": "FUTURE", "task": {"kind": "scripted"}}'
    claimed = Claimed(RUN, token, RUN, "default", 1, 0, 0, False, now, now, now, 0, spec, now)
    return HeldRun(claimed, read_body(spec), cast(Any, Place()), False)


class Picky:
    """A store that can keep no success, and keeps everything else."""

    def __init__(self) -> None:
        self.kept: list[Outcome] = []
        self.usage: dict[UUID, ResourceUsage] = {}

    async def finish(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun = NO_USAGE) -> Sequence[UUID]:
        if any(outcome.state == CODES[RunState.SUCCESS] for outcome in outcomes):
            raise Bug("a result that cannot be kept")
        self.kept += outcomes
        self.usage |= usage
        return []


class Place:
    """A capacity that counts nothing."""

    held = unrecorded = 0

    def pressed(self) -> bool:
        return False

    def freed(self) -> None:
        """Nothing."""

    def recorded(self, count: int) -> None:
        """Nothing."""


async def test_from_an_outcome_that_could_not_be_kept_its_sequence_goes_on_as_after_a_failure() -> None:
    """The run ends FAILED in place of what it came to, and `on_failure` is for that too."""
    clock, store, place = VirtualClock(), Picky(), Place()
    outbox = Outbox(
        lease=Lease(clock, 10.0, doubted=asyncio.Event()),
        capacities=[cast(Any, place)],
        telemetry=Silent(),
        batch=100,
        flush_seconds=0.0,
        emptied=asyncio.Event(),
        writer=OutcomeWriter(cast(Any, store), Silent(), LocalSignals()),
    )
    now = clock.now()
    outbox.add(Outcome(RUN, 1, CODES[RunState.SUCCESS], now, now), cast(Any, place))
    await drive(clock, outbox.send())
    assert [(CODES[RunState.FAILED], "invalid", True)] == [(one.state, one.reason, one.follow) for one in store.kept]


class Noting:
    """A writer that notes the spans that it is given with each batch."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[UUID], TracesByRun]] = []

    async def write(
        self, _executor: int, outcomes: Sequence[Outcome], _usage: UsageByRun, traces: TracesByRun
    ) -> Sequence[UUID]:
        self.batches.append(([each.run_id for each in outcomes], traces))
        return []

    def count(self, outcomes: Sequence[Outcome], refused: Sequence[UUID]) -> None:
        """Nothing is counted."""


async def test_a_batch_takes_the_spans_of_its_own_outcomes_and_no_others() -> None:
    """One that leaves outcomes behind, and one that takes all that wait."""
    clock, writer, place = VirtualClock(), Noting(), Place()
    outbox = Outbox(
        lease=Lease(clock, 10.0, doubted=asyncio.Event()),
        capacities=[cast(Any, place)],
        telemetry=Silent(),
        batch=2,
        flush_seconds=0.0,
        emptied=asyncio.Event(),
        writer=cast(Any, writer),
    )
    now, runs = clock.now(), [UUID(int=number) for number in range(1, 5)]
    spans = {run: TraceContext(run.int, 1, True) for run in (runs[1], runs[2])}
    for run in runs:
        made = Outcome(run, 1, CODES[RunState.SUCCESS], now, now)
        outbox.trace(made, spans.get(run))
        outbox.add(made, cast(Any, place))
    await drive(clock, outbox.send())
    await drive(clock, outbox.send())
    outbox.add(Outcome(RUN, 2, CODES[RunState.SUCCESS], now, now), cast(Any, place))
    await drive(clock, outbox.send())
    assert [
        (runs[:2], {runs[1]: spans[runs[1]]}),
        (runs[2:], {runs[2]: spans[runs[2]]}),
        ([RUN], {}),
    ] == writer.batches
