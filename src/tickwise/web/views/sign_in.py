"""Sign in, sign in again in the middle of a form, sign out, and the link of `tickwise open`. The second step of a
sign-in: `factors.second_step`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from tickwise.control.people.second_step import WaitingStep
from tickwise.domain.errors import Busy, Forbidden, NotFound, Refused, TickwiseError, Unauthenticated
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.transport import CLEAR_TEXT, CLEAR_TEXT_CURE, is_led_here, own_address
from tickwise.web.views.factors.places import answer_of, sure_place
from tickwise.web.views.factors.second_step import (
    TYPED,
    begun,
    carried,
    check_private,
    offers_passkey,
    signed_in,
    status_of,
)
from tickwise.web.visit import Visit

LED_HERE: Final = (
    "This link was opened by a page of another server, so it signed nobody in. Run `tickwise open`, or put the link "
    "into the address bar yourself."
)
CREDENTIAL_CHARACTERS_MAX: Final = 1_024
SEE_OTHER: Final = 303
OUT: Final = "out"
"""The form comes after a sign-out: nobody is signed in again by a proxy or a provider that still knows the person."""
DONE: Final = {"password": "Your password is stored. Sign in with it."}
"""The sentence about the form that led here."""


def asked_to_sign_in(visit: Visit) -> Response:
    """The answer where nobody is signed in: the way to the form; or the form, with what was typed in another one."""
    request, here = visit.request, visit.address
    if visit.part is not None or visit.is_stream:
        return Response("the session has ended", 401, media_type="text/plain")
    if request.method in ("GET", "HEAD"):
        query = "" if here == "/" else f"?{urlencode({'next': here})}"
        return RedirectResponse(f"/login{query}", SEE_OTHER)
    return sign_in_form(visit, 401, back=here, typed=forms.kept_fields(visit.form))


async def login_page(visit: Visit) -> Response:
    """The form; who is signed in, here or by a proxy before the pages, goes on."""
    back = own_address(visit.query.get("next", "/"))
    if visit.caller is not None:
        return RedirectResponse(back, SEE_OTHER)
    is_named = visit.proxies.is_named(visit.request)
    if not is_named or visit.query.get("done") == OUT or not visit.transport.is_private(visit.request):
        return sign_in_form(visit, 200, back=back)
    return await _by_proxy(visit, back, {})


async def proxy_login(visit: Visit) -> Response:
    """Begin the session of the person whom a proxy names, and go on as `login` does."""
    back, typed = own_address(visit.form.get("next", "/")), _typed(visit)
    if not visit.transport.is_private(visit.request):
        return sign_in_form(visit, 403, back=back, typed=typed)
    return await _by_proxy(visit, back, typed)


async def _by_proxy(visit: Visit, back: str, typed: Mapping[str, str]) -> Response:
    try:
        person = visit.proxies.person(visit.request)
        if person is None:
            return sign_in_form(visit, 401, back=back, typed=typed, fault="No proxy says who you are.")
        opened = await visit.control.proxy.sign_in(person, visit.origin, earlier=visit.cookie)
    except (Unauthenticated, NotFound) as refusal:
        visit.control.proxy.refused(refusal, visit.origin)
        return sign_in_form(visit, 401, back=back, typed=typed, fault=sentence(refusal))
    return await signed_in(visit, opened, back=back, typed=typed)


async def login(visit: Visit) -> Response:
    """Begin a session, and go on with the page that was asked for, or with the form that was typed."""
    form = visit.form
    back = own_address(form.get("next", "/"))
    typed = _typed(visit)
    username = form.get("username", "").strip()[:CREDENTIAL_CHARACTERS_MAX]
    password = form.get("password", "")[:CREDENTIAL_CHARACTERS_MAX]
    if not visit.transport.is_private(visit.request):
        return sign_in_form(visit, 403, back=back, typed=typed)
    if not username or not password:
        return sign_in_form(
            visit, 422, back=back, typed=typed, username=username, fault="Enter your name and your password."
        )
    try:
        opened = await visit.control.browsers.sign_in(username, password, visit.origin, earlier=visit.cookie)
    except (Unauthenticated, Busy) as refusal:
        status = 401 if isinstance(refusal, Unauthenticated) else 429
        return sign_in_form(visit, status, back=back, typed=typed, username=username, fault=sentence(refusal))
    if isinstance(opened, WaitingStep):
        return await begun(visit, opened, back=back, typed=typed)
    return await signed_in(visit, opened, back=back, typed=typed)


def _typed(visit: Visit) -> Mapping[str, str]:
    """The fields of a form that come back after the sign-in."""
    return {name.removeprefix(TYPED): value for name, value in visit.form.items() if name.startswith(TYPED)}


async def passkey_login(visit: Visit) -> Response:
    """Begin the session of a passkey."""
    back, typed, secret = carried(visit)
    try:
        check_private(visit)
        opened = await visit.control.factor_sign_ins.passkey_alone(
            secret, answer_of(visit), sure_place(visit), visit.origin, earlier=visit.cookie
        )
    except (Refused, Busy) as refusal:
        return sign_in_form(visit, status_of(refusal), back=back, typed=typed, fault=sentence(refusal))
    return await signed_in(visit, opened, back=back, typed=typed)


async def open_link(visit: Visit) -> Response:
    """Begin the session of a link, on the machine of the server alone. A page of another server opens none: it could
    put its own session in the place of the visitor's, who would then type into another one's account."""
    if not visit.transport.is_private(visit.request):
        return sign_in_form(visit, 403, back="/")
    if is_led_here(visit.request):
        return sign_in_form(visit, 403, back="/", fault=LED_HERE)
    try:
        opened = await visit.control.browsers.open_link(
            visit.request.path_params["link"], visit.origin, earlier=visit.cookie
        )
    except (Unauthenticated, Forbidden, Busy) as refusal:
        status = 429 if isinstance(refusal, Busy) else 401
        return sign_in_form(visit, status, back="/", fault=sentence(refusal))
    response = RedirectResponse("/", SEE_OTHER)
    visit.cookies.keep(response, opened.cookie, opened.seconds)
    return response


async def logout(visit: Visit) -> Response:
    """End the session, here and in every process."""
    if visit.cookie is not None:
        await visit.control.browsers.sign_out(visit.cookie, visit.principal, visit.origin)
        visit.sessions.forget(visit.cookie)
    tells = visit.control.sso.provider() is not None or bool(visit.proxies.networks)
    response = RedirectResponse(f"/login?done={OUT}" if tells else "/login", SEE_OTHER)
    visit.cookies.drop(response)
    response.headers["clear-site-data"] = '"cache"'
    return response


def sign_in_form(
    visit: Visit,
    status: int,
    *,
    back: str,
    typed: Mapping[str, str] | None = None,
    username: str = "",
    fault: str = "",
) -> Response:
    """The sign-in page. `back`: the address to go on with. `typed`: fields of a form that come back after it."""
    private = visit.transport.is_private(visit.request)
    values = {
        "back": back,
        "typed": {f"{TYPED}{name}": value for name, value in (typed or {}).items()},
        "username": username,
        "fault": fault,
        "done": DONE.get(visit.query.get("done", "")),
        "refused": None if private else CLEAR_TEXT,
        "cure": CLEAR_TEXT_CURE,
        "provider": visit.control.sso.provider(),
        "begin": f"/login/provider?{urlencode({'next': back})}",
        "passwords": visit.control.sso.passwords.value,
        "is_signed_out": visit.query.get("done") == OUT,
        "person": visit.proxies.name_of(visit.request),
        "proxy_out": visit.control.proxy.sign_out_url(),
        "passkeys": private and offers_passkey(visit),
    }
    return visit.page("login.html", values, status if private else 403)


def sentence(error: TickwiseError) -> str:
    """The detail of an error, as a sentence."""
    return error.detail[:1].upper() + error.detail[1:] + "."


SIGN_IN: Final = (
    WebPage(method="GET", path="/login", name="login", handler=login_page, query=("next", "done"), is_open=True),
    WebPage(method="POST", path="/login", name="sign_in", handler=login, is_open=True),
    WebPage(method="POST", path="/login/proxy", name="proxy_login", handler=proxy_login, is_open=True),
    WebPage(method="POST", path="/login/passkey", name="passkey_login", handler=passkey_login, is_open=True),
    WebPage(method="GET", path="/open/{link}", name="open_link", handler=open_link, is_open=True),
    WebPage(method="POST", path="/logout", name="sign_out", handler=logout, is_open=True),
)
