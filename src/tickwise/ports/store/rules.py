"""`Rules`: calendars and maintenance windows. What holds for every method stands in the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

RULES_MOST: Final = 10_000
"""Calendars and windows that a store keeps, of all namespaces: every scheduler holds them all in memory."""


class RuleKind(StrEnum):
    """What closes times."""

    CALENDAR = "calendar"
    """Jobs name it."""
    WINDOW = "window"
    """It concerns jobs by their labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A calendar or a maintenance window."""

    namespace: str
    kind: RuleKind
    name: str
    body: str
    """JSON text, opaque to the store."""
    version: int = 0
    """Of this rule, from 1; given by the store."""
    created_by: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0


class Rules(Protocol):
    """Calendars and maintenance windows: shared, few, read by every scheduler."""

    async def rule_put(self, rule: RuleRow, expected_version: int | None = None) -> RuleRow:
        """Create or replace. Timers of the namespace that a calendar or window holds back become due now, so that they
        are decided anew. `expected_version` 0: only create; other: only replace that one; else `VersionConflict`.

        A body that is stored already just so, byte for byte, changes nothing: neither version nor timers. So a repeat
        is told by version and body: with `expected_version`, the next one stored with this body is its own effect. Who
        created it and when stays."""
        ...

    async def rule_get(self, namespace: str, kind: RuleKind, name: str) -> RuleRow | None:
        """One."""
        ...

    async def rules_list(self, namespace: str, kind: RuleKind, *, after: str | None, limit: int) -> Sequence[RuleRow]:
        """By name, those after `after`."""
        ...

    async def rule_delete(self, namespace: str, kind: RuleKind, name: str) -> None:
        """Timers as in `rule_put`. Raises `NotFound`; `Conflict`, code `calendar_in_use`, while a job that is not
        CANCELLED names the calendar."""
        ...

    async def rules_all(self) -> tuple[int, Sequence[RuleRow]]:
        """All of every namespace, with the version that `FireBatch.rules_version` tells. At most `RULES_MOST` can be
        stored: what would be one more raises `Conflict`, code `rules_exhausted`."""
        ...
