"""Seals the audit log, and notes the heads of its chains outside the database.

    entries that are not sealed ──each second──► seals ──each minute──► log line `audit_anchored`, file of anchors

Any scheduler may seal: the store lets one at a time add to a chain. A head that was noted elsewhere is what shows that
a chain was cut off or rewritten as a whole, so each scheduler notes all that have moved since it last did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from tickwise.ports.audit import AuditHead, AuditStore
from tickwise.ports.clock import Clock

SEAL_SECONDS: Final = 1.0
ENTRIES_OF_STEP: Final = 5_000
"""Of one namespace in one transaction."""
ANCHOR_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 5.0
"""After a look that found nothing new: an entry of a quiet hour does not wait a minute for its anchor."""
HEADS_OF_PAGE: Final = 1_000

KeepAnchors = Callable[[Sequence[AuditHead]], None]
"""Keeps heads outside the database. Raises `OSError`."""

logger = structlog.get_logger("tickwise.audit")


class AuditSealing:
    """The sealing by one scheduler."""

    def __init__(self, audit: AuditStore, clock: Clock, keep: KeepAnchors | None = None) -> None:
        """`keep` appends heads to a file; None: they are in the log alone."""
        self._audit = audit
        self._clock = clock
        self._keep = keep
        self._anchored: dict[str, int] = {}
        """The heads that were noted, by namespace."""
        self._anchor_at = float("-inf")

    async def step(self) -> float:
        """Seal what is there, and note the heads from time to time; the time to the next look."""
        sealed = await self._audit.seal(ENTRIES_OF_STEP)
        now = self._clock.monotonic()
        if now >= self._anchor_at:
            moved = await self.anchor()
            self._anchor_at = now + (ANCHOR_SECONDS if moved else LOOK_SECONDS)
        return 0.0 if sealed >= ENTRIES_OF_STEP else SEAL_SECONDS

    async def anchor(self) -> bool:
        """Note the heads that have moved; whether there were some."""
        after: str | None = None
        noted = False
        while True:
            heads = await self._audit.heads(after, HEADS_OF_PAGE)
            moved = [head for head in heads if self._anchored.get(head.namespace, 0) < head.seq]
            if moved and self._note(moved):
                self._anchored.update((head.namespace, head.seq) for head in moved)
                noted = True
            if len(heads) < HEADS_OF_PAGE:
                return noted
            after = heads[-1].namespace

    def _note(self, heads: Sequence[AuditHead]) -> bool:
        """Write heads to the log and the file; False: the file could not be written, and they come again."""
        for head in heads:
            logger.info(
                "audit_anchored",
                namespace=head.namespace,
                seq=head.seq,
                hash=head.hash.hex(),
                sealed_at=head.sealed_at,
            )
        if self._keep is None:
            return True
        try:
            self._keep(heads)
        except OSError as failure:
            logger.error("audit_anchor_failed", detail=str(failure))
            return False
        return True
