"""Pages that are bounded in bytes: the cut is made in the database, so what is cut off never leaves it.

A statement of a page gives the size of each row's large texts as `bytes`, and ends with its order. `bounded` puts
`page_bounded` around it, which takes the bound as one parameter more: the last. Invariant: the page within keeps the
plan that it has alone, for its LIMIT is a border that the planner does not move conditions across.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug
from tickwise.ports.paging import Item, Page

_ORDER: Final = re.compile(r"ORDER BY ([\w\", ]+?)(?: LIMIT \$\d+)?$")
_PARAMETER: Final = re.compile(r"\$(\d+)")
ROWS: Final = {"jobs_newest": "jobs_page", "jobs_newest_of": "jobs_page"}
"""The statements that give the candidates of a page alone, in order, with those that make rows of them."""
_OF_PAGE: Final = frozenset({"bytes", "page_rows", "page_place", "page_bytes"})


@cache
def bounded(name: str) -> str:
    """The text of a page with its bound. Raises `Bug` for a statement that does not end with its order."""
    page = _page(name)
    order = _ORDER.search(page)
    if order is None:
        raise Bug(f"the statement {name} is no page: it does not end with its order")
    most = f"${1 + max(int(number) for number in _PARAMETER.findall(page))}"
    parts = {"page": page, "order": order[1], "most": most}
    return re.sub(r"\{(\w+)\}", lambda part: parts[part[1]], statement("page_bounded"))


def _page(name: str) -> str:
    """The text of a page without its bound."""
    rows = ROWS.get(name)
    return statement(name) if rows is None else statement(rows).replace("{candidates}", statement(name))


def page_of(records: Sequence[Mapping[str, Any]], row: Callable[[Mapping[str, Any]], Item]) -> Page[Item]:
    """The page that these records of such a statement are, each made a row by `row`."""
    return Page(map(row, records), cut=bool(records) and records[0]["page_rows"] > len(records))


def own_columns(record: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row, without those of its page."""
    return {name: value for name, value in record.items() if name not in _OF_PAGE}
