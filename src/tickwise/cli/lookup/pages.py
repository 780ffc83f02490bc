"""Lists: the first items, and whether there are more."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tickwise.cli.session import Session
    from tickwise.sdk.client import Client

PAGE: Final = 500
"""The most items of one answer."""


def first_of(
    session: Session,
    path: str,
    query: Mapping[str, Any],
    limit: int,
    *,
    page: int = PAGE,
    client: Client | None = None,
) -> tuple[list[Any], str | None]:
    """Up to `limit` items of a list; if there are more, the sentence that says so and how to see them. `page`: the most
    items of one answer. `client`: another one than the session's."""
    pages = (client or session.client).pages(path, {**query, "limit": min(limit + 1, page)})
    found = list(islice((each for page in pages for each in page), limit + 1))
    return found[:limit], more_than(limit) if len(found) > limit else None


def more_than(limit: int) -> str:
    """`There are more than these 20; --limit 100 shows more.`"""
    return f"There are more than these {limit}; --limit {limit * 5} shows more."
