"""Makes the successors of ended runs: `then` after success, `on_failure` after failure.

    a run ends ──(one transaction)──► a follow ──► its job's definition ──► successors' runs ──(one transaction)──► gone
                                        ▲                                       │
                                        └────── nothing is lost in between ─────┘

Any number of schedulers at once. Invariant: the run of a successor is named by what it follows, so going on twice from
one end, wherever we stopped the first time, is going on once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from tickwise.documents.definition import decode_definition, definition_of_run
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Trigger, run_id
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.domain.trace_context import TraceContext, trace_id_of_run
from tickwise.observability.tracing import Tracer
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Completion, JobRow, NewRun, Ready, RunRow, Store, Successor
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.service import Telemetry

PAGE: Final = 100
"""Ends looked at in one step."""
LOOK_SECONDS: Final = 1.0
"""The interval of looks without a signal."""
MAX_CHAIN: Final = 100
"""Runs that led to one, each to the next. Circles are refused when a job is stored; one that two edits at the same
moment made between them ends here."""
PUT_OFF_SECONDS: Final = 60.0
"""One that cannot be gone on from (a defect of ours) is tried again after this: it holds up no other."""

MAX_STARTS: Final = 500
MAX_LENGTH: Final = 4 << 20
"""One transaction stores so many runs, or so many characters of their definitions, and what one more end starts."""

Ends = Mapping[UUID, Sequence[Successor]]
"""Runs that have ended, and what each of them starts."""
Jobs = dict[UUID, JobRow | None]

logger = structlog.get_logger("tickwise.scheduler")


@dataclass(slots=True)
class SequencePage:
    """The look-ups of one step, and the rows for its next transaction."""

    jobs: Jobs = field(default_factory=dict)
    origins: dict[UUID, UUID | None] = field(default_factory=dict)
    """Of runs, by their ids: which run each follows."""
    ends: dict[str, dict[UUID, Sequence[Successor]]] = field(default_factory=dict)
    """By namespace."""
    starts: int = 0
    length: int = 0

    def add(self, run: RunRow, starts: Sequence[Successor]) -> None:
        """Add the successors of this run."""
        self.ends.setdefault(run.namespace, {})[run.run_id] = starts
        self.starts += len(starts)
        self.length += sum(len(start.run.definition or "") for start in starts if start.run is not None)

    @property
    def is_full(self) -> bool:
        """Check whether the gathered starts must be stored before more are gathered."""
        return self.starts >= MAX_STARTS or self.length >= MAX_LENGTH

    def take(self) -> Mapping[str, Ends]:
        """Take the gathered rows; the page is empty then."""
        ends, self.ends, self.starts, self.length = self.ends, {}, 0, 0
        return ends


class Sequences:
    """The part of a scheduler that makes successors."""

    def __init__(
        self,
        store: Store,
        *,
        signals: Signals,
        clock: Clock,
        telemetry: Telemetry,
        hint_publisher: HintPublisher | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._store = store
        self._tracer = tracer
        self._hint_publisher = hint_publisher
        self._signals = signals
        self._clock = clock
        self._telemetry = telemetry
        self._put_off: dict[UUID, float] = {}
        """Ends that could not be gone on from, and until when they wait."""

    async def step(self) -> float:
        """Go on from a page of ends; how long until the next look."""
        now = self._clock.monotonic()
        self._put_off = {run: until for run, until in self._put_off.items() if until > now}
        # The oldest come first: those that are put off must not be all that is seen.
        limit = PAGE + len(self._put_off)
        follows = await self._store.completions.pending(limit)
        page = SequencePage()
        for follow in follows:
            if follow.run.run_id not in self._put_off:
                with self._putting_off(follow.run.run_id):
                    page.add(follow.run, await self._starts(follow, page))
                if page.is_full:
                    await self._commit(page)
        await self._commit(page)
        return 0.0 if len(follows) >= limit else LOOK_SECONDS

    async def _commit(self, page: SequencePage) -> None:
        """Store the gathered completions: the ends of each namespace in one transaction."""
        for namespace, ends in page.take().items():
            try:
                self._notify_made(await self._store.completions.commit(namespace, ends), ends, page.jobs)
            except Unavailable:
                raise
            except Exception:
                logger.exception("sequence_page_failed", namespace=namespace, ends=len(ends))
                await self._commit_singly(namespace, ends, page.jobs)

    async def _commit_singly(self, namespace: str, ends: Ends, jobs: Jobs) -> None:
        """Each end by itself, after a defect: it is most likely that of one end."""
        for run, starts in ends.items():
            with self._putting_off(run):
                one = {run: starts}
                self._notify_made(await self._store.completions.commit(namespace, one), one, jobs)

    @contextlib.contextmanager
    def _putting_off(self, run: UUID) -> Iterator[None]:
        """One that fails for another reason than an outage is tried again much later."""
        try:
            yield
        except Unavailable:
            raise
        except Exception:
            logger.exception("sequence_stuck", run_id=str(run))
            self._put_off[run] = self._clock.monotonic() + PUT_OFF_SECONDS

    def _notify_made(self, made: int, ends: Ends, jobs: Jobs) -> None:
        """Executors hear of the runs that were made."""
        if not made:
            return
        self._telemetry.sequenced(made)
        self._signals.send(Topic.RUNS)
        if self._hint_publisher is not None:
            found = [(jobs.get(start.job_id), start.run) for starts in ends.values() for start in starts]
            self._hint_publisher.publish(
                [
                    Ready(new.run_id, new.due, row.lane, row.namespace)
                    for row, new in found
                    if row is not None and new is not None
                ]
            )

    async def _starts(self, follow: Completion, page: SequencePage) -> Sequence[Successor]:
        run = follow.run
        job = await self._job(run.namespace, run.job_id, page.jobs)
        text = run.definition if run.definition is not None or job is None else job.definition
        if text is None:
            return []
        own = decode_definition(text)
        named = own.then if follow.succeeded else own.on_failure
        if not named:
            return []
        if await self._is_too_long(run, page.origins):
            logger.error("sequence_cut", run_id=str(run.run_id), job_id=str(run.job_id), runs=MAX_CHAIN)
            return []
        # One that a person has decided ended long ago, and what follows from that is not late.
        due = await self._store.now() if run.reason == UNKNOWN_OUTCOME else ended_at(run)
        found = []
        for job_id in dict.fromkeys(named):
            row = await self._job(run.namespace, job_id, page.jobs)
            if row is None or row.status is JobStatus.CANCELLED:
                logger.info("sequence_ended", run_id=str(run.run_id), successor=str(job_id))
            else:
                found.append(Successor(job_id, successor(follow, row, due, self._trace_of(run.run_id, own.trace))))
        return found

    def _trace_of(self, run_id: UUID, trace: TraceContext | None) -> TraceContext | None:
        """The trace in which the successors of a run go on; None: it has none, and is not recorded."""
        if trace is not None or self._tracer is None or not self._tracer.records(run_id):
            return trace
        return TraceContext(trace_id_of_run(run_id), self._tracer.span_id(), True)

    async def _job(self, namespace: str, job_id: UUID, jobs: Jobs) -> JobRow | None:
        known = jobs.get(job_id)
        if known is not None and known.namespace == namespace:
            return known
        # A job that is not here may be in another namespace, where a later end of this page asks for it.
        row = await self._store.jobs.get(namespace, job_id)
        if row is not None:
            jobs[job_id] = row
        return row

    async def _is_too_long(self, run: RunRow, origins: dict[UUID, UUID | None]) -> bool:
        """Check whether so many runs led to this one that jobs start each other in a circle. `origins`: those known."""
        origin = run.origin
        for _ in range(MAX_CHAIN):
            if origin is None:
                return False
            if origin not in origins:
                before = await self._store.runs.get(run.namespace, origin)
                origins[origin] = None if before is None else before.origin
            origin = origins[origin]
        return True


def ended_at(run: RunRow) -> float:
    """The time of its end at the latest."""
    return run.due_at if run.ended_at is None else run.ended_at


def successor(follow: Completion, job: JobRow, due: float, trace: TraceContext | None = None) -> NewRun:
    """The run that a job makes of the end of a run of another, in whose trace it goes on."""
    run, nominal = follow.run, ended_at(follow.run)
    payload = payload_of(follow)
    return NewRun(
        run_id=run_id(job.job_id, nominal, Trigger.SEQUENCE, run.run_id.bytes),
        due=due,
        trigger=Trigger.SEQUENCE,
        definition=definition_of_run(job.definition, payload=payload, trace=trace),
        origin=run.run_id,
        nominal=nominal,
    )


def payload_of(follow: Completion) -> msgspec.Raw | None:
    """The payload of the next run; None: its job's own payload. After success that is the result, if there is one;
    after failure it says which run it was and why it failed."""
    run = follow.run
    if follow.succeeded:
        return None if run.result is None else msgspec.Raw(run.result.encode())
    failure: dict[str, Any] = {
        "job_id": str(run.job_id),
        "run_id": str(run.run_id),
        "reason": run.reason,
        "error": run.error,
        "attempt": run.attempt,
    }
    return msgspec.Raw(msgspec.json.encode(failure))
