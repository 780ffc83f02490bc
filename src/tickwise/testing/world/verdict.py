"""Judges a world when it is quiet: the history checker's inputs, and what the memory store and the roles show directly.

Invariant: nothing here asks the store's own methods. What they would say may be what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from tickwise.adapters.store.memory import MemoryStore
from tickwise.documents.definition import decode_definition
from tickwise.domain.history.checker import ClientAnswer, Edge, Execution, History, Operation, Run
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.schedule import ScheduleType, fires_between
from tickwise.testing.world.submits import GATE
from tickwise.testing.world.swarm import Swarm
from tickwise.testing.world.watch import Watch

if TYPE_CHECKING:
    from tickwise.testing.world.nodes import SimulatedNode
    from tickwise.testing.world.workload import Clients

MAX_OCCURRENCES: Final = 5_000
SLACK_SECONDS: Final = 1e-5
"""Instants are rounded to the microsecond on their way."""


def history_of(
    store: MemoryStore, watch: Watch, clients: Clients, nodes: Sequence[SimulatedNode], swarm: Swarm
) -> History:
    """The input of the history checker."""
    state = store.state
    executions = [
        Execution(written.run_id, written.token, written.begin, written.end, written.job_id)
        for node in nodes
        for written in node.host.written
        # What ran under a claim that was lost is on no record; that it ran once more is what a lost claim means.
        if written.token not in watch.lost_tokens
    ]
    stands_still = bool({"pause", "freezes after a call"} & swarm.faults)
    return History(
        runs=[*_runs(state)],
        journal=watch.journal,
        operations=[_as_far_as_kept(operation, watch, swarm.start) for operation in clients.operations],
        executions=executions,
        faults=watch.faults,
        lease_ends=() if stands_still else [*watch.lease_ends.values()],
        stale_refused=watch.stale_refused,
        limits=_limits(state, clients.gate_limit),
        edges=[edge for edge in _edges(state) if not watch.gaps or edge.successor in state.jobs],
        late_starts=not stands_still,
        clock_slack=SLACK_SECONDS,
    )


def _as_far_as_kept(operation: Operation, watch: Watch, start: float) -> Operation:
    """An answer that was given while a standby was behind may be lost, and counts then as no answer."""
    begun, ended = operation.begun - start, (operation.ended or operation.begun) - start
    if any(begun <= gap.end and ended >= gap.begin for gap in watch.gaps):
        return operation._replace(answer=ClientAnswer.INFO)
    return operation


def _runs(state: Any) -> Iterator[Run]:
    rows = [(ended.row, ended.token if ended.reported else 0) for ended in state.ended.values()]
    rows += [(state.run_row(run), run.token) for run in state.runs.values()]
    keys = {row.run_id: _key(row.definition) for row, _ in rows}
    for row, token in rows:
        key = keys[row.run_id]
        # What repeats a run without another payload bears the name of the request that made that one.
        inherited = row.origin is not None and keys.get(row.origin) == key
        yield _run(state, row, token, None if inherited else key)


def _key(definition: str | None) -> str | None:
    """The name of the request that made a run: clients write it into the payload."""
    payload = None if definition is None else msgspec.json.decode(definition).get("payload")
    return payload.get("key") if isinstance(payload, dict) else None


def _run(state: Any, row: Any, token: int, key: str | None) -> Run:
    job = state.jobs[row.job_id]
    work = decode_definition(row.definition or job.definition)
    once = row.trigger == Trigger.SCHEDULE and not job.recurring
    return Run(
        run_id=row.run_id,
        job_id=row.job_id,
        state=row.state,
        trigger=row.trigger,
        due=row.due_at,
        nominal=row.nominal_at,
        until=row.until,
        started=row.started_at,
        ended=row.ended_at,
        token=token,
        attempt=row.attempt,
        failures=row.failures,
        crashes=row.crashes,
        reason=row.reason,
        origin=row.origin,
        key=job.name if once else key,
        attempts_most=work.max_retries + 1,
        limit_key=None if work.concurrency is None else work.limit_key or f"job:{job.job_id}",
    )


def _limits(state: Any, gate_limit: int) -> dict[str, int]:
    """By key. Nobody edits a limit."""
    limits = {f"key:{GATE}": gate_limit}
    for job in state.jobs.values():
        limit = decode_definition(job.definition).concurrency
        if limit is not None and limit.key == "job":
            limits[f"job:{job.job_id}"] = limit.limit
    return limits


def _edges(state: Any) -> Iterator[Edge]:
    """The successors of each job by end. No client edits a sequence, and none cancels a job that only runs in one."""
    for job in state.jobs.values():
        definition = decode_definition(job.definition)
        for after, successors in (
            (RunState.SUCCESS, definition.then),
            (RunState.FAILED, definition.on_failure),
        ):
            for successor in successors:
                yield Edge(job.job_id, after, successor)


def direct(store: MemoryStore, nodes: Sequence[SimulatedNode], clients: Clients) -> list[str]:
    """The invariants of the store, the hosts and the roles when all is quiet."""
    state = store.state
    return [
        *_ended_once(state),
        *_nobody_holds(state),
        *_no_dying_attempts(nodes),
        *books_out_of_balance(nodes),
        *_letters_are_settled_once(state),
        *_every_occurrence(state, clients.touched),
    ]


def _ended_once(state: Any) -> Iterator[str]:
    for run_id in state.runs.keys() & state.ended.keys():
        yield f"run {run_id} lives, and is on record as ended"
    for run_id, ended in state.ended.items():
        if ended.row.state not in FINAL:
            yield f"run {run_id} is on record as {ended.row.state}"
    for run_id, run in state.runs.items():
        yield f"run {run_id} of {run.job.name!r} still lives: {run.state}, blocked {run.blocked}, by {run.executor}"


def _nobody_holds(state: Any) -> Iterator[str]:
    for number, executor in state.executors.items():
        if executor.held:
            yield f"executor {number} still holds {len(executor.held)} runs"
    if state.taken:
        yield f"{len(state.taken)} timers are still taken by a scheduler"


def _letters_are_settled_once(state: Any) -> Iterator[str]:
    """The run that a letter became exists and names the letter; no two runs name one letter."""
    rows = {run_id: ended.row for run_id, ended in state.ended.items()}
    for run_id, letter in state.letters.items():
        if letter.redriven_as is None:
            continue
        new = rows.get(letter.redriven_as)
        if new is None or new.origin != run_id:
            yield f"the letter of run {run_id} became {letter.redriven_as}, which does not say so"


def _no_dying_attempts(nodes: Sequence[SimulatedNode]) -> Iterator[str]:
    for node in nodes:
        for run_id, token in node.host.active:
            yield f"on {node.name} a task of run {run_id} lives on under token {token}"


def books_out_of_balance(nodes: Sequence[SimulatedNode]) -> Iterator[str]:
    """Slots that are taken by nothing, and what executors still have in hand."""
    for node in nodes:
        if node.kind != "executor" or not node.alive or node.leaving:
            continue
        executor = node.role
        for capacity in executor._capacities:
            books = capacity.held, capacity.launched, capacity.unrecorded
            if any(books):
                yield f"{node.name} counts {books} held, launched and unrecorded {capacity.kinds}, and holds nothing"
        if executor._held_runs.live or executor._held_runs.dying or len(executor._outbox):
            yield f"{node.name} still has {len(executor._held_runs.live)} runs, {len(executor._held_runs.dying)} dying"


def _every_occurrence(state: Any, touched: set[UUID]) -> Iterator[str]:
    """Of each job whose schedule nobody touched: each occurrence is on record, and nothing else."""
    for job in state.jobs.values():
        if not job.recurring or job.job_id in touched or job.standing is not None:
            continue
        definition = decode_definition(job.definition)
        if definition.schedule_type is ScheduleType.ON_DEMAND:
            continue
        schedule = definition.schedule(job.job_id)
        end = definition.end_at
        since = definition.planned_at
        if since is None or end is None:
            yield f"job {job.name!r} says neither since when nor until when it is planned"
            continue
        wanted = fires_between(schedule, since, end, MAX_OCCURRENCES)
        rows = [each.row for each in state.ended.newest(job.job_id) if each.row.trigger == Trigger.SCHEDULE]
        spans = [(row.nominal_at, row.until or row.nominal_at) for row in rows]
        singles = {round(row.nominal_at, 3) for row in rows if row.until is None}
        for at in wanted:
            if round(at, 3) not in singles and not any(first <= at <= last for first, last in spans):
                yield f"job {job.name!r} has no record of its occurrence at {at:.3f}"
        known = {round(at, 3) for at in wanted}
        for row in rows:
            if row.state is not RunState.SKIPPED and round(row.nominal_at, 3) not in known:
                yield f"run {row.run_id} of {job.name!r} is for {row.nominal_at:.3f}, which its schedule does not name"


def lives_through(store: MemoryStore, change: float) -> bool:
    """Check whether a cron job of a zone has occurrences on record from before and after a change of its clock."""
    for job in store.state.jobs.values():
        if job.schedule_type == ScheduleType.CRON and decode_definition(job.definition).timezone != "UTC":
            ended = [each.row for each in store.state.ended.newest(job.job_id)]
            at = [row.nominal_at for row in ended if row.trigger == Trigger.SCHEDULE]
            if at and min(at) < change <= max(at):
                return True
    return False
