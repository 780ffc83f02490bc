"""Refusals for the audit log: gathered by the minute, so that a flood of them costs a bounded number of entries.

    403, 401 ──► noted in memory ──each few seconds──► one entry for each caller, network, route and status
                                                       the first of a minute at once, the others of it with their count

A caller that shows nothing known is a stranger. Entries of strangers are bounded for each network, because one customer
has many addresses, and for each action, so unknown keys never use up the place of failed sign-ins. Refusals beyond a
bound are counted in the entry `others` of their network, and beyond that in one of all strangers.
Invariant: refusing a request never waits for the store. Counts that were not written when a process dies are lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from tickwise.control.context import ControlContext
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source, document
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import TickwiseError
from tickwise.domain.model import Origin, Principal
from tickwise.domain.networks import network_of
from tickwise.observability.tasks import end_tasks

WRITE_SECONDS: Final = 2.0
GATHER_SECONDS: Final = 60.0
NOTES_MAX: Final = 1_000
"""Different refusals that are gathered in one minute; further ones share one entry."""
STRANGERS_MAX: Final = 20
"""Different refusals of strangers among them, for each action. A flood makes so many entries a minute, and no more."""

STRANGERS_OF_NETWORK_MAX: Final = 3
"""Of them, those of one network."""
OTHERS: Final = "others"
"""The route of an entry for refusals that have none of their own."""

logger = structlog.get_logger("tickwise.audit")


class _Refusal(NamedTuple):
    """The refusals that share an entry."""

    namespace: str
    action: AuditAction
    kind: CallerKind
    caller: str
    network: str
    """The network of its address (`network_of`); empty: any."""
    route: str
    status: int


@dataclass(slots=True)
class _Gathered:
    """The refusals of one kind in the present minute."""

    source: Source
    """Of the first."""
    until: float
    """The end of the minute, on the monotonic clock."""
    count: int = 1
    written: int = 0


class Denials:
    """Gathers refusals, and writes their entries."""

    def __init__(self, context: ControlContext) -> None:
        self._audit = context.store.audit
        self._clock = context.clock
        self._gathered: dict[_Refusal, _Gathered] = {}
        self._strangers = Counter[AuditAction | tuple[AuditAction, str]]()
        """Entries of strangers by action, and by action and network."""
        self._noted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def denied(self, who: Principal, route: str, status: int) -> None:
        """Note a request of a known caller that was refused."""
        source = Source.of(who)
        self._note(
            _Refusal(who.namespace, AuditAction.DENIED, source.kind, who.full_name, source.address, route, status),
            source,
        )

    def stranger(self, origin: Origin, status: int) -> None:
        """Note a request without a good key or token."""
        refusal = _Refusal(INSTALLATION, AuditAction.DENIED, CallerKind.STRANGER, "", origin.address, "", status)
        self._note(refusal, Source(CallerKind.STRANGER, None, "", *origin[:2]))

    def sign_in_failed(self, name: str, origin: Origin) -> None:
        """Note a wrong password or key. `name`: of the person; empty for one who is not there, because a name that was
        typed may be a password."""
        refusal = _Refusal(INSTALLATION, AuditAction.SIGN_IN_FAILED, CallerKind.STRANGER, name, origin.address, "", 401)
        self._note(refusal, Source(CallerKind.STRANGER, None, name, *origin[:2]))

    def factor_refused(self, name: str, origin: Origin) -> None:
        """Note a wrong second factor. `name`: of the person; empty for one who is not known."""
        refusal = _Refusal(INSTALLATION, AuditAction.FACTOR_REFUSED, CallerKind.STRANGER, name, origin.address, "", 401)
        self._note(refusal, Source(CallerKind.STRANGER, None, name, *origin[:2]))

    def _note(self, refusal: _Refusal, source: Source) -> None:
        refusal = refusal._replace(network=network_of(refusal.network))
        of_network = _Refusal(
            INSTALLATION, refusal.action, CallerKind.STRANGER, "", refusal.network, OTHERS, refusal.status
        )
        for each in (refusal, of_network, of_network._replace(network="")):
            gathered = self._gathered.get(each)
            if gathered is not None:
                gathered.count += 1
                return
            if self._has_room(each):
                if each is not refusal:
                    source = Source(CallerKind.STRANGER, None, "", each.network)
                self._noted.set()
                self._gathered[each] = _Gathered(source, self._clock.monotonic() + GATHER_SECONDS)
                self._count_stranger(each, 1)
                return

    def _has_room(self, refusal: _Refusal) -> bool:
        if refusal.route == OTHERS and not refusal.network:
            return True
        if len(self._gathered) >= NOTES_MAX:
            return False
        if refusal.kind is not CallerKind.STRANGER:
            return True
        of_network = self._strangers[refusal.action, refusal.network]
        return self._strangers[refusal.action] < STRANGERS_MAX and (
            refusal.route == OTHERS or of_network < STRANGERS_OF_NETWORK_MAX
        )

    def _count_stranger(self, refusal: _Refusal, by: int) -> None:
        if refusal.kind is not CallerKind.STRANGER:
            return
        for counted in (refusal.action, (refusal.action, refusal.network)):
            self._strangers[counted] += by
            if not self._strangers[counted]:
                del self._strangers[counted]

    async def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write what is gathered, and end."""
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None
        await self.write(last=True)

    async def _run(self) -> None:
        while True:
            if not self._gathered:
                self._noted.clear()
                await self._noted.wait()
            await self._clock.sleep(WRITE_SECONDS)
            await self.write()

    async def write(self, *, last: bool = False) -> None:
        """Write the first refusal of each minute, and those that followed it once the minute is over; with `last`,
        all."""
        now = self._clock.monotonic()
        due: dict[_Refusal, int] = {}
        for refusal, gathered in self._gathered.items():
            if gathered.written < gathered.count and (last or not gathered.written or gathered.until <= now):
                due[refusal] = gathered.count
        if due:
            entries = [_entry(refusal, self._gathered[refusal], count) for refusal, count in due.items()]
            try:
                await self._audit.add(entries)
            except TickwiseError as failure:
                logger.warning("audit_not_written", entries=len(entries), reason=failure.detail)
                return
            for refusal, count in due.items():
                self._gathered[refusal].written = count
        over = [
            refusal
            for refusal, gathered in self._gathered.items()
            if gathered.until <= now and gathered.written >= gathered.count
        ]
        for refusal in over:
            del self._gathered[refusal]
            self._count_stranger(refusal, -1)


def _entry(refusal: _Refusal, gathered: _Gathered, count: int) -> AuditEntry:
    facts = {"status": refusal.status, "count": count - gathered.written}
    detail = {**facts, "route": refusal.route} if refusal.route else facts
    source = gathered.source if count == 1 else gathered.source._replace(request_id="", address=refusal.network)
    return AuditEntry(refusal.namespace, refusal.action, source, "request", detail=document(detail))
