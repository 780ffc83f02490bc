"""The hot path of executors: claim, start, finish; each one statement for hundreds of runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part, Shared
from tickwise.adapters.store.postgres.codes import ON_UNKNOWN
from tickwise.adapters.store.postgres.connection.link import UniqueBroken, translated
from tickwise.adapters.store.postgres.queue.claim_cursor import FAR_PAST, NEAR_SECONDS, ClaimCursor, Reach, Seen
from tickwise.adapters.store.postgres.queue.quota_cache import NO_WALLS
from tickwise.adapters.store.postgres.queue.starts import OpenStart, Settlement, settle
from tickwise.adapters.store.postgres.queue.wakeups import Ended, wake, wake_or_not
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug, InDoubt, Invalid, NamespaceMoved, StoreUnavailable, Unavailable
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import LATEST_INSTANT, Claimed, Outcome
from tickwise.domain.observing.usage import NO_USAGE, NOT_MEASURED, UsageByRun
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.domain.rules.sentences import REVOKED
from tickwise.ports.store import Began, ClaimRequest

_SUCCESS: Final = CODES[RunState.SUCCESS]
_FAILED: Final = CODES[RunState.FAILED]
_CANCELLED: Final = CODES[RunState.CANCELLED]
_SKIPPED: Final = CODES[RunState.SKIPPED]
_QUEUED: Final = CODES[RunState.QUEUED]
_RELEASED: Final = frozenset({CODES[RunState.RETRYING], _QUEUED})
_FOLLOWED: Final = frozenset({_SUCCESS, _FAILED})
_OUTCOMES: Final = _RELEASED | {_SUCCESS, _FAILED, _CANCELLED, _SKIPPED}

_NO_COLUMNS: Final = (None,) * len(NOT_MEASURED)

_FIELDS: Final = len(Claimed._fields)
_RUN: Final = Claimed._fields.index("run_id")
_TOKEN: Final = Claimed._fields.index("token")
_READY: Final = Claimed._fields.index("ready")
_NOW: Final = Claimed._fields.index("now")
_LANE: Final = _FIELDS
_ready = itemgetter(_READY)
_new = tuple.__new__
"""A claim without the steps of its constructor: tens of thousands are made a second."""

_MAX_CLAIMERS: Final = 256
"""Marks are kept for so many executors and sets of labels; a process has a few, a test suite many."""

_OfRun = TypeVar("_OfRun", Began, Outcome)

log = logging.getLogger(__name__)


class Attempts(Part):
    """`AttemptStore` of the port."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._claimers: dict[tuple[int, tuple[str, ...], tuple[str, ...]], ClaimCursor] = {}
        self._walled = NO_WALLS
        shared.at_clock_move.append(self._claimers.clear)

    async def claim(self, request: ClaimRequest) -> Sequence[Claimed]:
        """See the port."""
        if request.limit <= 0 or not request.queues:
            return []
        if request.runs is not None:
            return await self._claim_named(request, request.runs)
        if request.afresh:
            self._claimers.clear()
        quotas = list(await self._quotas.of_runs())
        await self._look_at_walled()
        claimer = self._claimer(request)
        reach = claimer.next_reach(self._clock.monotonic())
        claims = await self._claim(request, claimer, reach, request.limit, quotas)
        free = request.limit - len(claims)
        if reach is Reach.NEAR and free and claimer.looks_ahead(self._clock.monotonic(), request.ahead_seconds):
            claims += await self._claim(request, claimer, Reach.AHEAD, free, quotas)
        return claims

    def _claimer(self, request: ClaimRequest) -> ClaimCursor:
        key = (request.executor, tuple(request.queues), tuple(request.labels))
        claimer = self._claimers.pop(key, None) or ClaimCursor()
        self._claimers[key] = claimer  # the last is the newest: the oldest is forgotten first
        if len(self._claimers) > _MAX_CLAIMERS:
            del self._claimers[next(iter(self._claimers))]
        return claimer

    async def _claim(
        self, request: ClaimRequest, claimer: ClaimCursor, reach: Reach, limit: int, quotas: Sequence[str]
    ) -> list[Claimed]:
        """`quotas`: the namespaces with a quota of runs at once."""
        marks = claimer.marks(reach)
        ahead = min(request.ahead_seconds, NEAR_SECONDS) if reach is Reach.NEAR else request.ahead_seconds
        fair, walled = claimer.fair, self._walled
        async with self._links.line("claim").use(writes=True) as connection:
            # Timed inside its turn, so that waiting for another claim is not taken for the cost of this one.
            begun = self._clock.monotonic()
            # Read before the statement: it sees no run that is added after its begin, however late its answer comes.
            passed = self._shared.no_later_than_now()
            rows = await connection.fetch(
                statement("claim"),
                request.executor,
                limit,
                request.queues,
                request.labels,
                ahead,
                fair,
                marks.floor,
                list(marks.lanes.keys()),
                list(marks.lanes.values()),
                list(claimer.begun.keys()),
                list(claimer.begun.values()),
                quotas,
                *walled,
            )
            ended = self._clock.monotonic()
            taken = [(row[_LANE], row[_READY]) for row in rows]
            if rows:
                self._took(request.executor, rows[0][_TOKEN], taken)
        claimer.claimed(reach, taken, Seen(len(rows) < limit, rows[0][_NOW] if rows else passed, begun, ended))
        if not rows:
            return []
        self._shared.hear(rows[0][_NOW])
        return _claims(await self._in_order(rows, claimer, fair=fair))

    async def _claim_named(self, request: ClaimRequest, runs: Sequence[UUID]) -> Sequence[Claimed]:
        # A name that is repeated must not use up the limit. The cursor of scans is neither needed nor touched.
        places = {run_id: place for place, run_id in enumerate(dict.fromkeys(runs))}
        if not places:
            return []
        quotas = list(await self._quotas.of_runs())
        await self._look_at_walled()
        walled = self._walled
        async with self._links.line("claim").use(writes=True) as connection:
            rows = await connection.fetch(
                statement("claim_named"),
                request.executor,
                request.limit,
                request.queues,
                request.labels,
                request.ahead_seconds,
                list(places),
                quotas,
                *walled,
            )
            if rows:
                self._took(request.executor, rows[0][_TOKEN], [(row[_LANE], row[_READY]) for row in rows])
        if rows:
            self._shared.hear(rows[0][_NOW])
        rows.sort(key=lambda row: places[row[_RUN]])
        return _claims(rows)

    async def _look_at_walled(self) -> None:
        """The namespaces that demand an isolation of their tasks. When they change, claims begin anew: they read past
        lanes whose runs may go on."""
        found = await self._quotas.walled()
        if found != self._walled:
            self._claimers.clear()
        self._walled = found

    def _took(self, executor: int, token: int, taken: Sequence[tuple[int, float]]) -> None:
        """Note how far this executor has claimed, for `held_digest`, and that its token is greater than all before.

        All claims of a process go one after the other, so a smaller token is that of a store that was set back under a
        connection that stayed. Raises `InDoubt`: the connection goes, the next one begins an epoch, and what was taken
        is given back as after any claim whose answer was lost.
        """
        links = self._links
        if token <= links.token:
            raise InDoubt(f"the store gave the fencing token {token} after {links.token}: it was set back")
        links.token = token
        reached = self._shared.reached.get(executor)
        if reached is None:
            if len(self._shared.reached) >= _MAX_CLAIMERS:
                del self._shared.reached[next(iter(self._shared.reached))]
            reached = self._shared.reached[executor] = {}
        # Of each lane the latest, which is the last of them in this order.
        for lane, ready in dict(sorted(taken)).items():
            if ready > reached.get(lane, FAR_PAST):
                reached[lane] = ready

    async def _in_order(self, rows: list[asyncpg.Record], claimer: ClaimCursor, *, fair: bool) -> list[asyncpg.Record]:
        """Order claims as the port says; the update returns them in the order of their pages."""
        rows.sort(key=_ready)
        if fair:
            return rows
        try:
            places = {number: await self._lanes.place(number) for number in {row[_LANE] for row in rows}}
        except Unavailable:
            # They are claimed in any order: a lane that was unknown here must not lose them.
            return rows
        claimer.took([(place.lane.priority, place.namespace) for place in places.values()])
        if len(places) > 1:
            rows.sort(key=lambda row: -places[row[_LANE]].lane.priority)
        return rows

    async def start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        """See the port."""
        if not starts:
            return []
        try:
            refused = await self._start(executor, starts)
        except NamespaceMoved:
            if staying := await self._staying(starts):
                await self._start(executor, staying)
            raise
        await self._check_departed(refused)
        return refused

    async def _start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        ids, tokens, instants, unknowns, gates = zip(*starts, strict=True)
        _check_instants(instants)
        lost = [ON_UNKNOWN[unknown] for unknown in unknowns]
        gated = [gate is not None for gate in gates]
        quotas = await self._quotas.of_runs()
        async with self._links.line("finish").use(writes=True) as connection:
            rows = await connection.fetch(
                statement("start"), executor, ids, tokens, instants, lost, gated, list(quotas)
            )
            refused = [run for run, line in rows if line is None]
            lines = {run: line for run, line in rows if line is not None}
            settled = await self._settle(connection, executor, starts, lines, quotas) if lines else Settlement()
            woken = await wake_or_not(connection, settled.over)
        await self._shared.report_handover([*woken, *settled.passed], settled.stopping)
        return [*refused, *(lines.keys() - settled.started)]

    async def _settle(
        self,
        connection: asyncpg.Connection,
        executor: int,
        starts: Sequence[Began],
        lines: Mapping[UUID, UUID],
        quotas: Mapping[str, int],
    ) -> Settlement:
        """Settle these runs, each given with its line."""
        first = {began.run_id: began for began in reversed(starts) if began.run_id in lines}
        opens = [OpenStart(lines[run], began) for run, began in first.items()]
        try:
            with translated(writes=True):
                return await settle(connection, executor, opens, quotas=quotas)
        except StoreUnavailable as error:
            raise InDoubt("some starts were recorded, others were not: repeat them all") from error

    async def finish(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun = NO_USAGE) -> Sequence[UUID]:
        """See the port."""
        if not outcomes:
            return []
        try:
            refused = await self._finish_storable(executor, outcomes, usage)
        except NamespaceMoved:
            if staying := await self._staying(outcomes):
                await self._finish_storable(executor, staying, usage)
            raise
        await self._check_departed(refused)
        return refused

    async def _staying(self, items: Sequence[_OfRun]) -> list[_OfRun]:
        """Those of runs whose namespace is not leaving: they wait for no move. All are repeated by their executor."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("runs_leaving"), [item.run_id for item in items])
        leaving = {row[0] for row in rows}
        return [item for item in items if item.run_id not in leaving]

    async def _check_departed(self, refused: Sequence[UUID]) -> None:
        """Raise `NamespaceMoved` if one of these left with its namespace and does not work in its new place yet."""
        if not refused:
            return
        async with self._links.pooled(writes=False) as connection:
            namespace = await connection.fetchval(statement("runs_departed"), refused)
        if namespace is not None:
            raise NamespaceMoved(namespace)

    async def _finish_storable(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun) -> Sequence[UUID]:
        try:
            return await self._finish(executor, outcomes, usage)
        except Invalid:
            # Some text cannot be stored as it is. Output of a task must not hold up a whole batch of outcomes.
            outcomes = [_storable(outcome) for outcome in outcomes]
        except UniqueBroken:
            await self._drop_ended(executor, outcomes)
        try:
            return await self._finish(executor, outcomes, usage)
        except (Invalid, UniqueBroken) as error:
            raise Bug(f"outcomes of executor {executor} cannot be stored") from error

    async def _drop_ended(self, executor: int, outcomes: Sequence[Outcome]) -> None:
        """Drop the runs that this executor holds although they ended long ago: such a run must neither run again nor
        hold up a batch."""
        async with self._links.line("finish").use(writes=True) as connection:
            rows = await connection.fetch(statement("finish_ended"), executor, [outcome.run_id for outcome in outcomes])
        # A slot that one of them had is found free by the sweep.
        log.error("runs that had ended were held again: %s", ", ".join(str(row[0]) for row in rows))

    async def _finish(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun) -> list[UUID]:
        kinds = {outcome.state for outcome in outcomes}
        if not kinds <= _OUTCOMES:
            raise Bug(f"{sorted(kinds - _OUTCOMES)} are no outcomes of an attempt")
        over = Ended()
        followed = [one for one in outcomes if one.follow and _starts_others(one)]
        if kinds.isdisjoint(_RELEASED) and _SKIPPED not in kinds and not followed:
            async with self._links.line("finish").use(writes=True) as connection:
                refused = await _end(connection, executor, outcomes, usage, over)
                # Not in the transaction of the common path, which is the statement itself. Looked at anew after it
                # ended, too: this finds runs that began to wait while it ran.
                woken = await wake_or_not(connection, over)
            await self._shared.report_handover(woken)
            return refused
        # A run that was revoked goes back first, and is forgotten if that is still what is wanted.
        outcomes = [
            outcome._replace(state=_QUEUED) if outcome.state == _SKIPPED and outcome.reason == REVOKED else outcome
            for outcome in outcomes
        ]
        ends = [outcome for outcome in outcomes if outcome.state not in _RELEASED and outcome.state != _SKIPPED]
        skips = [outcome for outcome in outcomes if outcome.state == _SKIPPED]
        releases = [outcome for outcome in outcomes if outcome.state in _RELEASED]
        async with self._links.line("finish").use(writes=True) as connection, connection.transaction():
            await _follow(connection, executor, followed)
            refused = await _end(connection, executor, ends, usage, over) if ends else []
            refused += await _skip(connection, executor, skips, over) if skips else []
            refused += await _release(connection, executor, releases, usage, over) if releases else []
            woken = await wake(connection, over)
        await self._shared.report_handover(woken)
        return refused


def _claims(rows: Sequence[asyncpg.Record]) -> list[Claimed]:
    """The columns of the claims' statements, in the order of `Claimed`, and the lane."""
    return [_new(Claimed, row[:_FIELDS]) for row in rows]


