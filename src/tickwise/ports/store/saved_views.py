"""Filters of the lists of pages, saved under a name: for their owner alone, or for all of the namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict

SHARED: Final = ""
"""The owner of a view that all of the namespace sees."""
MAX_VIEWS: Final = 50
"""Views of one owner in one namespace, and shared ones of a namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A saved view."""

    namespace: str
    owner: str
    """The credential that it is of (`Principal.credential_name`), or `SHARED`."""
    path: str
    """The list that it is about, such as `/runs`."""
    name: str
    """As people read it; unique among the views of its owner on this list."""
    query: str
    """The filters, as an address has them."""
    by: str
    """The name of the caller who saved it last."""


class SavedViewStore(Protocol):
    """Saved views. They go with their namespace."""

    async def put(self, view: SavedView, *, audit: AuditEntry | None = None) -> None:
        """Save a view, in place of the one of this owner, list and name. Raises `Conflict`, code `views_exhausted`,
        beyond `MAX_VIEWS`, and for a namespace that is being removed."""
        ...

    async def find(self, namespace: str, owners: Sequence[str]) -> Sequence[SavedView]:
        """The views of these owners in a namespace, by list, name and owner."""
        ...

    async def remove(
        self, namespace: str, owner: str, *, path: str, name: str, audit: AuditEntry | None = None
    ) -> bool:
        """Remove a view; whether it was there."""
        ...


def check_views(others: int, *, shared: bool) -> None:
    """Raises `Conflict` if an owner with so many other views may have no further one."""
    if others >= MAX_VIEWS:
        whose = "the namespace has" if shared else "you have"
        raise Conflict(
            f"{whose} {others} saved views, and may have no more: remove one, or save it under a name that is there",
            code="views_exhausted",
        )
