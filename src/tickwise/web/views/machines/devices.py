"""The page on which a person approves the sign-in of a terminal.

    /device ──code──► who asks, from where, for what ──► «the code is the same» + approve, or deny ──► done

A link may carry the code. It only fills the field in: nothing is given before the person has compared the code with
their own terminal and said so.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from tickwise.control.people.devices import shown_code
from tickwise.domain.errors import Busy, Conflict, Forbidden, NotFound, TickwiseError
from tickwise.domain.networks import network_of
from tickwise.ports.identity.device_sign_ins import DeviceSignIn
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

CODE_CHARACTERS_MAX: Final = 50
SEE_OTHER: Final = 303
DONE: Final = {
    "approved": "The terminal is signed in as you. You can close this page.",
    "denied": "The terminal was refused. If you did not ask for a sign-in, somebody else did: approve no code that you "
    "did not begin yourself.",
}


async def device_page(visit: Visit) -> Response:
    """The field for a code; with a code, the request that it stands for."""
    code = visit.query.get("user_code", "")[:CODE_CHARACTERS_MAX]
    if not code:
        return _page(visit)
    try:
        return _page(visit, found=await visit.control.devices.find(visit.who, code))
    except (NotFound, Busy, Forbidden) as refusal:
        return _page(visit, code=code, refusal=refusal)


async def device_decide(visit: Visit) -> Response:
    """Approve or deny."""
    code, verdict = visit.form.get("user_code", "")[:CODE_CHARACTERS_MAX], visit.form.get("verdict", "")
    approved = verdict == "approve"
    try:
        if approved and visit.form.get("same") != "yes":
            found = await visit.control.devices.find(visit.who, code)
            return _page(visit, found=found, fault="Compare the code with the one on your terminal, and tick the box.")
        if verdict not in ("approve", "deny"):
            return RedirectResponse(visit.url("/device", user_code=code), SEE_OTHER)
        await visit.control.devices.decide(visit.who, code, approved=approved)
    except (NotFound, Conflict, Busy, Forbidden) as refusal:
        return _page(visit, code=code, refusal=refusal)
    return RedirectResponse(visit.url("/device", done="approved" if approved else "denied"), SEE_OTHER)


def _page(
    visit: Visit,
    *,
    found: DeviceSignIn | None = None,
    code: str = "",
    fault: str = "",
    refusal: TickwiseError | None = None,
) -> Response:
    status = 200
    if refusal is not None:
        fault = f"{refusal.detail[:1].upper()}{refusal.detail[1:]}."
        status = 429 if isinstance(refusal, Busy) else 403 if isinstance(refusal, Forbidden) else 404
    elif fault:
        status = 422
    values = {
        "found": found,
        "code": code if found is None else shown_code(found.user_code),
        "scope": None if found is None or found.scope is None else sorted(found.scope),
        "is_elsewhere": found is not None and network_of(found.address) != network_of(visit.origin.address),
        "fault": fault,
        "done": DONE.get(visit.query.get("done", "")),
    }
    return visit.page("device.html", values, status)


DEVICES: Final = (
    WebPage(method="GET", path="/device", name="device", handler=device_page, query=("user_code", "done")),
    WebPage(method="POST", path="/device", name="device_decide", handler=device_decide),
)
