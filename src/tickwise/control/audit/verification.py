"""The check of the audit log: each entry against its seal, each seal against the one before, the heads against anchors.

    seals of a namespace, in order ──► numbers without gaps, hashes that follow ──┐
    their entries, page by page ─────► digests as sealed, none missing ───────────┼──► findings, with their place
    anchors from outside ────────────► the same hashes, none beyond the head ─────┤
    entries without a seal, checkpoints of retention ─────────────────────────────┘

It reads and changes nothing, and holds a few portions of digests in memory: the database reads some while the digests
of others are computed. It computes the hashes itself: what the database says of its own hashes is what is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tickwise.domain.audit import FIRST_HASH, AuditSeal, entry_digest
from tickwise.observability.tasks import end_tasks
from tickwise.ports.audit import AuditCheckpoint, AuditHead, AuditPlace, AuditSpan, AuditStore
from tickwise.ports.paging import PAGE_BYTES

SEALS_OF_PAGE: Final = 200
"""Of the first page. A seal has up to 1,000 entries, which are 40 kB."""
SEALS_OF_PAGE_MAX: Final = 5_000
"""Of further pages, where seals are small: a quiet namespace has one entry in each."""
ENTRIES_OF_PORTION: Final = 10_000
ENTRIES_OF_PAGE: Final = 10_000
CONTENT_BYTES: Final = 4 * PAGE_BYTES
"""Of a page: 10,000 usual entries are within it."""
PORTIONS_AT_ONCE: Final = 2
CHAINS_AT_ONCE: Final = 2
HEADS_OF_PAGE: Final = 1_000
FINDINGS_MAX: Final = 1_000
"""The most findings that are told; all are counted."""
UNSEALED_MAX: Final = 100
UNSEALED_SECONDS: Final = 60.0
"""An entry is sealed within a second or so; one that was not after a minute is a finding."""
DAY_SECONDS: Final = 86_400.0
SEALED_LATE_SECONDS: Final = DAY_SECONDS
"""An entry is sealed within a second or so; one that a scheduler sealed a day later was written while none ran."""


class AuditFindingKind(StrEnum):
    """A way in which the log is not as it was written."""

    EDITED = "edited"
    """An entry says something else than when it was sealed."""
    DELETED = "deleted"
    """A sealed entry is missing."""
    SEAL_MISSING = "seal_missing"
    SEAL_ALTERED = "seal_altered"
    """A seal's hash does not follow from the seal, or from the one before."""
    TRUNCATED = "truncated"
    """The newest seal is older than one that was noted outside."""
    REWRITTEN = "rewritten"
    """The chain holds, and is another one than was noted outside."""
    UNSEALED = "unsealed"
    """An entry was never sealed: it was put in by hand, or no scheduler runs."""
    DROPPED_EARLY = "dropped_early"
    """Entries were dropped before their retention."""


class AuditFinding(NamedTuple):
    """One violation, and its place."""

    kind: AuditFindingKind
    namespace: str
    seq: int | None
    """The number of the seal."""
    entry: int | None
    """The number of the entry."""
    detail: str


class Anchor(NamedTuple):
    """A head that was noted outside the database."""

    namespace: str
    seq: int
    hash: bytes
    sealed_at: float | None = None
    """The time of the seal; None: unknown."""


@dataclass(slots=True)
class AuditReport:
    """The result of a check."""

    namespaces: int = 0
    seals: int = 0
    entries: int = 0
    anchors: int = 0
    """Anchors that were compared."""
    dropped: list[AuditCheckpoint] = field(default_factory=list)
    """The chains whose older part retention has dropped."""
    found: int = 0
    findings: list[AuditFinding] = field(default_factory=list)
    """The first of them."""

    def add(
        self, kind: AuditFindingKind, namespace: str, detail: str, *, seq: int | None = None, entry: int | None = None
    ) -> None:
        """Note a violation."""
        self.found += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(AuditFinding(kind, namespace, seq, entry, detail))

    def include(self, part: AuditReport) -> None:
        """Add what was found in one chain."""
        self.namespaces += part.namespaces
        self.seals += part.seals
        self.entries += part.entries
        self.anchors += part.anchors
        self.found += part.found
        self.findings += part.findings[: FINDINGS_MAX - len(self.findings)]


