"""Pages that are bounded in bytes: rows hold texts that callers make large, so a number of rows bounds nothing.

    rows of a search, in order ──► 900 KB │ 2 MB │ 900 KB ┆ 900 KB │ 5 MB │ …     bytes_most = 4 MB
                                   └──── the page ───────┘ cut: it goes on behind its last row

Invariant: a page has at least one row if anything matches, so a caller that goes on behind the last row of each page
comes to the end, and sees each row once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

PAGE_BYTES: Final = 4 << 20
"""The texts of one page that is listed, or worked on as a whole. A row has 1 MB of them by default settings, so four
large rows fit, and each page of usual rows (2 KB) at the greatest limit of the API, 500."""


class PageRow(Protocol):
    """A row of a page."""

    @property
    def text_bytes(self) -> int:
        """The size of its large texts, in UTF-8. Names and the like are short, and do not count."""
        ...


Row = TypeVar("Row", bound=PageRow)
Item = TypeVar("Item")


class SearchPlace(NamedTuple):
    """The place at which a search that may pause goes on (`JobQuery.may_pause`)."""

    before: UUID
    """Rows below it were not looked at yet."""
    is_rest: bool = False
    """Only rows that no index knows are left; the others were found first."""
    rest_from: UUID | None = None
    """Rows that an index knows are found first; of the rest, those below this place were not looked at. None: those
    below `before`."""


class Page(list[Item]):
    """The rows of a page, in order."""

    __slots__ = ("cut", "paused_at", "rest_from")

    cut: bool
    """Rows that match follow, within the `limit` of the query, and were left out because of its `bytes_most`."""
    paused_at: SearchPlace | None
    """The search has looked at as many rows as one call may, and goes on at this place. None: it did not pause."""
    rest_from: UUID | None
    """`SearchPlace.rest_from` of a place below it, behind a row of the page."""

    def __init__(
        self, rows: Iterable[Item] = (), *, cut: bool = False, paused_at: SearchPlace | None = None
    ) -> None:  # fmt: skip
        super().__init__(rows)
        self.cut = cut
        self.paused_at = paused_at
        self.rest_from = None

    def is_full(self, limit: int) -> bool:
        """True if more rows may follow behind the last one: the page has as many as its query asked for, or was cut. A
        page that is shorter than its limit is not the last one by that alone."""
        return self.cut or len(self) >= limit


def place_after(page: Page[Item], limit: int, place: Callable[[Item], UUID], *, is_rest: bool) -> SearchPlace | None:
    """The place at which a caller goes on that has asked for one row more than it shows, `limit`. None: the page was
    the last one. `is_rest`: that of the query."""
    if page.is_full(limit + 1):
        last = place(page[:limit][-1])
        return SearchPlace(
            last, is_rest, page.rest_from if page.rest_from is not None and last < page.rest_from else None
        )
    return page.paused_at


def page_within(rows: Sequence[Row], bytes_most: int | None) -> Page[Row]:
    """The first of these rows: as many as have `bytes_most` of text together, and one at least; None: all of them."""
    if bytes_most is None:
        return Page(rows)
    total = 0
    for place, row in enumerate(rows):
        total += row.text_bytes
        if place and total > bytes_most:
            return Page(rows[:place], cut=True)
    return Page(rows)


def utf8_bytes(*texts: str | None) -> int:
    """The size of texts in UTF-8; None has none."""
    return sum(len(text.encode()) for text in texts if text is not None)
