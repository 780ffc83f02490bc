"""Signs identity tokens, and makes, seals and rotates the keys that sign them.

    store ──sealed keys──► Sealer.open ──► RSA, Ed25519 ──► JWT of one attempt
      ▲                                         │
      └── add: published now, signs later ◄─────┘ public half: a JWK, named by its thumbprint

Executors sign by themselves (docs/decisions/0088): no other process has to be there when a task starts. A private key
is in the memory of a process that signs, and nowhere in the clear outside of it.

Invariants: a key is published for `PUBLISHED_AHEAD_SECONDS` before it signs, unless it is the first or an emergency; it
stays published until its last token is over; a token's life is at most the setting, and that at most one hour.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

from tickwise.domain.accounts.identity_tokens import (
    TOKEN_SECONDS,
    TokenAlgorithm,
    TokenFacts,
    executor_subject,
    namespace_refusal,
    subject_of,
)
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Bug, Misconfigured, TickwiseError, Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.identity.tokens import IdentityKey, IdentityKeyStore, SignedToken, TokenFault
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.sealing import key_id_of as sealing_key_of

PUBLISHED_AHEAD_SECONDS: Final = 900.0
"""Before another key signs. Those who check tokens keep our keys for as long as the answer with them says."""
SKEW_SECONDS: Final = 300.0
"""The greatest difference between clocks that is thought of."""
PUBLISHED_SECONDS: Final = TOKEN_SECONDS + SKEW_SECONDS
"""The time for which a key stays published after it signed last. It is longer than the longest life of a token."""
RELOAD_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 2.0
"""Between two reads of the keys while none is there that signs."""
RSA_BITS: Final = 2_048
RSA_EXPONENT: Final = 65_537
TRIES: Final = 5
"""Processes that make a key at once; each but one finds that of another."""

PrivateKey = RSAPrivateKey | Ed25519PrivateKey
PublicKey = RSAPublicKey | Ed25519PublicKey


class IssuerSettings(NamedTuple):
    """The settings of identity tokens."""

    issuer: str | None
    """The installation's public address, without a slash at its end; None: there are no tokens."""
    seconds: float = TOKEN_SECONDS
    """The life of a token."""
    key_days: float = 90.0
    """A key is followed by another one after so many days."""
    namespaces: tuple[str, ...] = ()
    """Those that have tokens; empty: all."""


