"""Requests and their answers, without the sending: shared by the synchronous and the asynchronous client.

    Exchange ──sent──► client ──response or error──► Exchange: an answer, an error to raise, or a pause and once more

Every POST carries an Idempotency-Key, so a request whose answer got lost is sent again and is still carried out once.
A server that is away, restarts, or says that it cannot serve for now, is waited for up to `patience_seconds`.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

from tickwise_sdk.errors import ClearTextWarning, ClientError, Pending, ProblemError, Unreachable, Untrusted
from tickwise_sdk.http_library import httpx2
from tickwise_sdk.version import __version__

API: Final = "/api/v1"
RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})
CONFLICT: Final = 409
PENDING: Final = 202
"""Of a read: what it asks for is accepted, and not there yet."""
FIRST_PAUSE_SECONDS: Final = 0.2
MAX_PAUSE_SECONDS: Final = 2.0
IN_FLIGHT: Final = "idempotency_key_in_flight"
"""The code of a refusal: the first sending of this request is still being carried out, and its answer will follow."""
_NO_CONNECTION: Final = (httpx2.ConnectError, httpx2.ConnectTimeout)
_BROKEN_ON_THE_WAY: Final = (
    httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError, httpx2.ReadTimeout, httpx2.WriteTimeout
)  # fmt: skip

Json = dict[str, Any]
Key = str | Callable[[], str] | None
"""An API key or an access token; a callable is asked at each request, since tokens end."""


class ServerTrust(NamedTuple):
    """The certificates that a client takes for the server's."""

    ca_file: str | None = None
    """PEM certificates of authorities, or of the server itself: these alone are trusted. None: the machine's."""
    server_name: str | None = None
    """The name that the certificate must be for, if it is not that of the address."""
    insecure: bool = False
    """Send keys to other machines without TLS, too, and say nothing."""

    def verify(self) -> ssl.SSLContext | bool:
        """The argument for the HTTP library. Raises `ClientError` for a file that has no certificates."""
        if self.ca_file is None:
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ClientError(f"{self.ca_file} cannot be read as certificates (PEM): {error}") from None
        # A certificate that is named itself is trusted, also if it is not the one that signed itself.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


def travels_in_clear(url: str) -> bool:
    """Check whether requests to this address leave the machine unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _is_local(parts.hostname or "")


def _is_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


class Answer(NamedTuple):
    """An answer: the parsed JSON (None if there is no body) and the headers that callers need."""

    status: int
    body: Any
    etag: str | None
    next_path: str | None
    """The target of the `Link` header with `rel="next"`, if there is a further page."""


class Request(NamedTuple):
    """A request without method and address, and the statuses that are no answer yet."""

    query: Mapping[str, Any] | None = None
    body: Any = None
    headers: Mapping[str, str] | None = None
    for_now: frozenset[int] = RETRIED_STATUSES


class ServerAddress:
    """A server, the key for it and what is trusted of it: the settings that both clients share."""

    def __init__(
        self,
        url: str,
        key: Key,
        *,
        namespace: str | None,
        timeout_seconds: float,
        patience_seconds: float,
        trust: ServerTrust | None,
        waits_to_connect: bool,
    ) -> None:
        """`waits_to_connect`: a connection that is refused is tried again, though the address may be wrong."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ClientError(f"{url!r} is no server address; write one such as http://127.0.0.1:8470")
        trust = trust or ServerTrust()
        if key and not trust.insecure and travels_in_clear(url):
            warnings.warn(
                f"your key travels to {parts.hostname} unencrypted, and can be read on its way; use https",
                ClearTextWarning,
                stacklevel=3,
            )
        self.url = url.rstrip("/").removesuffix(API)
        self.namespace = namespace
        self.patience_seconds = patience_seconds
        self.timeout_seconds = timeout_seconds
        self.waits_to_connect = waits_to_connect
        self._key = key
        headers = {"Accept": "application/json", "User-Agent": f"tickwise-sdk/{__version__}"}
        if namespace:
            headers["Tickwise-Namespace"] = namespace
        self.http_options: dict[str, Any] = {
            "headers": headers,
            "timeout": timeout_seconds,
            # A proxy from the environment can reach no server on this machine; and without TLS, loading the
            # certificates of the world would be most of a command's time.
            "trust_env": not _is_local(parts.hostname),
            "verify": trust.verify() if parts.scheme == "https" else False,
        }
        self.extensions = {"sni_hostname": trust.server_name} if trust.server_name else None

    def credentials(self) -> dict[str, str]:
        """The headers that show the key."""
        key = self._key() if callable(self._key) else self._key
        return {"Authorization": f"Bearer {key}"} if key else {}

    def address(self, path: str) -> str:
        """A full address for a path of the API, or for one that the server gave (`Link`, `log_url`)."""
        if path.startswith(("http://", "https://")):
            # The server's link may name another host than the one through which we reach it; the key must not go there.
            parts = urlsplit(path)
            path = parts.path + (f"?{parts.query}" if parts.query else "")
        return self.url + (path if path.startswith((API, "/readyz", "/livez")) else API + path)

    def stream(self, path: str, query: Mapping[str, Any] | None, headers: Mapping[str, str] | None) -> Json:
        """The arguments of a request for a long answer, for the HTTP library."""
        return {
            "method": "GET",
            "url": self.address(path),
            "params": given(query) or None,
            "headers": {"Accept": "*/*", **self.credentials(), **(headers or {})},
            "extensions": self.extensions,
        }

    def read(self, response: httpx2.Response) -> Answer:
        """An answer as JSON. Raises `Unreachable` for one that is not JSON."""
        following = response.links.get("next", {}).get("url")
        content = response.content
        try:
            parsed = json.loads(content) if content.strip() else None
        except ValueError:
            raise Unreachable(f"{self.url} answered something that is not JSON; is it a Tickwise server?") from None
        return Answer(response.status_code, parsed, response.headers.get("ETag"), following)


