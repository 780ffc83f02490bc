"""The second step of a sign-in, passkeys in place of a password, and an enrolment that a role requires.

    POST /login ──► session ──► the page that was asked for
       │ └─ a factor ──► this page, with the secret of the step ──► POST /login/second-step ──► session
       └─ none, required ──► POST /login/enrol/… ──► session, recovery codes
    POST /login/passkey/options, POST /login/passkey ──► session

The secret of the step stands in the form, as the session has not begun: no cookie is set before it has. What was typed
in another form before goes with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from tickwise.control.factors.enrolments import CodesEnrolment, PasskeyAnswer, PasskeyEnrolment
from tickwise.control.factors.sign_ins import EnrolledSession
from tickwise.control.people.second_step import WaitingStep
from tickwise.control.people.session_opening import OpenedSession
from tickwise.domain.errors import Busy, Forbidden, Invalid, Refused, SecondFactorOver, TickwiseError, Unavailable
from tickwise.ports.identity.factors import FactorKind
from tickwise.web import forms
from tickwise.web.page import Handler, WebPage
from tickwise.web.transport import CLEAR_TEXT, own_address
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

TYPED: Final = "typed."
"""The prefix of fields that were typed before the session ended."""
SEE_OTHER: Final = 303
Typed = Mapping[str, str]


def offers_passkey(visit: Visit) -> bool:
    """Check whether the sign-in shows the button of passkeys."""
    return visit.control.factor_sign_ins.offers_passkeys() and place_of(visit) is not None


async def signed_in(visit: Visit, opened: OpenedSession, *, back: str, typed: Typed) -> Response:
    """Go on with the page that was asked for, or with the form that was typed; before it, a reset is told."""
    response: Response = RedirectResponse(back, SEE_OTHER)
    caller = await visit.sessions.caller(opened.cookie, used=True)
    note = None if caller is None else await visit.control.factors.reset_note(caller.principal())
    if note is not None:
        response = visit.page("factors_reset.html", {"note": note, "back": back, "typed": typed})
    elif typed:
        response = visit.page("resume.html", {"action": back, "typed": typed})
    visit.cookies.keep(response, opened.cookie, opened.seconds)
    return response


async def begun(visit: Visit, step: WaitingStep, *, back: str, typed: Typed) -> Response:
    """The page of a step that has begun."""
    if step.must_enrol:
        return await _enrol_page(visit, step.secret, back=back, typed=typed)
    return await _step_page(visit, step.secret, back=back, typed=typed, has_codes=FactorKind.TOTP in step.kinds)


async def second_step(visit: Visit) -> Response:
    """Show a code, a recovery code or a passkey."""
    back, typed, secret = carried(visit)
    sign_ins, origin = visit.control.factor_sign_ins, visit.origin
    try:
        check_private(visit)
        if visit.form.get("response"):
            place = sure_place(visit)
            opened = await sign_ins.by_passkey(secret, answer_of(visit), place, origin, earlier=visit.cookie)
        else:
            code = field(visit, "code", CODE_CHARACTERS_MAX)
            opened = await sign_ins.by_code(secret, code, origin, earlier=visit.cookie)
    except (Refused, Busy) as refusal:
        return await _step_page(visit, secret, back=back, typed=typed, refusal=refusal)
    return await signed_in(visit, opened, back=back, typed=typed)


async def passkey_options(visit: Visit) -> Response:
    """The options to show a passkey in place of a password."""
    try:
        check_private(visit)
        found = await visit.control.factor_sign_ins.begin_passkey(sure_place(visit), visit.origin)
    except (Refused, Busy) as refusal:
        return Response(_sentence(refusal), status_of(refusal), media_type="text/plain")
    content = f'{{"step":"{found.secret}","options":{as_json(found.options)}}}'
    return Response(content, media_type="application/json")


async def _step_page(
    visit: Visit,
    secret: str,
    *,
    back: str,
    typed: Typed,
    has_codes: bool = True,
    refusal: TickwiseError | None = None,
) -> Response:
    over, options, place = isinstance(refusal, SecondFactorOver), None, place_of(visit)
    if not over and place is not None:
        try:
            options = await visit.control.factor_sign_ins.options(secret, place, visit.origin)
        except SecondFactorOver as ended:
            over, refusal = True, ended
    values = {
        "step": secret,
        "back": back,
        "typed": _prefixed(typed),
        "options": None if options is None else as_json(options),
        "elsewhere": options is None and not has_codes,
        "has_codes": has_codes,
        "over": over,
        "fault": "" if refusal is None else _sentence(refusal),
    }
    return visit.page("second_step.html", values, 200 if refusal is None else status_of(refusal))


# ---------------------------------------------------------------------------------------------------- enrolment


async def _begin_codes(visit: Visit, secret: str) -> dict[str, Any]:
    codes = await visit.control.factor_sign_ins.begin_codes(secret, None, host_of(visit), visit.origin)
    return {"codes": codes, "picture": picture(codes)}


async def _begin_passkey(visit: Visit, secret: str) -> dict[str, Any]:
    begun = await visit.control.factor_sign_ins.begin_registration(secret, sure_place(visit), visit.origin)
    return _registration(begun)


async def _confirm(visit: Visit, secret: str) -> EnrolledSession:
    factor_id = forms.identifier(visit.form.get("factor_id"), "factor_id")
    if factor_id is None:
        raise Invalid("choose what to enrol first")
    code = field(visit, "code", CODE_CHARACTERS_MAX)
    return await visit.control.factor_sign_ins.finish_codes(secret, factor_id, code, visit.origin, earlier=visit.cookie)


async def _finish_passkey(visit: Visit, secret: str) -> EnrolledSession:
    name = field(visit, "name", NAME_CHARACTERS_MAX)
    answer = PasskeyAnswer(field(visit, "registration"), answer_of(visit), name, sure_place(visit))
    return await visit.control.factor_sign_ins.finish_registration(secret, answer, visit.origin, earlier=visit.cookie)


def _beginning(handler: Callable[[Visit, str], Awaitable[dict[str, Any]]]) -> Handler:
    async def handled(visit: Visit) -> Response:
        back, typed, secret = carried(visit)
        try:
            check_private(visit)
            shown = await handler(visit, secret)
        except (Refused, Unavailable) as refusal:
            return await _enrol_page(visit, secret, back=back, typed=typed, refusal=refusal)
        return await _enrol_page(visit, secret, back=back, typed=typed, shown=shown)

    return handled


def _finishing(handler: Callable[[Visit, str], Awaitable[EnrolledSession]]) -> Handler:
    async def handled(visit: Visit) -> Response:
        back, typed, secret = carried(visit)
        try:
            check_private(visit)
            opened, enrolled = await handler(visit, secret)
        except (Refused, Busy) as refusal:
            return await _enrol_page(visit, secret, back=back, typed=typed, shown=_again(visit), refusal=refusal)
        values = {"codes": enrolled.recovery, "enrolled": enrolled.name, "back": back, "typed": typed}
        response = visit.page("recovery_codes.html", values)
        visit.cookies.keep(response, opened.cookie, opened.seconds)
        return response

    return handled


def _again(visit: Visit) -> dict[str, Any]:
    """The form of codes once more, after a wrong one. The seed was shown before."""
    factor_id = forms.identifier(visit.form.get("factor_id"), "factor_id")
    return {} if factor_id is None else {"codes": CodesEnrolment(factor_id, "", ""), "picture": None}


def _registration(begun: PasskeyEnrolment) -> dict[str, Any]:
    return {"registration": begun.secret, "options": as_json(begun.options)}


async def _enrol_page(
    visit: Visit,
    secret: str,
    *,
    back: str,
    typed: Typed,
    shown: Mapping[str, Any] | None = None,
    refusal: TickwiseError | None = None,
) -> Response:
    over, can_codes = False, False
    try:
        can_codes = await visit.control.factor_sign_ins.check_enrolment(secret, visit.origin)
    except SecondFactorOver as ended:
        over, refusal = True, ended
    values = {
        "step": secret,
        "back": back,
        "typed": _prefixed(typed),
        "codes": None,
        "picture": None,
        "registration": None,
        "options": None,
        "can_codes": can_codes,
        "can_passkeys": place_of(visit) is not None,
        "over": over,
        "fault": "" if refusal is None else _sentence(refusal),
    }
    return visit.page(
        "second_step_enrol.html", {**values, **(shown or {})}, 200 if refusal is None else status_of(refusal)
    )


# ---------------------------------------------------------------------------------------------------- shared


def carried(visit: Visit) -> tuple[str, Typed, str]:
    """The page to go on with, what was typed there, and the secret of the step."""
    typed = {name.removeprefix(TYPED): value for name, value in visit.form.items() if name.startswith(TYPED)}
    return own_address(visit.form.get("next", "/")), typed, field(visit, "step")


def _prefixed(typed: Typed) -> Typed:
    return {f"{TYPED}{name}": value for name, value in typed.items()}


def check_private(visit: Visit) -> None:
    if not visit.transport.is_private(visit.request):
        raise Forbidden(CLEAR_TEXT.removesuffix("."))


def status_of(refusal: TickwiseError) -> int:
    if isinstance(refusal, Busy):
        return 429
    if isinstance(refusal, Unavailable):
        return 503
    return 403 if isinstance(refusal, Forbidden) else 422 if isinstance(refusal, Invalid) else 401


def _sentence(error: TickwiseError) -> str:
    return f"{error.detail[:1].upper()}{error.detail[1:]}."


def _open(path: str, name: str, handler: Handler) -> WebPage:
    return WebPage(method="POST", path=path, name=name, handler=handler, is_open=True)


SECOND_STEP: Final = (
    _open("/login/second-step", "second_step", second_step),
    _open("/login/passkey/options", "passkey_options", passkey_options),
    _open("/login/enrol/begin-codes", "enrol_begin_codes", _beginning(_begin_codes)),
    _open("/login/enrol/begin-passkey", "enrol_begin_passkey", _beginning(_begin_passkey)),
    _open("/login/enrol/confirm", "enrol_confirm", _finishing(_confirm)),
    _open("/login/enrol/passkey", "enrol_passkey", _finishing(_finish_passkey)),
)
