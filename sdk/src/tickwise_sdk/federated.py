"""Access tokens for a program without a key: the token of its pipeline or cluster is exchanged for one of the server.

    TICKWISE_FEDERATED_TOKEN_FILE ──read──┐
    ACTIONS_ID_TOKEN_REQUEST_URL ──GET────┴─► token of the issuer ──POST /auth/token──► access token, until shortly
    before
                                                                                         its end; then anew

The file is read at each exchange: Kubernetes and others replace it before it ends. GitHub gives a new token at each
request. The server must have a federation that takes such tokens (`tickwise federations add`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tickwise_sdk.errors import ClientError, ProblemError, Unreachable
from tickwise_sdk.exchange import API, ServerAddress, ServerTrust, check
from tickwise_sdk.http_library import httpx2

TOKEN_FILE: Final = "TICKWISE_FEDERATED_TOKEN_FILE"
AUDIENCE: Final = "TICKWISE_FEDERATED_AUDIENCE"
FEDERATION: Final = "TICKWISE_FEDERATION"
GITHUB_URL: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"
GITHUB_TOKEN: Final = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EARLY_SECONDS: Final = 30.0
"""An access token is renewed so long before its end: a request may be on its way for that time."""
TIMEOUT_SECONDS: Final = 30.0
TOKEN_CHARACTERS_MAX: Final = 16_384


def has_federated_token(environ: Mapping[str, str]) -> bool:
    """Check whether these surroundings give a token that can be exchanged."""
    return bool(environ.get(TOKEN_FILE) or (environ.get(GITHUB_URL) and environ.get(GITHUB_TOKEN)))


class FederatedKey:
    """The access token of the moment, for `Client(url, key=FederatedKey(url, os.environ))`.

    It may be called by several threads. A call within a token's time sends nothing."""

    def __init__(self, url: str, environ: Mapping[str, str], *, trust: ServerTrust | None = None) -> None:
        """`url` is the server's; `environ` names the file or GitHub's address."""
        self._url = url.rstrip("/").removesuffix(API)
        self._environ = dict(environ)
        self._trust = trust or ServerTrust()
        self._lock = threading.Lock()
        self._token = ""
        self._until = float("-inf")
        """On the monotonic clock."""

    def __call__(self) -> str:
        """A token that works for a while. Raises `ClientError`: `ProblemError` if the server takes no such token,
        `Unreachable` if it or GitHub does not answer."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._renew()
            return self._token

    def _renew(self) -> None:
        asked_at = time.monotonic()
        body = {"grant_type": GRANT, "assertion": self._assertion()}
        named = self._environ.get(FEDERATION)
        if named:
            body["federation"] = named
        server = ServerAddress(
            self._url, None, namespace=None, timeout_seconds=TIMEOUT_SECONDS, patience_seconds=0.0, trust=self._trust,
            waits_to_connect=False,
        )  # fmt: skip
        try:
            with closing(httpx2.Client(**server.http_options)) as http:
                answer = http.post(f"{self._url}{API}/auth/token", json=body, extensions=server.extensions)
        except httpx2.HTTPError as error:
            raise Unreachable(f"{self._url} cannot be reached: {error}") from None
        check(answer)
        tokens: dict[str, Any] = answer.json()
        lifetime = float(tokens["expires_in"])
        self._token = str(tokens["access_token"])
        # Of a very short one, half of its time is used.
        self._until = asked_at + max(lifetime - EARLY_SECONDS, lifetime / 2)

    def _assertion(self) -> str:
        file = self._environ.get(TOKEN_FILE)
        return self._from_file(file) if file else self._from_github()

    @staticmethod
    def _from_file(file: str) -> str:
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise ClientError(f"{TOKEN_FILE} names {file}, which cannot be read: {error}") from None
        if not token or len(token) > TOKEN_CHARACTERS_MAX:
            raise ClientError(f"{TOKEN_FILE} names {file}, which holds no token")
        return token

    def _from_github(self) -> str:
        url, secret = self._environ[GITHUB_URL], self._environ[GITHUB_TOKEN]
        query = urlencode({"audience": self._environ.get(AUDIENCE) or self._url})
        address = f"{url}{'&' if urlsplit(url).query else '?'}{query}"
        try:
            with closing(httpx2.Client(timeout=TIMEOUT_SECONDS)) as http:
                answer = http.get(address, headers={"Authorization": f"Bearer {secret}"})
        except httpx2.HTTPError as error:
            raise Unreachable(f"the token service of the workflow cannot be reached: {error}") from None
        try:
            token = answer.json()["value"] if answer.is_success else None
        except (ValueError, KeyError, TypeError):
            token = None
        if not isinstance(token, str):
            raise ProblemError(
                answer.status_code,
                {
                    "code": "github_token_refused",
                    "detail": f"the token service of the workflow answered {answer.status_code}; the job needs "
                    "`permissions: id-token: write`",
                },
            )
        return token
