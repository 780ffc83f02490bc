"""The way between a browser and the pages: whether a cookie may travel, and whether a form comes from our own page.

    https, or TLS at the proxy ──► sign-in
    http on loopback           ──► sign-in: browsers keep `__Host-` cookies there
    http from elsewhere        ──► refused, with the reason: the cookie would be read on its way, and not be kept

Forms are judged by fetch metadata (https://www.w3.org/TR/fetch-metadata/), and by `Origin` where a browser sends none.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from tickwise.domain.errors import Forbidden
from tickwise.domain.networks import is_loopback

CLEAR_TEXT: Final = (
    "Sign-in is refused, because this address is plain HTTP and can be reached from other machines: passwords and "
    "sessions could be read on their way, and browsers keep no __Host- cookie here."
)
CLEAR_TEXT_CURE: Final = (
    "Set TICKWISE_TLS_CERT_FILE and TICKWISE_TLS_KEY_FILE, or TICKWISE_TLS_ENDS_AT=proxy behind a proxy that speaks "
    "TLS (docs/how-to/tls.md). On the machine of the server itself, use http://127.0.0.1."
)
SAFE: Final = frozenset({"GET", "HEAD"})


class Transport:
    """Judges requests by the way that they came."""

    def __init__(self, *, tls_at_proxy: bool = False, public_url: str | None = None) -> None:
        """`tls_at_proxy`: a proxy speaks TLS with browsers, and the way from it is private. `public_url`: the address
        under which people reach the pages; None: that of each request."""
        self._tls_at_proxy = tls_at_proxy
        self._public_url = public_url

    def is_private(self, request: Request) -> bool:
        """Check whether a cookie may travel: under TLS, or on the machine itself."""
        if self._tls_at_proxy or request.url.scheme == "https":
            return True
        client = request.client
        return client is not None and is_loopback(client.host) and is_local_name(request.headers.get("host", ""))

    def origin(self, request: Request) -> str:
        """The origin of the pages as the browser knows it: of the public address, unless a browser of the machine
        itself asks by a name of that; else of the request."""
        host = request.headers.get("host", "")
        public = urlsplit(self._public_url or "")
        if public.netloc and not is_local_name(host):
            return _origin(public.scheme, public.netloc)
        return _origin("https" if self._tls_at_proxy else request.url.scheme, host)

    def check_form(self, request: Request) -> None:
        """Raises `Forbidden` for a request that changes something and does not come from a page of ours."""
        if request.method in SAFE:
            return
        site = request.headers.get("sec-fetch-site")
        if site is not None:
            own = site == "same-origin"
        else:
            origin = request.headers.get("origin")
            own = origin is not None and _place_of(origin) == request.headers.get("host")
        if not own:
            raise Forbidden(
                "this form was not sent from a page of this server, so nothing was done; open the page again and send "
                "it from there. Programs use the API: /api/v1"
            )


def is_led_here(request: Request) -> bool:
    """Check whether a page of another server led the browser here: an address that was typed, or opened by a program,
    comes from none. A browser without fetch metadata does not say."""
    return (request.headers.get("sec-fetch-site") or "none") not in ("none", "same-origin")


def is_local_name(host: str) -> bool:
    """Check whether a `Host` header names the machine itself."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or is_loopback(name)


def is_host(host: str) -> bool:
    """Check whether a `Host` header can be read: addresses of pages are made of it."""
    try:
        return urlsplit(f"//{host}/").netloc == host and urlsplit(f"//{host}").port != 0
    except ValueError:
        return False


def _origin(scheme: str, place: str) -> str:
    """An origin as browsers write it: without the usual port (RFC 6454, section 6.2)."""
    usual = ":443" if scheme == "https" else ":80"
    return f"{scheme}://{place.lower().removesuffix(usual)}"


def _place_of(origin: str) -> str | None:
    """The host and the port of an `Origin` header; None: it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def own_address(address: str) -> str:
    """An address of ours; of another server, or one that cannot be read, the first page."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "/"
    own = not parts.scheme and not parts.netloc and address.startswith("/")
    # Browsers read a backslash as a slash, and leave control characters out: both could begin another server's name.
    safe = address.isprintable() and "\\" not in address and not address.startswith("//")
    return address if own and safe else "/"