async def verify(
    audit: AuditStore, anchors: Iterable[Anchor] = (), *, kept_seconds: float | None = None
) -> AuditReport:
    """Check the whole log. `kept_seconds`: the retention that the settings say; None: it is not compared."""
    report = AuditReport()
    noted: dict[str, dict[int, Anchor]] = {}
    for anchor in anchors:
        known = noted.setdefault(anchor.namespace, {}).setdefault(anchor.seq, anchor)
        if known.hash != anchor.hash:
            detail = "two anchors of this seal differ: the chain was set back or rewritten between them"
            report.add(AuditFindingKind.REWRITTEN, anchor.namespace, detail, seq=anchor.seq)
    heads = {head.namespace: head for head in await _heads(audit)}
    checkpoints = {each.namespace: each for each in await audit.checkpoints()}
    report.dropped = list(checkpoints.values())
    if kept_seconds is not None:
        _check_dropped(report, kept_seconds)
    unsealed = asyncio.create_task(_unsealed(audit))
    chains: list[asyncio.Task[AuditReport]] = []
    try:
        for namespace in sorted({*heads, *checkpoints, *noted}):
            if len(chains) >= CHAINS_AT_ONCE:
                report.include(await chains.pop(0))
            check = _ChainCheck(audit, namespace, checkpoints.get(namespace), noted.get(namespace, {}))
            chains.append(asyncio.create_task(check.run()))
        while chains:
            report.include(await chains.pop(0))
        report.include(await unsealed)
    finally:
        await end_tasks([*chains, unsealed])
    return report


async def _unsealed(audit: AuditStore) -> AuditReport:
    report = AuditReport()
    for row in await audit.unsealed(UNSEALED_SECONDS, UNSEALED_MAX):
        detail = f"{row.action} by {row.source.name or row.source.kind} was never sealed"
        report.add(AuditFindingKind.UNSEALED, row.namespace, detail, entry=row.entry)
    return report


def _check_dropped(report: AuditReport, kept_seconds: float) -> None:
    for each in report.dropped:
        if each.dropped_before > each.at - kept_seconds + DAY_SECONDS:
            days = (each.at - each.dropped_before) / DAY_SECONDS
            detail = (
                f"entries were dropped after {days:.0f} days, and the settings keep {kept_seconds / DAY_SECONDS:.0f}"
            )
            report.add(AuditFindingKind.DROPPED_EARLY, each.namespace, detail, seq=each.seq)


async def _heads(audit: AuditStore) -> Sequence[AuditHead]:
    heads: list[AuditHead] = []
    while True:
        page = await audit.heads(heads[-1].namespace if heads else None, HEADS_OF_PAGE)
        heads += page
        if len(page) < HEADS_OF_PAGE:
            return heads