def _starts_others(outcome: Outcome) -> bool:
    """Check whether the end may start other runs at once: not if a person must first say what the outcome was."""
    return outcome.state in _FOLLOWED and not (outcome.state == _FAILED and outcome.reason == UNKNOWN_OUTCOME)


async def _follow(connection: asyncpg.Connection, executor: int, outcomes: Sequence[Outcome]) -> None:
    """Record that these runs start others, if they end in this transaction."""
    if outcomes:
        arguments = _columns(outcomes, "run_id", "token")
        succeeded = [outcome.state == _SUCCESS for outcome in outcomes]
        await connection.execute(statement("completions_report"), executor, *arguments, succeeded)


async def _end(
    connection: asyncpg.Connection, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun, over: Ended
) -> list[UUID]:
    """The final ones: the common case, one statement. Runs that others may wait for are added to `over`."""
    ids, tokens, states, started, ended, reasons, errors, results, _, _ = zip(*outcomes, strict=True)
    _check_instants(started, ended)
    if len(set(ids)) != len(ids):
        # One run twice would be two rows of history: the first report of each counts, as it would have alone.
        first = list({outcome.run_id: outcome for outcome in reversed(outcomes)}.values())
        await _end(connection, executor, first, usage, over)
        return await _unrecorded(connection, executor, outcomes)
    count, jobs, namespaces, keys = await connection.fetchrow(
        statement("finish"),
        executor,
        ids,
        tokens,
        states,
        started,
        ended,
        reasons,
        errors,
        results,
        *_usage_columns(outcomes, usage),
    )
    over.add(jobs, namespaces, keys)
    if count == len(ids):
        return []
    return await _unrecorded(connection, executor, outcomes)


