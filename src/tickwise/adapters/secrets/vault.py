"""Secrets of HashiCorp Vault or OpenBao: the KV store, version 2.

    secrets_vault_paths = billing=secret/billing
    `secret:vault:app/db#password` of billing ──► GET /v1/secret/data/billing/app/db ──► data.data.password

    token      a file that Vault Agent or an operator keeps ──► X-Vault-Token
    approle    role id and secret id ──► /v1/auth/approle/login ──► a token with a lease
    identity   an identity token of the namespace ──► /v1/auth/jwt/login ──► a token with a lease, of that namespace

With `identity` nothing is stored on the executor, and Vault itself holds each namespace to its own policy. With the
other two, the paths of the settings are what keeps namespaces apart.

Invariant: every question of a namespace is about a path below its own, written out of checked parts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickwise.adapters.secrets.asking import BUSY, Away, KeptAnswers, SecretServer
from tickwise.adapters.secrets.bindings import EACH, check_apart, read_bindings
from tickwise.adapters.secrets.paths import SecretPath, read_path
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.identity.tokens import TokenFault, TokenIssuer
from tickwise.ports.secrets import SecretFault, WantedSecret

SETTING: Final = "secrets_vault_paths"
EARLY_SHARE: Final = 0.2
"""Of its lease: a token is replaced before it ends."""
UNLEASED_SECONDS: Final = 3_600.0
"""A token without a lease, such as a root token of a development server, is asked for again after so long."""


class VaultSettings(NamedTuple):
    """The settings of this provider."""

    url: str
    paths: tuple[str, ...]
    auth: str = "token"
    mount: str | None = None
    role: str | None = None
    audience: str = "vault"
    token_file: Path | None = None
    secret_id_file: Path | None = None
    vault_namespace: str | None = None
    authority: Path | None = None
    seconds: float = 5.0
    kept_seconds: float = 15.0


class _Session(NamedTuple):
    """A token of Vault."""

    token: str
    ends_at: float
    """On the monotonic clock; then it is asked for again."""


class VaultSecrets:
    """`SecretProvider` of the port."""

    name = "vault"

    def __init__(self, settings: VaultSettings, clock: Clock, issuer: TokenIssuer | None = None) -> None:
        """`issuer` signs the identity tokens of `identity`. Raises `Misconfigured`."""
        self._settings = settings
        self._clock = clock
        self._issuer = issuer
        self._paths = _checked_paths(settings.paths)
        _check_auth(settings, issuer)
        self._server = SecretServer("Vault", settings.url, seconds=settings.seconds, authority=settings.authority)
        self._kept: KeptAnswers[tuple[str, str], Mapping[str, Any]] = KeptAnswers(clock, settings.kept_seconds)
        self._sessions: dict[str, _Session] = {}
        self._signing_in: dict[str, asyncio.Lock] = {}

    async def values(self, wanted: Sequence[WantedSecret]) -> Mapping[WantedSecret, bytes | SecretFault]:
        """See the port."""
        names = list(dict.fromkeys(wanted))
        return dict(zip(names, await asyncio.gather(*map(self._value, names)), strict=True))

    async def _value(self, wanted: WantedSecret) -> bytes | SecretFault:
        path = read_path(wanted.name)
        if path is None:
            return SecretFault("write the name of a secret in Vault as PATH#FIELD: app/db#password", is_passing=False)
        prefix = self._prefix_of(wanted.namespace)
        if prefix is None:
            return SecretFault(
                f"the namespace {wanted.namespace!r} has no path in Vault: {SETTING} binds one to it", is_passing=False
            )
        mount, *below = prefix
        place = f"/v1/{mount}/data/{'/'.join((*below, *path.parts))}"
        found = await self._kept.of((wanted.namespace, place), lambda: self._asked(wanted.namespace, place))
        return found if isinstance(found, SecretFault) else _picked(found, path)

    def _prefix_of(self, namespace: str) -> tuple[str, ...] | None:
        """The mount and the path of a namespace."""
        found = self._paths.get(namespace)
        if found is not None:
            return found
        each, own = self._paths.get(EACH), read_path(namespace, parts_most=1)
        return None if each is None or own is None else (*each, namespace)

    # ------------------------------------------------------------------------------------------ questions

    async def _asked(self, namespace: str, place: str) -> Mapping[str, Any] | SecretFault:
        """The fields of an entry."""
        for is_last in (False, True):
            token = await self._token(namespace)
            if isinstance(token, SecretFault):
                return token
            try:
                status, body = await self._server.ask("GET", place, self._headers(token))
            except Away as away:
                return SecretFault(str(away), is_passing=True)
            if status != 403 or is_last:
                break
            self._sessions.pop(self._session_name(namespace), None)  # revoked, or over before its time
        return _fields(status, body, place)

    def _headers(self, token: str | None = None) -> dict[str, str]:
        headers = {"X-Vault-Request": "true"}
        if token is not None:
            headers["X-Vault-Token"] = token
        if self._settings.vault_namespace is not None:
            headers["X-Vault-Namespace"] = self._settings.vault_namespace
        return headers

    # ------------------------------------------------------------------------------------------ sign-in

    def _session_name(self, namespace: str) -> str:
        """With identity tokens each namespace has a session of its own; else there is one."""
        return namespace if self._settings.auth == "identity" else ""

    async def _token(self, namespace: str) -> str | SecretFault:
        name = self._session_name(namespace)
        async with self._signing_in.setdefault(name, asyncio.Lock()):
            session = self._sessions.get(name)
            if session is None or session.ends_at <= self._clock.monotonic():
                found = await self._signed_in(namespace)
                if isinstance(found, SecretFault):
                    return found
                session = self._sessions[name] = found
            return session.token

    async def _signed_in(self, namespace: str) -> _Session | SecretFault:
        settings, began = self._settings, self._clock.monotonic()
        if settings.auth == "token":
            token = await _file_text(settings.token_file, "the file with the token for Vault")
            # Read again for each sign-in: Vault Agent replaces it.
            return token if isinstance(token, SecretFault) else _Session(token, began + settings.kept_seconds)
        if settings.auth == "approle":
            secret_id = await _file_text(settings.secret_id_file, "the file with the secret id for Vault")
            if isinstance(secret_id, SecretFault):
                return secret_id
            body, mount = {"role_id": settings.role, "secret_id": secret_id}, settings.mount or "approle"
        else:
            assert self._issuer is not None
            signed = await self._issuer.sign_for_namespace(namespace, settings.audience)
            if isinstance(signed, TokenFault):
                return SecretFault(f"no sign-in to Vault: {signed.detail}", signed.is_passing)
            body, mount = {"role": settings.role, "jwt": signed.text}, settings.mount or "jwt"
        try:
            status, answer = await self._server.ask("POST", f"/v1/auth/{mount}/login", self._headers(), body)
        except Away as away:
            return SecretFault(str(away), is_passing=True)
        return _session(status, answer, began)

    async def close(self) -> None:
        """See the port."""
        self._sessions.clear()
        await self._server.close()


# ---------------------------------------------------------------------------------------------- settings


def _checked_paths(entries: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Raises `Misconfigured`."""
    form = "NAMESPACE=MOUNT/PATH, such as billing=secret/billing"
    said = read_bindings(entries, SETTING, form)
    found: dict[str, tuple[str, ...]] = {}
    for namespace, text in said.items():
        path = read_path(text.strip("/"))
        if path is None or path.field is not None:
            raise Misconfigured(f"{SETTING} holds the path {text!r}; write {form}")
        if namespace != EACH and len(path.parts) < 2 and len(said) > 1:
            raise Misconfigured(
                f"{SETTING} gives the whole mount {text!r} to {namespace!r} while other namespaces have paths"
            )
        found[namespace] = path.parts
    # The path of `*` has those of the namespaces below it, so that no named one may lie there.
    joined = {name: "/".join(parts) for name, parts in found.items()}
    check_apart(joined, SETTING, "/")
    return found


