"""The runs that an executor holds: every claimed run from its claim until its outcome is queued for the store.

    claimed ──► HOLDING ──► (STARTING) ──► LAUNCHED ──► settled: an outcome
                                              └──────► abandoned: its attempt is dying, until its task is dead

Invariant: a run is held once, and its place in its runner's capacity is given back exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from tickwise.documents.definition import Limits, Work, decode_work
from tickwise.domain.accounts.identity_tokens import TokenWish
from tickwise.domain.decision import Overlap
from tickwise.domain.fencing import shard_bits
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.domain.rules.capacities import Demand, demand_of
from tickwise.domain.rules.confinement import PLAIN, Confinement
from tickwise.domain.secrets.places import SECRET, references_in
from tickwise.domain.trace_context import TraceContext
from tickwise.ports.runner import NO_SECRETS, Assignment, TaskLimits
from tickwise.ports.store import Gate
from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.ledger import CapacityLedger

BODIES_KEPT: Final = 1_000
"""Texts of definitions that are remembered read: the runs of one job come with the same text each time."""
BODY_KEPT_LENGTH: Final = 2_000
"""Longer ones are read anew: what is remembered takes some megabytes at most."""
_UNLIMITED: Final = Limits()
_UNLIMITED_TASK: Final = _UNLIMITED.of_task()
_RERUN: Final = OnUnknown.RERUN
WAITING: Final = frozenset({Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING})
"""With these a later run waits for an earlier one of its job."""
_new = tuple.__new__
"""A named tuple without the steps of its constructor: tens of thousands are made a second."""


class RunStage(Enum):
    """The stage of a claimed run in this executor."""

    HOLDING = 1
    """It waits for its due time."""
    STARTING = 2
    """It is due, guarded, and its start is being recorded."""
    LAUNCHED = 3
    """Its runner has it."""


class Body(NamedTuple):
    """The part of a definition that an executor reads."""

    work: Work
    kind: str
    payload: bytes
    limits: TaskLimits
    guarded: bool
    """A start is recorded before it begins, for any state of the run in the store."""
    names_errors: bool
    confinement: Confinement
    is_followed: bool
    """Other jobs go on from its success."""
    is_waited_for: bool
    """Runs may wait for its end: for its slot, or because later runs of its job wait for earlier ones."""
    demand: Demand | None = None
    """The counted capacities that it holds from its claim until its task is dead; None: none."""
    secrets: tuple[str, ...] = ()
    """The references to secrets in its task."""
    token_wish: TokenWish | None = None
    """The identity token that each attempt gets; None: none."""


def read_body(text: str) -> Body:
    """Raises `MsgspecError`, or `KeyError` if its task has no kind."""
    return _remembered(text) if len(text) <= BODY_KEPT_LENGTH else _read(text)


def is_counted(claimed: Claimed) -> bool:
    """Check whether a run holds counted capacities; False if its definition cannot be read."""
    try:
        return read_body(claimed.spec).demand is not None
    except (msgspec.MsgspecError, KeyError):
        return False


def _read(text: str) -> Body:
    work = decode_work(text)
    guarded = work.on_unknown is not _RERUN or work.concurrency is not None or work.rate is not None
    limits = _UNLIMITED_TASK if work.limits == _UNLIMITED else work.limits.of_task()
    waited_for = work.concurrency is not None or work.overlap in WAITING
    flags = (guarded, bool(work.retry.on.error), _confinement_of(work), bool(work.then), waited_for)
    demand = demand_of(work.resources, limits.memory_bytes)
    secrets = references_in(work.task) if SECRET in text else ()  # a text without the word holds none
    wish = None if work.identity_token is None else work.identity_token.wish(work.job_key)
    return _new(Body, (work, work.task["kind"], bytes(work.payload), limits, *flags, demand, secrets, wish))


def _confinement_of(work: Work) -> Confinement:
    found = Confinement(work.isolation, work.allow_network, work.run_as, work.resources, work.container_image)
    return PLAIN if found == PLAIN else found


_remembered = lru_cache(BODIES_KEPT)(_read)


class AttemptTrace(NamedTuple):
    """The place of an attempt in a trace that is recorded."""

    trace_id: int
    span_id: int
    """Of the attempt (`Tracer.span_id`): those of its task and its wait follow from it."""
    parent_id: int | None
    """The span that the run was made in; None: the run begins its trace."""
    tracestate: str

    @property
    def attempt(self) -> TraceContext:
        """Of the attempt, …"""
        return _new(TraceContext, (self.trace_id, self.span_id, True, self.tracestate))

    @property
    def task_id(self) -> int:
        """… of its task, …"""
        return self.span_id | 1

    @property
    def wait_id(self) -> int:
        """… and of its wait."""
        return self.span_id | 2

    def of_task(self) -> tuple[str, str | None]:
        """`traceparent` and `tracestate` as its task is handed them."""
        return f"00-{self.trace_id:032x}-{self.span_id | 1:016x}-01", self.tracestate or None


class HeldRun(msgspec.Struct, eq=False):
    """One claimed run, from claim to outcome. A struct: tens of thousands are made a second."""

    claimed: Claimed
    body: Body
    capacity: RunnerCapacity
    guarded: bool
    """Its start is recorded before it begins."""
    stage: RunStage = RunStage.HOLDING
    cancelling: bool = False
    """Its stop was requested."""
    fenced: bool = False
    """It is being stopped because our lease ends."""
    trace: AttemptTrace | None = None
    """Set from the launch to the end of an attempt that is recorded."""
    secrets: Mapping[str, bytes] = NO_SECRETS
    """The values of its references, from the answer of their providers on."""

    @property
    def work(self) -> Work:
        """The part of its definition that executors read."""
        return self.body.work

    @property
    def trace_id(self) -> str | None:
        """The trace that it belongs to, as logs show it."""
        if self.trace is not None:
            return f"{self.trace.trace_id:032x}"
        found = self.work.trace
        return None if found is None else found.trace_text

    def is_urgent(self) -> bool:
        """True if the store is told of the run's end at once: other runs may wait for that end."""
        return self.body.is_waited_for or self.claimed.guarded

    def gate(self) -> Gate | None:
        """The limits that its start has to pass besides its fence."""
        limit, rate, own = self.work.concurrency, self.work.rate, f"job:{self.claimed.job_id}"
        if limit is None and rate is None:
            return None
        return Gate(
            limit_key=None if limit is None else self.work.limit_key or own,
            limit=0 if limit is None else limit.limit,
            rate_key=None if rate is None else self.work.rate_key or own,
            rate_gap_seconds=0.0 if rate is None else rate.per_seconds / rate.limit,
        )

    def assignment(self) -> Assignment:
        """As its runner takes it: in its place of the trace, if it has one."""
        claimed, body = self.claimed, self.body
        work, trace = body.work, self.trace
        parent, state = (work.traceparent, work.tracestate) if trace is None else trace.of_task()
        return _new(
            Assignment,
            (
                claimed.run_id,
                claimed.token,
                claimed.job_id,
                claimed.namespace,
                claimed.attempt,
                claimed.due,
                claimed.nominal,
                work.task,
                body.payload,
                work.timeout_seconds,
                body.limits,
                body.names_errors,
                parent,
                state,
                body.confinement,
                self.secrets,
                None,
            ),
        )