async def _unrecorded(connection: asyncpg.Connection, executor: int, outcomes: Sequence[Outcome]) -> list[UUID]:
    arguments = _columns(outcomes, "run_id", "token", "state", "reason")
    return [row[0] for row in await connection.fetch(statement("finish_refused"), *arguments, executor)]


async def _skip(connection: asyncpg.Connection, executor: int, outcomes: Sequence[Outcome], over: Ended) -> list[UUID]:
    columns = _columns(outcomes, "run_id", "token", "started", "ended", "reason", "error", "result")
    _check_instants(*columns[2:4])
    rows = await connection.fetch(statement("skip"), executor, *columns)
    for _, *left in rows:
        over.add_row(*left)
    taken = {row[0] for row in rows}
    rest = [outcome for outcome in outcomes if outcome.run_id not in taken]
    if not rest:
        return []
    return await _unrecorded(connection, executor, rest)


async def _release(
    connection: asyncpg.Connection, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun, over: Ended
) -> list[UUID]:
    columns = _columns(outcomes, "run_id", "token", "state", "started", "ended", "reason", "error", "retry_at")
    _check_instants(*columns[3:5], [instant for instant in columns[-1] if instant is not None])
    rows = await connection.fetch(statement("release"), executor, *columns, *_usage_columns(outcomes, usage))
    taken = {row[0] for row in rows}
    if taken:
        begun = [run for run, counts, _, _ in rows if counts]
        _, *left = await connection.fetchrow(statement("settle_requests"), list(taken), begun)
        over.add(*left)
        for _, _, namespace, key in rows:
            over.add_row(None, namespace, key)
    rest = [outcome for outcome in outcomes if outcome.run_id not in taken]
    if not rest:
        return []
    arguments = _columns(rest, "run_id", "token", "state", "reason")
    return [row[0] for row in await connection.fetch(statement("release_refused"), *arguments, executor)]


def _check_instants(*columns: Sequence[float]) -> None:
    """Raise `Bug` for an instant that is none. One that is no number at all may pass; PostgreSQL refuses it."""
    for column in columns:
        if column and not (max(column) < LATEST_INSTANT and min(column) > -LATEST_INSTANT):
            raise Bug(f"{max(column)} or {min(column)} is no instant that an attempt can have")


def _usage_columns(outcomes: Sequence[Outcome], usage: UsageByRun) -> Sequence[Sequence[Any] | None]:
    """The usage of these attempts, a column for each quantity; None for a batch without any, which costs nothing."""
    if not usage:
        return _NO_COLUMNS
    return [*zip(*[usage.get(outcome.run_id, NOT_MEASURED) for outcome in outcomes], strict=True)]


def _columns(outcomes: Sequence[Outcome], *names: str) -> list[list[Any]]:
    return [[getattr(outcome, name) for outcome in outcomes] for name in names]


def _storable(outcome: Outcome) -> Outcome:
    """With every NUL and lone surrogate replaced."""
    return outcome._replace(reason=_clean(outcome.reason), error=_clean(outcome.error), result=_clean(outcome.result))


def _clean(text: str | None) -> str | None:
    if text is None:
        return None
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