def _check_auth(settings: VaultSettings, issuer: TokenIssuer | None) -> None:
    """Raises `Misconfigured` if a setting of the sign-in is missing."""
    needed: dict[str, object] = {"secrets_vault_role": settings.role}
    if settings.auth == "token":
        needed = {"secrets_vault_token_file": settings.token_file}
    elif settings.auth == "approle":
        needed["secrets_vault_secret_id_file"] = settings.secret_id_file
    else:
        needed["identity_issuer"] = issuer and issuer.issuer
    lacking = [name for name, value in needed.items() if not value]
    if lacking:
        raise Misconfigured(
            f"the sign-in {settings.auth!r} to Vault (secrets_vault_auth) needs {' and '.join(lacking)}"
        )


async def _file_text(file: Path | None, called: str) -> str | SecretFault:
    assert file is not None
    try:
        text = (await asyncio.to_thread(file.read_text)).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        return SecretFault(f"{called} cannot be read: {reason}", is_passing=True)
    if not text or not text.isascii() or not text.isprintable():
        return SecretFault(f"{called} has no token in it", is_passing=True)
    return text


# ---------------------------------------------------------------------------------------------- answers


def _session(status: int, answer: Mapping[str, Any], began: float) -> _Session | SecretFault:
    auth = answer.get("auth")
    token = auth.get("client_token") if isinstance(auth, dict) else None
    if status != 200 or not isinstance(token, str) or not isinstance(auth, dict):
        # Vault's own words may repeat what was sent; the status says enough.
        return SecretFault(f"Vault answered the sign-in with {status}", is_passing=status in BUSY)
    lease = auth.get("lease_duration")
    seconds = float(lease) if isinstance(lease, int) and lease > 0 else UNLEASED_SECONDS
    return _Session(token, began + seconds * (1 - EARLY_SHARE))


def _fields(status: int, body: Mapping[str, Any], place: str) -> Mapping[str, Any] | SecretFault:
    shown = place.removeprefix("/v1/").replace("/data/", "/", 1)
    if status == 200:
        outer = body.get("data")
        fields = outer.get("data") if isinstance(outer, dict) else None
        if isinstance(fields, dict):
            return fields
        return SecretFault(f"Vault's {shown} is no entry of a KV store of version 2", is_passing=False)
    if status == 404:
        return SecretFault(f"Vault has no secret {shown}, or its newest version was deleted", is_passing=False)
    if status == 403:
        return SecretFault(
            f"Vault refuses {shown} to this executor: its policy needs the right to read it", is_passing=False
        )
    return SecretFault(f"Vault answered {status} for {shown}", is_passing=status in BUSY)


def _picked(fields: Mapping[str, Any], path: SecretPath) -> bytes | SecretFault:
    shown, field = "/".join(path.parts), path.field
    if field is None:
        if len(fields) != 1:
            return SecretFault(
                f"the secret {shown!r} of Vault has {len(fields)} fields; name one: {shown}#FIELD", is_passing=False
            )
        field = next(iter(fields))
    if field not in fields:
        return SecretFault(f"the secret {shown!r} of Vault has no field {field!r}", is_passing=False)
    value = fields[field]
    return (value if isinstance(value, str) else json.dumps(value)).encode()