class HeldRuns:
    """The runs that one executor holds. Its parts read `live` directly, because that is on the hot path."""

    def __init__(self, ledger: CapacityLedger) -> None:
        self.ledger = ledger
        self.live: dict[UUID, HeldRun] = {}
        self.dying: dict[UUID, RunnerCapacity] = {}
        """Abandoned tasks that are not yet dead. Each keeps its place, and its run must not begin here again."""
        self.closed = False
        """Set when the executor drains or stops: it claims nothing more, and gives back runs that still arrive."""
        self.idle = asyncio.Event()
        """Set whenever a run, a dying task or an outcome is done with."""

    def holds(self, held: HeldRun) -> bool:
        """Check whether the executor still holds this very claim."""
        return self.live.get(held.claimed.run_id) is held

    def holds_attempt(self, run_id: UUID, token: int) -> bool:
        """Check whether the executor holds this run under this token."""
        held = self.live.get(run_id)
        return held is not None and held.claimed.token == token

    def in_stage(self, stage: RunStage) -> list[HeldRun]:
        """The runs that have come so far."""
        return [held for held in self.live.values() if held.stage is stage]

    def forget(self, held: HeldRun) -> None:
        """Remove a run and free its place."""
        if self.live.pop(held.claimed.run_id, None) is None:
            return
        capacity = held.capacity
        if held.stage is RunStage.HOLDING:
            capacity.held -= 1
        else:
            capacity.launched -= 1
        if held.body.demand is not None:
            self.ledger.release(held.claimed.run_id)
        capacity.freed()

    def abandon(self, held: HeldRun) -> None:
        """Kill the task of a run and report nothing of it."""
        self.forget(held)
        if held.stage is RunStage.LAUNCHED:
            held.capacity.launched += 1
            self.dying[held.claimed.run_id] = held.capacity
            if held.body.demand is not None:
                self.ledger.hold(held.claimed.run_id, held.body.demand)
            held.capacity.runner.stop(held.claimed.run_id, grace_seconds=0.0)

    def abandon_all(self) -> None:
        """Abandon every run that is held."""
        for held in [*self.live.values()]:
            self.abandon(held)

    def abandon_shards(self, bits: Collection[int]) -> int:
        """Abandon the runs whose tokens were drawn by these shards (`fencing.shard_bits`); how many."""
        lost = [held for held in self.live.values() if shard_bits(held.claimed.token) in bits]
        for held in lost:
            self.abandon(held)
        return len(lost)

    def died(self, run_id: UUID) -> None:
        """Free the place of an abandoned task, which is dead now."""
        capacity = self.dying.pop(run_id, None)
        if capacity is not None:
            capacity.launched -= 1
            self.ledger.release(run_id)
            capacity.freed()
            self.idle.set()
