"""The audit log: entries that nobody changes, sealed into one chain for each namespace.

    audit=entry of a writing method ──same transaction──► entry ──seal──► seal n ──retire──► checkpoint

A method that writes for a caller takes the entry as `audit`, and writes it in the transaction of its change. A call
that changes nothing, because it is a repeat or is refused, writes none. `NewJob.source` stands for the entry of a new
job: one entry covers all jobs of a transaction that one caller made.

Sealing is apart from writing, so writers never wait for one another. It takes what is visible and not sealed yet; a
transaction that commits late is sealed later, with a greater `seq` than entries with greater numbers.

Invariants: no method changes or removes an entry or a seal, but `UpkeepStore.maintain`, which drops whole days and
leaves a checkpoint. An entry is sealed once. The entries of a seal are of one day (UTC).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditAction, AuditEntry, AuditSeal, Source
from tickwise.ports.paging import Page, utf8_bytes

TARGET_BYTES: Final = 39
"""The size of an id among `targets`, as JSON spells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """An entry as it is stored."""

    entry: int
    """Its number: grows with time, with gaps."""
    at: float
    """The store's clock."""
    namespace: str
    action: str
    """An `AuditAction`, or one of a later version."""
    source: Source
    target_kind: str
    target: str | None
    targets: Sequence[UUID]
    before: str | None
    after: str | None
    detail: str | None

    @property
    def text_bytes(self) -> int:
        """See `PageRow`. An entry of a batch has up to 10,000 ids, so they count as well."""
        return utf8_bytes(self.before, self.after, self.detail) + TARGET_BYTES * len(self.targets)


class AuditPlace(NamedTuple):
    """A place in the listing of entries."""

    at: float
    entry: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """A search. Newest first, or oldest first with `ascending`; everything given must match."""

    namespace: str | None
    """None: all, and the installation's own."""
    since: float | None = None
    """From this instant on, …"""
    until: float | None = None
    """… and before this one."""
    actor: str | None = None
    """The name of the caller."""
    action: AuditAction | None = None
    target: str | None = None
    """The id or the name of the thing; of an entry of several, any one of these."""
    beyond: AuditPlace | None = None
    """Only entries that follow this place in the order of the listing."""
    ascending: bool = False
    limit: int = 50
    bytes_most: int | None = None
    """Cut the page before the entry with which it holds more text than this; None: do not."""
    may_pause: bool = False
    """The search may end early, with `AuditPage.goes_on`, when it has looked at as many entries as one call may; False:
    it looks at all, for as long as that takes."""


class AuditPage(Page[AuditRow]):
    """Entries in the order of their query."""

    __slots__ = ("goes_on",)

    goes_on: AuditPlace | None
    """The search has looked at as many entries as one call may, and goes on beyond this place. None: it did not
    pause."""

    def __init__(self, rows: Iterable[AuditRow] = (), *, cut: bool = False, goes_on: AuditPlace | None = None) -> None:
        super().__init__(rows, cut=cut)
        self.goes_on = goes_on

    def place_after(self, limit: int) -> AuditPlace | None:
        """The place beyond which a caller goes on that has asked for one entry more than it shows, `limit`. None: the
        page was the last one."""
        if self.is_full(limit + 1):
            last = self[:limit][-1]
            return AuditPlace(last.at, last.entry)
        return self.goes_on


class AuditHead(NamedTuple):
    """The newest seal of a namespace."""

    namespace: str
    seq: int
    hash: bytes
    sealed_at: float


class AuditCheckpoint(NamedTuple):
    """The begin of a chain whose older part retention has dropped."""

    namespace: str
    seq: int
    """The last seal that was dropped; 0: none was."""
    hash: bytes
    """Its hash."""
    dropped_before: float
    """Entries of days before this instant were dropped."""
    at: float
    """The time of the drop."""


class AuditContent(NamedTuple):
    """An entry as it is sealed: all of its fields, in the store's spelling, which never changes."""

    entry: int
    at: float
    content: bytes


class AuditSpan(NamedTuple):
    """Entries of a namespace between two instants."""

    namespace: str
    since: float
    """From this instant on, …"""
    until: float
    """… up to this one, which is included."""
    after: AuditPlace | None = None
    """Only entries after this place."""
    limit: int = 1_000
    bytes_most: int | None = None
    """As in `AuditQuery`; of the texts and ids of the entries."""


class AuditStore(Protocol):
    """The audit log."""

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries of what changes nothing else: sign-ins, denials, exports. A repeat after `InDoubt` may write
        them twice."""
        ...

    async def find(self, query: AuditQuery) -> AuditPage:
        """Entries that match, sealed or not. Raises `Invalid` if the search takes too long; one that may pause looks at
        a bounded number of entries."""
        ...

    async def settled(self) -> float:
        """The newest instant such that no entry before it is still to come: each transaction that may write one has
        ended. The time of the call, or the begin of the oldest transaction that writes. Takes half a second. Raises
        `StoreUnavailable` if the begin of such a transaction is not known, and it does not end within seconds."""
        ...

    async def seal(self, limit: int) -> int:
        """Seal up to `limit` entries of each namespace that has some, `ENTRIES_OF_SEAL` in a seal; how many were
        sealed. A namespace that another caller is sealing is left to that one."""
        ...

    async def heads(self, after: str | None, limit: int) -> Sequence[AuditHead]:
        """The newest seals by namespace, those of namespaces after `after`."""
        ...

    async def seals(self, namespace: str, after: int, limit: int) -> Sequence[AuditSeal]:
        """Seals of a namespace in their order, those with a greater `seq`."""
        ...

    async def contents(self, span: AuditSpan) -> Page[AuditContent]:
        """Entries as they are sealed, by time and number."""
        ...

    async def unsealed(self, older_seconds: float, limit: int) -> Sequence[AuditRow]:
        """Entries that no seal names, of more than so many seconds ago, the oldest first. Reads the whole log."""
        ...

    async def checkpoints(self) -> Sequence[AuditCheckpoint]:
        """The newest checkpoint of each namespace that has one."""
        ...
