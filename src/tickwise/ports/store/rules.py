"""Calendars and maintenance windows. The package states the rules of every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, VersionConflict
from tickwise.domain.quotas import Quotas
from tickwise.ports.paging import Page, utf8_bytes

MAX_RULES: Final = 10_000
"""Calendars and windows that a store keeps, of all namespaces: every scheduler holds them all in memory. A namespace
with few may have more (`RESERVED`)."""


class RuleKind(StrEnum):
    """The kinds of objects that close times."""

    CALENDAR = "calendar"
    """Jobs name it."""
    WINDOW = "window"
    """It concerns jobs by their labels."""


MAX_NAMESPACE: Final = {RuleKind.CALENDAR: 1_000, RuleKind.WINDOW: 200}
"""The most rules of a kind in one namespace, so that no namespace uses up those of all; each decision looks at all
windows of its namespace."""

RESERVED: Final = 20
"""The number of rules of a kind that each namespace may have at any total."""


def check_room(kind: RuleKind, quotas: Quotas, *, of_all: int, of_kind: int) -> None:
    """Raise `Conflict`, code `rules_exhausted`, if one rule more is too many: `of_all` are stored, `of_kind` of them of
    this kind in its namespace, which has these quotas."""
    quota = quotas.calendars if kind is RuleKind.CALENDAR else quotas.windows
    most = MAX_NAMESPACE[kind] if quota is None else min(quota, MAX_NAMESPACE[kind])
    if of_kind >= most:
        raise Conflict(
            f"the namespace has {of_kind} {kind}s, and may have no more: delete one that is no longer "
            "used, or put the times of several into one",
            code="rules_exhausted",
        )
    if of_all >= MAX_RULES and of_kind >= RESERVED:
        raise Conflict(
            f"there are {MAX_RULES} calendars and windows already: delete one that is no longer used",
            code="rules_exhausted",
        )


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

    @property
    def text_bytes(self) -> int:
        """See `PageRow`."""
        return utf8_bytes(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleQuery:
    """The rules of one kind in one namespace; everything given must match."""

    namespace: str
    kind: RuleKind
    names: Sequence[str] | None = None
    """Only rules of these names; None: of any name."""
    after: str | None = None
    """Rules with a greater name only: the last one of the page before."""
    limit: int = 50
    bytes_most: int | None = None
    """The page is cut before its bodies hold more (`paging`); None: never."""


def check_seen(stored: RuleRow | None, seen: RuleRow, version: int | None) -> None:
    """Raise `VersionConflict` if what is stored under a name is not at this version, or not of the creation that was
    seen. A version of None and a creation of 0.0 are anything, version 0 is nothing."""
    found = 0 if stored is None else stored.version
    if version not in (None, found):
        raise VersionConflict(f"the {seen.kind} {seen.name} is at version {found}, not {version}")
    if stored is not None and version is not None and seen.created_at not in (0.0, stored.created_at):
        raise VersionConflict(f"the {seen.kind} {seen.name} was deleted and created again meanwhile")


def is_done(stored: RuleRow, rule: RuleRow, expected_version: int | None, *, again: bool) -> bool:
    """Check whether the stored rule is the one that `RuleStore.put` is asked for."""
    return stored.body == rule.body and (
        expected_version in (None, stored.version) or (again and expected_version == stored.version - 1)
    )


class RuleStore(Protocol):
    """Calendars and maintenance windows: shared, few, read by every scheduler."""

    async def put(
        self,
        rule: RuleRow,
        expected_version: int | None = None,
        *,
        again: bool = False,
        audit: AuditEntry | None = None,
    ) -> RuleRow:
        """Create or replace. Timers of the namespace that a calendar or window holds back become due now, so that they
        are decided anew. `expected_version` 0: only create; other: only replace that one; else `VersionConflict`. With
        it, `rule.created_at`, if given, must be that of the stored one: of what was deleted and created anew
        versions begin again.

        A body that is stored already just so, byte for byte, changes nothing: neither version nor timers. With `again`
        it repeats a call whose outcome is in doubt: then the version after the expected one, with this body, is its
        own effect. (Without, of several that only create the same one does.) Who created it and when stays.

        What would be one more than `MAX_NAMESPACE` or the quota of its kind in the namespace, or than `MAX_RULES`
        where the namespace has `RESERVED` of them, raises `Conflict`, code `rules_exhausted`; what is there can always
        be replaced."""
        ...

    async def find(self, query: RuleQuery) -> Page[RuleRow]:
        """Up to `limit` rules, by name."""
        ...

    async def delete(
        self,
        namespace: str,
        kind: RuleKind,
        name: str,
        *,
        expected: RuleRow | None = None,
        audit: AuditEntry | None = None,
    ) -> None:
        """Timers as in `put`. Raises `NotFound`; `VersionConflict` if it is not the `expected` one, by version and
        creation; `Conflict`, code `calendar_in_use`, while a job that is not CANCELLED names the calendar."""
        ...

    async def all(self) -> tuple[int, Sequence[RuleRow]]:
        """All of every namespace, with the version that `FireBatch.rules_version` tells. At most `MAX_RULES`
        can be stored."""
        ...