class Exchange:
    """One request until it has an answer."""

    def __init__(self, server: ServerAddress, method: str, address: str, request: Request) -> None:
        sent = {"Idempotency-Key": str(uuid4())} if method == "POST" else {}
        content: bytes | None = None
        body = request.body
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        sent.update(server.credentials())
        sent.update(request.headers or {})
        self._server = server
        self._url = server.url
        self._for_now = request.for_now
        self._began = time.monotonic()
        self._waits_since: float | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.sent: Json = {
            "method": method,
            "url": address,
            "params": given(request.query) or None,
            "content": content,
            "headers": sent,
            "extensions": server.extensions,
        }
        """The arguments of the request, for the HTTP library."""

    def failed(self, error: httpx2.HTTPError) -> None:
        """Judge a request without an answer. Raises `Unreachable` unless it is to be sent again."""
        if isinstance(error, _NO_CONNECTION):
            failure = _not_connected(self._url, error)
            # What broke before was there: it restarts.
            is_waited_for = self._server.waits_to_connect or self._waits_since is not None
            is_waited_for = is_waited_for and not isinstance(failure, Untrusted)
        elif isinstance(error, httpx2.PoolTimeout):
            limit = self._server.timeout_seconds
            failure = Unreachable(
                f"no connection to {self._url} was free for {limit:g} s; send fewer requests at a time"
            )
            is_waited_for = False
        else:
            is_waited_for = isinstance(error, _BROKEN_ON_THE_WAY)
            said = f"the connection to {self._url} broke" if is_waited_for else f"{self._url} cannot be reached"
            failure = Unreachable(f"{said}: {error}")
            if isinstance(error, httpx2.TimeoutException):
                failure = Unreachable(f"{self._url} did not answer in time")
                self._waits_since = self._began  # the timeout was a wait, too
        if not is_waited_for or self._is_over():
            raise self._told(failure) from error

    def is_answered(self, response: httpx2.Response) -> bool:
        """Check whether this is an answer; False: it is to be sent again. Raises `ProblemError` for a refusal, and
        `Unreachable` once patience ends."""
        if response.status_code not in self._for_now and not _is_in_flight(response):
            try:
                check(response)
            except Unreachable as unable:
                raise self._told(unable) from None
            return True
        asked_seconds = retry_after_seconds(response)
        self._pause_seconds = max(self._pause_seconds, asked_seconds or 0.0)
        if self._is_over():
            if response.status_code == CONFLICT:
                check(response)
            failure = _not_there(response) if response.status_code == PENDING else _unable(response)
            failure.retry_after_seconds = asked_seconds
            raise self._told(failure)
        return False

    def _told(self, failure: Unreachable) -> Unreachable:
        """The failure with the key under which the request may be sent once more."""
        failure.idempotency_key = self.sent["headers"].get("Idempotency-Key")
        return failure

    def pause_seconds(self) -> float:
        """The time to wait before it is sent again."""
        pause = self._pause_seconds
        self._pause_seconds = min(pause * 2, MAX_PAUSE_SECONDS)
        return pause

    def _is_over(self) -> bool:
        """Check whether patience ends before it can be sent again. It begins with the first failure: a long request
        may break at its end."""
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        return now + self._pause_seconds > self._waits_since + self._server.patience_seconds