class JwtIssuer:
    """`TokenIssuer` of the port."""

    def __init__(
        self, settings: IssuerSettings, *, store: IdentityKeyStore, sealer: EnvelopeSealer, clock: Clock
    ) -> None:
        self._settings = settings
        self._store = store
        self._sealer = sealer
        self._clock = clock
        self._loaded: Sequence[IdentityKey] = ()
        self._loaded_at = float("-inf")
        self._loading = asyncio.Lock()
        self._private: dict[str, PrivateKey] = {}

    @property
    def issuer(self) -> str | None:
        """See the port."""
        return self._settings.issuer

    def refusal(self, namespace: str) -> str | None:
        """See the port."""
        if self._settings.issuer is None:
            return (
                "identity tokens need the address under which others reach this installation: set "
                "TICKWISE_IDENTITY_ISSUER (or TICKWISE_PUBLIC_URL) for API and executors, such as "
                "https://tickwise.example.com"
            )
        return namespace_refusal(namespace, self._settings.namespaces)

    # ------------------------------------------------------------------------------------------ keys

    async def make_ready(self, algorithm: TokenAlgorithm) -> None:
        """See the port."""
        newest = _newest(await self._keys(RELOAD_SECONDS), algorithm)
        if newest is not None and not self._is_old(newest):
            return
        await self._add(algorithm, signs_in=0.0 if newest is None else PUBLISHED_AHEAD_SECONDS, newest=newest)

    async def rotate(self, algorithm: TokenAlgorithm, *, at_once: bool, audit: AuditEntry | None = None) -> IdentityKey:
        """See the port."""
        for _ in range(TRIES):
            newest = _newest(await self._keys(0.0), algorithm)
            signs_in = 0.0 if at_once or newest is None else PUBLISHED_AHEAD_SECONDS
            made = await self._add(algorithm, signs_in=signs_in, newest=newest, forgets=at_once, audit=audit)
            if made is not None:
                return made
        raise Unavailable("too many keys are made at the same time; send the same again")

    async def _add(
        self,
        algorithm: TokenAlgorithm,
        *,
        signs_in: float,
        newest: IdentityKey | None,
        forgets: bool = False,
        audit: AuditEntry | None = None,
    ) -> IdentityKey | None:
        """The key that was made; None: another process made one meanwhile."""
        private = await asyncio.to_thread(_new_key, algorithm)
        public = private.public_key()
        key_id = key_id_of(public)
        secret = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        sealed = await self._sealer.seal(secret, _context(key_id))
        key = IdentityKey(
            key_id, algorithm, public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), sealed
        )
        added = await self._store.add(
            key,
            newest=None if newest is None else newest.key_id,
            signs_in_seconds=signs_in,
            published_seconds=0.0 if forgets else PUBLISHED_SECONDS,
            audit=audit if audit is None else audit._replace(target=key_id),
        )
        found = await self._keys(0.0)
        if not added:
            return None
        return next(each for each in found if each.key_id == key_id)

    async def keys(self) -> Sequence[IdentityKey]:
        """See the port."""
        found, since = await self._keys(RETRY_SECONDS), self._clock.now() - PUBLISHED_SECONDS
        return [each for each in found if not _signed_last_before(each, found, since)]

    async def key_set(self) -> Mapping[str, Any]:
        """See the port."""
        for algorithm in sorted({each.algorithm for each in await self.keys()}):
            await self._follow(TokenAlgorithm(algorithm))
        return {"keys": [jwk_of(each) for each in await self.keys()]}

    async def _follow(self, algorithm: TokenAlgorithm) -> None:
        """Make the next key if the newest is old. The keys are shown all the same if this process cannot."""
        try:
            await self.make_ready(algorithm)
        except (Misconfigured, Unavailable):
            return

    def _is_old(self, key: IdentityKey) -> bool:
        """Check whether another key has to follow: by age, or because the installation's key is another one now, and
        the one that sealed this key is about to be taken out of the settings."""
        newest = self._sealer.newest
        if newest is not None and newest != sealing_key_of(key.sealed):
            return True
        return self._clock.now() - key.signs_at > self._settings.key_days * 86_400.0

    async def _keys(self, fresh_seconds: float) -> Sequence[IdentityKey]:
        """The keys, read at most so long ago. Raises `StoreUnavailable`."""
        async with self._loading:
            if self._clock.monotonic() - self._loaded_at >= fresh_seconds:
                self._loaded = await self._store.find()
                self._loaded_at = self._clock.monotonic()
                known = {each.key_id for each in self._loaded}
                self._private = {name: key for name, key in self._private.items() if name in known}
            return self._loaded

    # ------------------------------------------------------------------------------------------ tokens

    async def sign(self, facts: TokenFacts) -> SignedToken | TokenFault:
        """See the port."""
        wish = facts.wish
        claims = {
            "sub": subject_of(facts),
            "aud": wish.audience[0] if len(wish.audience) == 1 else list(wish.audience),
            "job_id": str(facts.job_id),
            "run_id": str(facts.run_id),
            "attempt": facts.attempt,
        }
        if wish.job_key is not None:
            claims["job_key"] = wish.job_key
        return await self._sign(facts.namespace, claims, wish.algorithm)

    async def sign_for_namespace(self, namespace: str, audience: str) -> SignedToken | TokenFault:
        """See the port."""
        claims = {"sub": executor_subject(namespace), "aud": audience}
        return await self._sign(namespace, claims, TokenAlgorithm.RS256)

    async def _sign(
        self, namespace: str, claims: Mapping[str, Any], algorithm: TokenAlgorithm
    ) -> SignedToken | TokenFault:
        refusal = self.refusal(namespace)
        if refusal is not None:
            return TokenFault(refusal, is_passing=False)
        try:
            key = await self._signing(algorithm)
            if key is None:
                return TokenFault(
                    f"there is no key to sign with {algorithm}: an API makes one when a job with an identity token is "
                    "stored, and `tickwise identity-keys rotate` does",
                    is_passing=True,
                )
            return await self._signed({**claims, "namespace": namespace}, key)
        except TickwiseError as error:
            return TokenFault(f"the identity token cannot be signed: {error.detail}", isinstance(error, Unavailable))

    async def _signing(self, algorithm: TokenAlgorithm) -> IdentityKey | None:
        """The key that signs now. Raises `StoreUnavailable` if none was read yet."""
        try:
            found = await self._keys(RELOAD_SECONDS)
        except Unavailable:
            found = self._loaded  # published keys sign on while the store is away
            if not found:
                raise
        key = self._due(found, algorithm)
        return key if key is not None else self._due(await self._keys(RETRY_SECONDS), algorithm)

    def _due(self, keys: Sequence[IdentityKey], algorithm: TokenAlgorithm) -> IdentityKey | None:
        """The newest that may sign. The first one of its algorithm may at once, however clocks differ."""
        same = [each for each in keys if each.algorithm == algorithm]
        now = self._clock.now()
        return next((each for each in reversed(same) if each.signs_at <= now), same[0] if same else None)

    async def _signed(self, claims: Mapping[str, Any], key: IdentityKey) -> SignedToken:
        private = await self._opened(key)
        now = int(self._clock.now())
        ends_at = now + int(self._settings.seconds)
        whole = {
            "iss": self._settings.issuer,
            **claims,
            "iat": now,
            "nbf": now,
            "exp": ends_at,
            "jti": self._clock.random_bytes(16).hex(),
        }
        # A signature of RSA takes a millisecond: not on the event loop, which starts others meanwhile.
        text = await asyncio.to_thread(jwt.encode, whole, private, algorithm=key.algorithm, headers={"kid": key.key_id})
        return SignedToken(text, float(ends_at))

    async def _opened(self, key: IdentityKey) -> PrivateKey:
        found = self._private.get(key.key_id)
        if found is None:
            opened = await self._sealer.open(key.sealed, _context(key.key_id))
            private = load_der_private_key(opened, None)
            if not isinstance(private, RSAPrivateKey | Ed25519PrivateKey):
                raise Bug(f"the identity key {key.key_id} is of another kind")
            found = self._private[key.key_id] = private
        return found


