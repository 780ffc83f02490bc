"""The page on which people enrol, rename and remove their second factors, and make recovery codes. Each form asks for
the password again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from tickwise.control.factors.enrolments import CodesEnrolment, Enrolled, PasskeyAnswer
from tickwise.control.factors.service import CodesBody, FactorChangeBody
from tickwise.domain.errors import (
    Busy,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    StoreUnavailable,
    TickwiseError,
    Unavailable,
)
from tickwise.web import forms
from tickwise.web.page import Handler, WebPage
from tickwise.web.views.factors.places import (
    CODE_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    answer_of,
    as_json,
    field,
    host_of,
    picture,
    place_of,
    sure_place,
)
from tickwise.web.visit import Visit

PASSWORD_CHARACTERS_MAX: Final = 1_024
SEE_OTHER: Final = 303
DONE: Final = {
    "enrolled": "The second factor is enrolled.",
    "renamed": "It has another name.",
    "removed": "The second factor is removed.",
}


async def security_page(visit: Visit) -> Response:
    """The second factors of the visitor."""
    return await _shown(visit)


async def _shown(visit: Visit, fault: TickwiseError | None = None, form: str = "") -> Response:
    values = {
        "mine": await visit.control.factors.mine(visit.who),
        "can_passkeys": place_of(visit) is not None,
        "done": DONE.get(visit.query.get("done", "")),
        "fault": fault,
        "fault_form": form,
    }
    return visit.page("security.html", values, _status(fault))


async def begin_codes(visit: Visit) -> Response:
    """A seed for an app, shown once."""
    try:
        body = CodesBody(password=_password(visit), name=field(visit, "name", NAME_CHARACTERS_MAX))
        codes = await visit.control.factors.begin_codes(visit.who, body, host_of(visit))
    except (Invalid, Conflict, Unavailable) as refusal:
        if isinstance(refusal, StoreUnavailable):
            raise
        return await _shown(visit, refusal, "codes")
    return _enrolling(visit, codes=codes, picture=picture(codes))


async def confirm_codes(visit: Visit) -> Response:
    """The first code of the app."""
    factor_id = forms.identifier(visit.form.get("factor_id"), "factor_id")
    if factor_id is None:
        raise NotFound("there is no such enrolment")
    code = field(visit, "code", CODE_CHARACTERS_MAX)
    try:
        enrolled = await visit.control.factors.confirm_codes(visit.who, factor_id, code)
    except (Invalid, Busy) as refusal:
        return _enrolling(visit, refusal, codes=CodesEnrolment(factor_id, "", ""))
    return await _enrolled(visit, enrolled)


async def begin_passkey(visit: Visit) -> Response:
    """The options of a new passkey."""
    try:
        begun = await visit.control.factors.begin_passkey(visit.who, _password(visit), sure_place(visit))
    except (Invalid, Conflict, Busy) as refusal:
        return await _shown(visit, refusal, "passkey")
    return _enrolling(visit, registration=begun.secret, options=as_json(begun.options))


async def finish_passkey(visit: Visit) -> Response:
    """The passkey that the browser made."""
    name = field(visit, "name", NAME_CHARACTERS_MAX)
    try:
        answer = PasskeyAnswer(field(visit, "registration"), answer_of(visit), name, sure_place(visit))
        enrolled = await visit.control.factors.finish_passkey(visit.who, answer)
    except (Invalid, Conflict, NotFound) as refusal:
        return await _shown(visit, refusal, "passkey")
    return await _enrolled(visit, enrolled)


async def change(visit: Visit) -> Response:
    """Rename or remove a factor."""
    factor_id = forms.identifier(visit.form.get("factor_id"), "factor_id")
    if factor_id is None:
        raise NotFound("you have no such second factor")
    removes = visit.form.get("action") == "remove"
    try:
        if removes:
            await visit.control.factors.remove(visit.who, factor_id, _password(visit))
        else:
            name = forms.text(visit.form, "name", NAME_CHARACTERS_MAX)
            if name is None:
                raise Invalid("give it a name", pointer="/name")
            await visit.control.factors.rename(
                visit.who, factor_id, FactorChangeBody(password=_password(visit), name=name)
            )
    except (Invalid, Conflict, Busy) as refusal:
        return await _shown(visit, refusal, str(factor_id))
    return RedirectResponse(f"/security?done={'removed' if removes else 'renamed'}", SEE_OTHER)


async def recovery_codes(visit: Visit) -> Response:
    """Ten new recovery codes, shown once."""
    try:
        codes = await visit.control.factors.new_recovery(visit.who, _password(visit))
    except (Invalid, Busy) as refusal:
        return await _shown(visit, refusal, "recovery")
    return visit.page("recovery_codes.html", {"codes": codes, "enrolled": "", "back": "/security", "typed": {}})


async def _enrolled(visit: Visit, enrolled: Enrolled) -> Response:
    """The page after an enrolment. The first factor has ended all sessions, also that of the visitor, who gets another
    one."""
    if not enrolled.is_first:
        return RedirectResponse("/security?done=enrolled", SEE_OTHER)
    opened = await visit.control.factor_sign_ins.renew(visit.who, visit.origin, earlier=visit.cookie)
    if visit.cookie is not None:
        visit.sessions.forget(visit.cookie)
    values = {"codes": enrolled.recovery, "enrolled": enrolled.name, "back": "/security", "typed": {}}
    response = visit.page("recovery_codes.html", values)
    visit.cookies.keep(response, opened.cookie, opened.seconds)
    return response


def _enrolling(visit: Visit, fault: TickwiseError | None = None, **shown: Any) -> Response:
    values: Mapping[str, Any] = {"codes": None, "picture": None, "registration": None, "options": None, **shown}
    return visit.page("security_enrol.html", {**values, "fault": fault}, _status(fault))


def _password(visit: Visit) -> str:
    """The password that was typed. Raises `Invalid`."""
    found = field(visit, "password", PASSWORD_CHARACTERS_MAX)
    if not found:
        raise Invalid("type your password", pointer="/password")
    return found


def _status(fault: TickwiseError | None) -> int:
    if fault is None:
        return 200
    for kind, status in ((Invalid, 422), (Forbidden, 403), (NotFound, 404), (Refused, 409), (Busy, 429)):
        if isinstance(fault, kind):
            return status
    return 503


def _form(path: str, name: str, handler: Handler) -> WebPage:
    return WebPage(method="POST", path=f"/security/{path}", name=f"security_{name}", handler=handler)


SECURITY: Final = (
    WebPage(method="GET", path="/security", name="security", query=("done",), handler=security_page),
    _form("codes/begin", "codes_begin", begin_codes),
    _form("codes", "codes", confirm_codes),
    _form("passkeys/begin", "passkeys_begin", begin_passkey),
    _form("passkeys", "passkeys", finish_passkey),
    _form("change", "change", change),
    _form("recovery-codes", "recovery_codes", recovery_codes),
)
