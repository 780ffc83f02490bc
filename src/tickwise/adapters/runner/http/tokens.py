"""Tokens of OAuth servers for http tasks, by client credentials (RFC 6749, section 4.4; its rules by oauthlib).

    first attempt ──► one request for a token ──► remembered until shortly before its end
    others        ──► wait for that request, or get the remembered one
    401           ──► forgotten, and asked for once more

They are of one process and never written down. Invariant: a namespace gets no token of another one, and the secret
goes to the address of tokens alone, which is judged as every address of a task, and from which no redirect is followed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

import msgspec

from tickwise.adapters.outgoing.access import AddressRefused, HttpAccess
from tickwise.adapters.outgoing.exchange import NoAnswer, Request
from tickwise.adapters.runner.calls.credentials import BASIC
from tickwise.domain.hosts import host_of
from tickwise.ports.clock import Clock

if TYPE_CHECKING:
    from tickwise.adapters.outgoing.client import HttpClient

REQUEST_SECONDS: Final = 30.0
"""Of the whole request for a token."""
ANSWER_BYTES: Final = 64 << 10
EARLY_SECONDS: Final = 60.0
EARLY_SHARE: Final = 0.1
"""A token is replaced so long before its end, or this share of its life if that is shorter."""
UNTOLD_SECONDS: Final = 60.0
"""The life of a token whose server says none: it may have ended when another server's would."""
LIFE_SECONDS_MAX: Final = 86_400.0
MAX_TOKENS: Final = 1_000
SAID_CHARACTERS: Final = 200

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16000}")
_REFUSED: Final = (400, 401, 403)


class TokenFailure(Exception):
    """There is no token. Its text says which request failed and why, without a secret."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        """`is_final`: the same request would fail again."""
        super().__init__(text)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class TokenAsk:
    """The token that an attempt needs."""

    namespace: str
    oauth: Mapping[str, str]
    """The checked field of the task."""
    client: HttpClient
    """The connections of the namespace."""
    tls: SSLContext | None
    """For the address of tokens."""

    @property
    def identity(self) -> bytes:
        """Equal for all who may share a token."""
        return hashlib.sha256(msgspec.json.encode([self.namespace, sorted(self.oauth.items())])).digest()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    until: float
    """On the monotonic clock."""


class Tokens:
    """The tokens of one runner."""

    def __init__(self, access: HttpAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._known: OrderedDict[bytes, _Token] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[str]] = {}

    async def token(self, ask: TokenAsk) -> str:
        """A token that is valid for now. Raises `TokenFailure`."""
        identity = ask.identity
        known = self._known.get(identity)
        if known is not None and self._clock.monotonic() < known.until:
            self._known.move_to_end(identity)
            return known.text
        asking = self._asking.get(identity)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._fetched(identity, ask))
            self._asking[identity] = asking
            asking.add_done_callback(lambda done: self._asked(identity, done))
        # Shielded: an attempt that is stopped does not take the token from the others.
        return await asyncio.shield(asking)

    def forget(self, ask: TokenAsk, token: str) -> None:
        """Drop a token that a server did not accept, unless another one is remembered by now."""
        known = self._known.get(ask.identity)
        if known is not None and known.text == token:
            del self._known[ask.identity]

    async def close(self) -> None:
        """End every request."""
        asking = list(self._asking.values())
        for each in asking:
            each.cancel()
        if asking:
            await asyncio.wait(asking)

    def _asked(self, identity: bytes, done: asyncio.Task[str]) -> None:
        self._asking.pop(identity, None)
        if not done.cancelled():
            done.exception()  # seen, also if all who waited are gone

    async def _fetched(self, identity: bytes, ask: TokenAsk) -> str:
        host = host_of(ask.oauth["token_url"])
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                status, body = await self._send(ask)
        except TimeoutError:
            raise TokenFailure(f"the request for a token: {host} did not answer within {REQUEST_SECONDS:g} s") from None
        except AddressRefused as error:
            raise TokenFailure(f"the request for a token: {error}", is_final=True) from None
        except NoAnswer as error:
            raise TokenFailure(f"the request for a token: no answer of {host}: {error}") from None
        token, life = _read(host, status, body)
        early = min(EARLY_SECONDS, life * EARLY_SHARE)
        self._known[identity] = _Token(token, began + life - early)
        while len(self._known) > MAX_TOKENS:
            self._known.popitem(last=False)
        return token

    async def _send(self, ask: TokenAsk) -> tuple[int, bytes]:
        kept = bytearray()

        async def take(_status: int, piece: bytes) -> None:
            kept.extend(piece)
            if len(kept) > ANSWER_BYTES:
                raise TokenFailure(
                    f"the request for a token: {host_of(ask.oauth['token_url'])} answered with more than "
                    f"{ANSWER_BYTES} bytes"
                )

        url = self._access.vet(ask.oauth["token_url"])
        headers, body = _form(ask.oauth)
        status, _ = await ask.client.send(Request("POST", url, headers, body, tls=ask.tls), take)
        return status, bytes(kept)


def _form(oauth: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """The headers and the body of the request for a token."""
    from oauthlib.oauth2 import BackendApplicationClient

    identifier, secret = oauth["client_id"], oauth["client_secret"]
    more = {"audience": oauth["audience"]} if "audience" in oauth else {}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    is_basic = oauth["authentication"] == BASIC
    if is_basic:  # RFC 6749, section 2.3.1: both are urlencoded first
        pair = f"{quote_plus(identifier)}:{quote_plus(secret)}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    else:
        more["client_secret"] = secret
    body = BackendApplicationClient(identifier).prepare_request_body(
        scope=oauth.get("scope"), include_client_id=not is_basic, **more
    )
    return headers, str(body).encode()


def _read(host: str, status: int, body: bytes) -> tuple[str, float]:
    """The token and its life in seconds. Raises `TokenFailure`."""
    from oauthlib.oauth2 import BackendApplicationClient, OAuth2Error

    told = f"the request for a token: {host} answered {status}"
    if 300 <= status < 400:
        raise TokenFailure(
            f"{told}, a redirect, which is not followed: name the address that gives tokens", is_final=True
        )
    try:
        said: dict[str, Any] = BackendApplicationClient("").parse_request_body_response(body.decode())
        token, kind, life = said["access_token"], said.get("token_type", "Bearer"), said.get("expires_in")
    except OAuth2Error as error:
        if status == 200 or status in _REFUSED:
            why = ": ".join(_plain(part) for part in (error.error, error.description) if part)
            raise TokenFailure(f"{told}: {why}", is_final=status in _REFUSED) from None
        raise TokenFailure(told) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise TokenFailure(f"{told}, and the answer cannot be read as one of OAuth 2") from None
    if status != 200:
        raise TokenFailure(told)
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise TokenFailure(f"{told}, with a token that no header can hold")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenFailure(f"{told}, with a token of another type than Bearer", is_final=True)
    if isinstance(life, bool) or not isinstance(life, int | float):
        return token, UNTOLD_SECONDS
    return token, min(max(float(life), 0.0), LIFE_SECONDS_MAX)


def _plain(text: object) -> str:
    """A text of a server on one line, shortened."""
    return " ".join(str(text)[:SAID_CHARACTERS].split())