def key_id_of(public: PublicKey) -> str:
    """The JWK thumbprint of a public key (RFC 7638): the same name wherever it is read."""
    members = _members(public)
    return _text(hashlib.sha256(json.dumps(members, sort_keys=True, separators=(",", ":")).encode()).digest())


def jwk_of(key: IdentityKey) -> Mapping[str, str]:
    """The public half of a key as others read it (RFC 7517)."""
    public = load_der_public_key(key.public)
    if not isinstance(public, RSAPublicKey | Ed25519PublicKey):
        raise Bug(f"the identity key {key.key_id} is of another kind")
    return {**_members(public), "alg": key.algorithm, "use": "sig", "kid": key.key_id}


def _members(public: PublicKey) -> dict[str, str]:
    """The members of its thumbprint."""
    if isinstance(public, RSAPublicKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
    return {"kty": "OKP", "crv": "Ed25519", "x": _text(public.public_bytes(Encoding.Raw, PublicFormat.Raw))}


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _context(key_id: str) -> str:
    """The use that a sealed key is bound to."""
    return f"identity-key:{key_id}"


def _new_key(algorithm: TokenAlgorithm) -> PrivateKey:
    if algorithm is TokenAlgorithm.EDDSA:
        return Ed25519PrivateKey.generate()
    return generate_private_key(RSA_EXPONENT, RSA_BITS)


def _newest(keys: Sequence[IdentityKey], algorithm: TokenAlgorithm) -> IdentityKey | None:
    return next((each for each in reversed(keys) if each.algorithm == algorithm), None)


def _signed_last_before(key: IdentityKey, keys: Sequence[IdentityKey], since: float) -> bool:
    """Check whether a later key of its algorithm began to sign before `since`."""
    return any(each.algorithm == key.algorithm and key.signs_at < each.signs_at < since for each in keys)
