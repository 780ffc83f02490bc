"""The documents that an issuer publishes: its metadata and its keys, read again before they are old.

    token names a key ──► known? ──► it
                            └─ no ──► the set is read again, at most once in `REFETCH_SECONDS` ──► it, or none
    an hour, ten minutes ──► metadata, key set are read again; while the issuer is away, what was read goes on to count

Invariant: tokens with made-up names of keys cause no flood of requests. A key that the issuer removed counts for
`KEYS_SECONDS` at most after the issuer answers again, and for `KEPT_SECONDS` in any case.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import jwt
import structlog
from jwt.exceptions import PyJWTError

from tickwise.adapters.oidc.requests import IssuerRequests
from tickwise.domain.errors import ProviderUnavailable
from tickwise.ports.clock import Clock

METADATA_SECONDS: Final = 3_600.0
KEYS_SECONDS: Final = 600.0
KEPT_SECONDS: Final = 86_400.0
"""The time for which documents count while the issuer is away."""
REFETCH_SECONDS: Final = 10.0
"""An unknown key has the set read again, at most so often. Providers publish a key before they sign with it."""
AGAIN_SECONDS: Final = 2.0
"""After a failure, the issuer is asked again no sooner."""
MAX_KEYS: Final = 100
RSA_BITS_LEAST: Final = 2_048

ALGORITHMS: Final[Mapping[str, str]] = MappingProxyType({
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
})  # fmt: skip
"""The algorithms that are taken, each with the type of its keys: public keys alone. Neither `none` nor HS256."""

logger = structlog.get_logger("tickwise.oidc")


class PublishedKey(NamedTuple):
    """A key of an issuer, as it is published (RFC 7517)."""

    key_id: str | None
    fields: Mapping[str, Any]

    def fits(self, algorithm: str) -> bool:
        """Check whether tokens with this algorithm may be signed with it."""
        return bool(self.fields["kty"] == ALGORITHMS[algorithm] and self.fields.get("alg", algorithm) == algorithm)

    def usable(self, algorithm: str) -> jwt.PyJWK | None:
        """The key for this algorithm; None: it is no key for it, or too weak."""
        try:
            key = jwt.PyJWK(dict(self.fields), algorithm=algorithm)
        except (PyJWTError, ValueError, TypeError, KeyError):
            return None
        bits = getattr(key.key, "key_size", RSA_BITS_LEAST)
        return None if self.fields["kty"] == "RSA" and bits < RSA_BITS_LEAST else key


class Issuer:
    """One issuer, with what it publishes."""

    def __init__(self, name: str, requests: IssuerRequests, clock: Clock) -> None:
        """`name`: the issuer exactly as its tokens have it in `iss`; its address."""
        self.name = name
        self.requests = requests
        self.clock = clock
        self.away: str | None = None
        """The reason for which it gave no document the last time."""
        self._metadata: Mapping[str, Any] = {}
        self._keys: tuple[PublishedKey, ...] = ()
        self._metadata_at = self._keys_at = self._tried_at = self._failed_at = -math.inf
        self._reading = asyncio.Lock()

    async def metadata(self) -> Mapping[str, Any]:
        """Its metadata (OpenID Connect Discovery 1.0). Raises `ProviderUnavailable`."""
        if self._age(self._metadata_at) > METADATA_SECONDS:
            async with self._reading:
                if self._age(self._metadata_at) > METADATA_SECONDS:
                    await self._read_metadata()
        return self._metadata

    async def keys(self, key_id: str | None, algorithm: str) -> Sequence[jwt.PyJWK]:
        """The keys with which a token could be signed that names this one. Raises `ProviderUnavailable`."""
        if self._age(self._keys_at) > KEYS_SECONDS or (
            not self._fitting(key_id, algorithm) and self._age(self._tried_at) > REFETCH_SECONDS
        ):
            await self._read_keys()
        found = (each.usable(algorithm) for each in self._fitting(key_id, algorithm))
        return [key for key in found if key is not None]

    async def endpoint(self, name: str) -> str | None:
        """An address among its metadata; None: it has none. Raises `ProviderUnavailable`."""
        url = (await self.metadata()).get(name)
        if url is None:
            return None
        scheme = urlsplit(url).scheme if isinstance(url, str) else ""
        # Its documents must not lead from TLS to clear text.
        if scheme != "https" and not (scheme == "http" and self.name.startswith("http://")):
            raise ProviderUnavailable(f"the provider's {name} is no address with https")
        return str(url)

    async def look(self) -> tuple[Mapping[str, Any], int, float | None]:
        """Read everything now: its metadata, the number of its keys for signatures, its clock minus ours. Raises
        `ProviderUnavailable`."""
        async with self._reading:
            date, asked_at = await self._fetch_metadata(), self.clock.now()
        await self._read_keys(anew=True)
        seconds = None if date is None else date - math.floor(asked_at)
        return self._metadata, len(self._keys), seconds

    def _fitting(self, key_id: str | None, algorithm: str) -> Sequence[PublishedKey]:
        return [each for each in self._keys if (key_id is None or each.key_id == key_id) and each.fits(algorithm)]

    def _age(self, at: float) -> float:
        return self.clock.monotonic() - at

    async def _read_metadata(self) -> None:
        if self._age(self._failed_at) < AGAIN_SECONDS and self.away is not None:
            self._go_on(self._metadata_at, self.away)
            return
        try:
            await self._fetch_metadata()
        except ProviderUnavailable as error:
            self._failed(error)
            self._go_on(self._metadata_at, error.detail)

    async def _fetch_metadata(self) -> float | None:
        """Read it; the time that its server tells."""
        url = f"{self.name.rstrip('/')}/.well-known/openid-configuration"
        answer = await self.requests.get(url)
        said = answer.fields.get("issuer")
        if said != self.name:
            raise ProviderUnavailable(
                f"{url} is of the issuer {str(said)[:200]!r}, and not of {self.name!r}: name the issuer exactly as it "
                "names itself"
            )
        self._metadata, self._metadata_at = answer.fields, self.clock.monotonic()
        self._answered()
        return answer.date

    async def _read_keys(self, *, anew: bool = False) -> None:
        url = await self.endpoint("jwks_uri")
        if url is None:
            raise ProviderUnavailable("the provider's metadata has no jwks_uri")
        asked_at = self.clock.monotonic()
        async with self._reading:
            is_read = self._tried_at >= asked_at  # by a call that had the turn before
            if is_read and not anew:
                return
            self._tried_at = self.clock.monotonic()
            try:
                found = (await self.requests.get(url)).fields.get("keys")
            except ProviderUnavailable as error:
                self._failed(error)
                self._go_on(self._keys_at, error.detail)
                return
            before = {each.key_id for each in self._keys}
            self._keys, self._keys_at = _signing(found), self.clock.monotonic()
            self._answered()
        names = {each.key_id for each in self._keys}
        if before and names != before:
            logger.info("oidc_keys_rotated", issuer=self.name, keys=len(names))

    def _go_on(self, read_at: float, why: str) -> None:
        """Go on with what was read. Raises `ProviderUnavailable` if that is too old, or nothing."""
        if self._age(read_at) > KEPT_SECONDS:
            raise ProviderUnavailable(f"the provider {self.name} is away: {why}", retry_after_seconds=AGAIN_SECONDS)

    def _failed(self, error: ProviderUnavailable) -> None:
        self._failed_at = self.clock.monotonic()
        if self.away is None:
            logger.warning("oidc_provider_away", issuer=self.name, reason=error.detail)
        self.away = error.detail

    def _answered(self) -> None:
        if self.away is not None:
            logger.info("oidc_provider_back", issuer=self.name)
        self.away = None


def _signing(found: Any) -> tuple[PublishedKey, ...]:
    """The keys of a set that could sign."""
    if not isinstance(found, list):
        raise ProviderUnavailable("the provider's key set is none")
    types = set(ALGORITHMS.values())
    keys = [
        PublishedKey(each.get("kid"), each)
        for each in found[:MAX_KEYS]
        if isinstance(each, dict) and each.get("kty") in types and each.get("use", "sig") == "sig"
    ]
    return tuple(keys)
