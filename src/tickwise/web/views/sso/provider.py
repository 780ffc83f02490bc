"""Sign in by the provider: the way there, the way back, and the way out.

/login/provider ──► provider ──► /login/provider/callback ──► the page that was asked for
                                     └─ refused: the sign-in page, with the reason
"""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from tickwise.domain.errors import Busy, NotFound, ProviderUnavailable, Unauthenticated
from tickwise.web.page import WebPage
from tickwise.web.transport import own_address
from tickwise.web.views.sign_in import SEE_OTHER, sentence, sign_in_form
from tickwise.web.visit import Visit

BACK_CHARACTERS_MAX: Final = 2_000
"""Of the address to go on with, which is kept for minutes: a longer one leads to the first page."""
REFUSALS: Final = (Unauthenticated, Busy, ProviderUnavailable, NotFound)


async def provider_begin(visit: Visit) -> Response:
    """Send the browser to the provider."""
    back = own_address(visit.query.get("next", "/"))
    back = back if len(back) <= BACK_CHARACTERS_MAX else "/"
    if not visit.transport.is_private(visit.request):
        return sign_in_form(visit, 403, back=back)
    try:
        begun = await visit.control.sso.begin(back, visit.cookies.read_secret(visit.request), visit.origin)
    except REFUSALS as refusal:
        return sign_in_form(visit, _status(refusal), back=back, fault=sentence(refusal))
    response = RedirectResponse(begun.url, SEE_OTHER)
    visit.cookies.keep_secret(response, begun.secret, begun.seconds)
    return response


async def provider_callback(visit: Visit) -> Response:
    """Begin the session of a person that the provider vouches for."""
    if not visit.transport.is_private(visit.request):
        return sign_in_form(visit, 403, back="/")
    query = visit.request.query_params
    answer = dict(query)
    if len(answer) != len(query.multi_items()):
        return sign_in_form(visit, 401, back="/", fault="The answer of the provider says a thing twice.")
    secret = visit.cookies.read_secret(visit.request)
    try:
        done = await visit.control.sso.complete(answer, secret, visit.origin, earlier=visit.cookie)
    except REFUSALS as refusal:
        return sign_in_form(visit, _status(refusal), back="/", fault=sentence(refusal))
    response = RedirectResponse(own_address(done.back), SEE_OTHER)
    visit.cookies.keep(response, done.opened.cookie, done.opened.seconds)
    return response


async def provider_out(visit: Visit) -> Response:
    """Send the browser to the place where it signs out at the provider."""
    try:
        url = await visit.control.sso.sign_out_url()
    except (ProviderUnavailable, NotFound) as refusal:
        return sign_in_form(visit, _status(refusal), back="/", fault=sentence(refusal))
    return RedirectResponse(url or "/login", SEE_OTHER)


def _status(refusal: Exception) -> int:
    if isinstance(refusal, Busy):
        return 429
    if isinstance(refusal, NotFound):
        return 404
    return 503 if isinstance(refusal, ProviderUnavailable) else 401


PROVIDER_SIGN_IN: Final = (
    WebPage(method="GET", path="/login/provider", name="provider_begin", handler=provider_begin, is_open=True,
            query=("next",)),
    WebPage(method="GET", path="/login/provider/callback", name="provider_callback", handler=provider_callback,
            is_open=True, takes_any_query=True),
    WebPage(method="GET", path="/login/provider/out", name="provider_out", handler=provider_out, is_open=True),
)  # fmt: skip