class _ChainCheck:
    """The check of one namespace."""

    def __init__(
        self,
        audit: AuditStore,
        namespace: str,
        begin: AuditCheckpoint | None,
        anchors: Mapping[int, Anchor],
    ) -> None:
        self._audit = audit
        self._report = AuditReport(namespaces=1)
        self._namespace = namespace
        self._anchors = anchors
        self._dropped_before = float("-inf") if begin is None else begin.dropped_before
        self._seq, self._hash = (0, FIRST_HASH) if begin is None else (begin.seq, begin.hash)

    async def run(self) -> AuditReport:
        """Check all of it."""
        self._compare(self._seq, self._hash)
        self._check_begin()
        checks: list[asyncio.Task[None]] = []
        try:
            async for portion in self._portions():
                # The database spells one portion while the digests of another are computed.
                if len(checks) >= PORTIONS_AT_ONCE:
                    await checks.pop(0)
                checks.append(asyncio.create_task(self._check_entries(portion)))
            while checks:
                await checks.pop(0)
        finally:
            await end_tasks(checks)
        self._check_head()
        return self._report

    async def _portions(self) -> AsyncIterator[Sequence[AuditSeal]]:
        """The seals whose entries are to be checked; each seal itself is checked as it is read."""
        portion: list[AuditSeal] = []
        size, limit = 0, SEALS_OF_PAGE
        while True:
            page = await self._audit.seals(self._namespace, self._seq, limit)
            for seal in page:
                self._check_seal(seal)
                if seal.until >= self._dropped_before:
                    portion.append(seal)
                    size += len(seal.entries)
                if size >= ENTRIES_OF_PORTION:
                    yield portion
                    portion, size = [], 0
            if len(page) < limit:
                break
            mean = sum(len(seal.entries) for seal in page) / limit
            limit = max(SEALS_OF_PAGE, min(int(ENTRIES_OF_PORTION / max(1.0, mean)), SEALS_OF_PAGE_MAX))
        if portion:
            yield portion

    def _check_seal(self, seal: AuditSeal) -> None:
        self._report.seals += 1
        if seal.seq != self._seq + 1:
            detail = f"the seals {self._seq + 1} to {seal.seq - 1} are missing"
            self._add(AuditFindingKind.SEAL_MISSING, detail, seq=self._seq + 1)
        elif seal.previous != self._hash:
            self._add(AuditFindingKind.SEAL_ALTERED, "it does not follow from the seal before", seq=seal.seq)
        if seal.hash != seal.expected_hash():
            self._add(AuditFindingKind.SEAL_ALTERED, "its hash does not follow from what it holds", seq=seal.seq)
        self._compare(seal.seq, seal.hash)
        self._seq, self._hash = seal.seq, seal.hash

    def _compare(self, seq: int, found: bytes) -> None:
        noted = self._anchors.get(seq)
        if noted is None:
            return
        self._report.anchors += 1
        if noted.hash != found:
            detail = f"its hash is {found.hex()[:16]}…, and {noted.hash.hex()[:16]}… was noted outside"
            self._add(AuditFindingKind.REWRITTEN, detail, seq=seq)

    def _check_begin(self) -> None:
        """A checkpoint that was moved on hides that younger seals were removed. The chain holds then, and the times of
        its anchors tell: of a dropped seal each entry is older than the drop."""
        late = [
            anchor
            for anchor in self._anchors.values()
            if anchor.seq <= self._seq
            and anchor.sealed_at is not None
            and anchor.sealed_at >= self._dropped_before + SEALED_LATE_SECONDS
        ]
        if late:
            detail = (
                f"the checkpoint says that retention dropped the seals up to {self._seq}, and {len(late)} of them were "
                "noted outside as sealed more than a day after the last day that was dropped; right only if no "
                "scheduler ran for that day"
            )
            self._add(AuditFindingKind.DROPPED_EARLY, detail, seq=min(anchor.seq for anchor in late))

    def _check_head(self) -> None:
        beyond = [seq for seq in self._anchors if seq > self._seq]
        if beyond:
            self._report.anchors += len(beyond)
            detail = f"the chain ends at seal {self._seq}, and seal {max(beyond)} was noted outside"
            self._add(AuditFindingKind.TRUNCATED, detail, seq=self._seq + 1)

    async def _check_entries(self, seals: Sequence[AuditSeal]) -> None:
        digests = await self._digests(seals)
        for seal in seals:
            self._report.entries += len(seal.entries)
            for place, number in enumerate(seal.entries):
                found = digests.get(number)
                if found is None:
                    self._add(AuditFindingKind.DELETED, "the entry is missing", seq=seal.seq, entry=number)
                elif found != seal.digest_of(place):
                    detail = "the entry is not as it was sealed"
                    self._add(AuditFindingKind.EDITED, detail, seq=seal.seq, entry=number)

    async def _digests(self, seals: Sequence[AuditSeal]) -> Mapping[int, bytes]:
        """The digests of the entries that these seals name, as the entries are now."""
        wanted = {number for seal in seals for number in seal.entries}
        since, until = min(seal.since for seal in seals), max(seal.until for seal in seals)
        found: dict[int, bytes] = {}
        after: AuditPlace | None = None
        while True:
            span = AuditSpan(self._namespace, since, until, after, ENTRIES_OF_PAGE, CONTENT_BYTES)
            page = await self._audit.contents(span)
            found.update((entry, entry_digest(content)) for entry, _, content in page if entry in wanted)
            if not page.is_full(ENTRIES_OF_PAGE):
                return found
            after = AuditPlace(page[-1].at, page[-1].entry)

    def _add(self, kind: AuditFindingKind, detail: str, *, seq: int, entry: int | None = None) -> None:
        self._report.add(kind, self._namespace, detail, seq=seq, entry=entry)
