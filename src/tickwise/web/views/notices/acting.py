"""The page of a link in a notice: it says what the link would do, and a button does it.

    GET /act/TOKEN ──► what it would do; nothing is changed, so a scanner of mail that follows links does nothing
    POST ──► done

Nobody is signed in: the link is the permission.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from tickwise.control.notices.action_links import ACT_PATH
from tickwise.control.notices.link_actions import LinkedAction
from tickwise.domain.errors import Conflict, NotFound, Refused, Unauthenticated
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit


async def shown(visit: Visit) -> Response:
    """The page of a link, before anything is done."""
    try:
        found = await visit.control.link_actions.look(_token(visit))
    except (Unauthenticated, NotFound, Conflict) as refusal:
        return _page(visit, fault=refusal)
    return _page(visit, found)


async def done(visit: Visit) -> Response:
    """Do it."""
    try:
        found = await visit.control.link_actions.act(_token(visit), visit.origin)
    except (Unauthenticated, NotFound, Conflict) as refusal:
        return _page(visit, fault=refusal)
    return _page(visit, found, was_done=True)


def _token(visit: Visit) -> str:
    return str(visit.request.path_params["token"])


def _page(
    visit: Visit, found: LinkedAction | None = None, *, fault: Refused | None = None, was_done: bool = False
) -> Response:
    values = {
        "found": found,
        "fault": fault,
        "was_done": was_done,
        "alert_page": None
        if found is None or found.alert is None
        else f"/alerts/{found.alert.alert_id}?namespace={found.link.namespace}",
        "run_page": None
        if found is None or found.run is None
        else f"/runs/{found.run.run_id}?namespace={found.link.namespace}",
    }
    status = 200 if fault is None else 404 if isinstance(fault, NotFound) else 409
    return visit.page("act.html", values, 401 if isinstance(fault, Unauthenticated) else status)


ACTING: Final = (
    WebPage(method="GET", path=f"{ACT_PATH}{{token}}", name="act", handler=shown, is_open=True),
    WebPage(method="POST", path=f"{ACT_PATH}{{token}}", name="act_done", handler=done, is_open=True),
)