def statuses_for_now(method: str, *, until_there: bool) -> frozenset[int]:
    """The statuses that are no answer yet. A read waits for a thing that is accepted and not there yet."""
    return RETRIED_STATUSES | {PENDING} if method == "GET" and until_there else RETRIED_STATUSES


def given(query: Mapping[str, Any] | None) -> Json:
    """The parameters of a query that have a value."""
    return {name: value for name, value in (query or {}).items() if value is not None}


def safe(segment: str) -> str:
    """A text as one segment of a path; no text can reach another route."""
    return quote(segment, safe="")


def check(response: httpx2.Response) -> None:
    """Raise `ProblemError` or `Unreachable` for an answer that is no success. Its content has been read."""
    if response.is_success:
        return
    if response.status_code >= 500:
        raise _unable(response)
    if response.is_redirect:
        raise Unreachable(f"{response.url} points elsewhere ({response.headers.get('Location')}); use that address")
    raise ProblemError(response.status_code, _refusal(response)[1])


def unreachable(url: str, error: httpx2.HTTPError) -> Unreachable:
    """The error for a stream that broke, or could not begin."""
    if isinstance(error, httpx2.TimeoutException):
        return Unreachable(f"{url} did not answer in time")
    return Unreachable(f"{url} cannot be reached: {error}")


def _is_in_flight(response: httpx2.Response) -> bool:
    """Check whether the request is refused because its first sending is still under way."""
    return response.status_code == CONFLICT and _refusal(response)[1].get("code") == IN_FLIGHT


def _not_connected(url: str, error: httpx2.HTTPError) -> Unreachable:
    """The reason that there is no connection, and what to do about one that TLS refused."""
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return Untrusted(
            f"the certificate of {url} is not trusted ({said.partition('certificate verify failed: ')[2] or said}); "
            "name the file with its authority: --ca-file, or TICKWISE_CA_FILE"
        )
    if "WRONG_VERSION_NUMBER" in said or "RECORD_LAYER_FAILURE" in said:
        return Untrusted(f"{url} speaks no TLS; is its address http://…?")
    return Unreachable(f"nothing answers at {url}{_by_proxy(url)} ({error})")


def _by_proxy(url: str) -> str:
    """The way to the server, if it leads through a proxy of the environment: then the proxy may be what is away."""
    from urllib.request import getproxies, proxy_bypass  # of a failure alone

    parts = urlsplit(url)
    host, proxies = parts.hostname or "", getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None or _is_local(host) or proxy_bypass(host):
        return ""
    at = urlsplit(proxy)
    return f" by the proxy {at.hostname or proxy}{'' if at.port is None else f':{at.port}'} of the environment"


def _unable(response: httpx2.Response) -> Unreachable:
    """The detail of a server that cannot serve."""
    detail, problem = _refusal(response)
    return Unreachable(detail, status=response.status_code, request_id=problem.get("request_id"))


def _not_there(response: httpx2.Response) -> Pending:
    """The detail of a request that is under way."""
    return Pending(
        "this is accepted, and not stored yet (pending); ask again a little later", status=response.status_code
    )


def _refusal(response: httpx2.Response) -> tuple[str, Json]:
    """The server's own words, or ours where something in between answered."""
    try:
        found = json.loads(response.content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        detail = f"the server answered {response.status_code} {response.reason_phrase}".rstrip()
        return detail, {"detail": detail, "status": response.status_code}
    problem = cast("Json", found)
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered {response.status_code}")
    return detail, problem


def retry_after_seconds(response: httpx2.Response) -> float | None:
    """The time that the server asks to wait: seconds, or the time of a proxy's date (RFC 9110); None: it asks for
    none."""
    text: str = response.headers.get("Retry-After", "")
    try:
        seconds = float(text)
    except ValueError:
        from email.utils import parsedate_to_datetime  # nearly no program needs it

        try:
            until = parsedate_to_datetime(text)
            # Counted from the date of the answer: the clocks of two machines may differ.
            seconds = (until - parsedate_to_datetime(response.headers.get("Date", ""))).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds == seconds else None  # no NaN
