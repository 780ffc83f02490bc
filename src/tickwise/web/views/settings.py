"""The settings in force in the process that answers, for administrators of the installation."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from tickwise.control.cluster import ClusterService
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

TEXT_MAX: Final = 100


async def settings_page(visit: Visit) -> Response:
    """All settings; with `q` those that have the text in name or meaning, with `set` those that are no default."""
    text = (forms.text(visit.query, "q", TEXT_MAX) or "").casefold()
    only_set = bool(visit.query.get("set"))
    rows = await visit.control.cluster.settings(visit.who)
    shown = [
        row
        for row in rows
        if (not only_set or row.origin != "default") and (text in row.name.casefold() or text in row.meaning.casefold())
    ]
    values = {
        "settings": shown,
        "count": len(rows),
        "set_count": sum(row.origin != "default" for row in rows),
        "asked": visit.query,
        "only_set": only_set,
    }
    return visit.page("settings.html", values)


SETTINGS: Final = (
    WebPage(
        method="GET",
        path="/settings",
        name="settings",
        query=("q", "set"),
        handler=settings_page,
        control=(ClusterService.settings,),
    ),
)
