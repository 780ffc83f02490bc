"""Federations: make, list and remove them.

A federation is a key whose secret nobody has (`domain.accounts.federations`): it is made within the same bounds as a
key, by the same permission, and is listed among the keys, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import check_namespace, requires
from tickwise.control.audit.entries import entry
from tickwise.control.bodies import TEXT_MAX, Name, Time
from tickwise.control.context import ControlContext
from tickwise.control.granted_labels import GrantedLabels
from tickwise.control.keys.composer import NAMESPACES_MAX, KeyBody, NamespaceName, Permissions, composed_key
from tickwise.control.keys.forms import new_secret
from tickwise.control.keys.rights import check_weaker, scope_of, seen_in
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.texts import clean_text
from tickwise.domain.accounts.federations import MAX_CONDITIONS, Federation, conditions_fault
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.networks import is_loopback
from tickwise.domain.permissions import Permission
from tickwise.ports.identity import FederationStore, Keys
from tickwise.ports.identity.federations import FederationRow
from tickwise.ports.signals import Topic

LIFETIME_SECONDS: Final = 600.0
"""The longest time for which an access token works."""
LIFETIME_SECONDS_LEAST: Final = 60.0
ADDRESS_MAX: Final = 500
KEYS_MAX: Final = 20
KEY_SET_CHARACTERS_MAX: Final = 50_000
PUBLIC_TYPES: Final = ("RSA", "EC", "OKP")
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Members of a private or a symmetric key (RFC 7518)."""

logger = structlog.get_logger("tickwise.keys")

Claim = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Pattern = Annotated[str, Meta(min_length=1, max_length=ADDRESS_MAX)]


class FederationBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Trust in the tokens of an issuer."""

    name: Annotated[Name, Meta(description="The name for people, such as the repository.")]
    issuer: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=ADDRESS_MAX,
            description="The `iss` of the tokens: an https address without query, such as "
            "https://token.actions.githubusercontent.com.",
        ),
    ]
    audience: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=ADDRESS_MAX,
            description="The `aud` that the tokens must have. Name this installation by it, so that no token that was "
            "made for another service is taken.",
        ),
    ]
    conditions: Annotated[
        dict[Claim, Pattern],
        Meta(
            max_length=MAX_CONDITIONS,
            description="Claims that a token must have, with exact values or patterns: `*` stands for any characters. "
            "All must hold. A claim within an object is named by its path, `kubernetes.io/namespace`.",
        ),
    ]
    role: (
        Annotated[str, Meta(max_length=TEXT_MAX, description="As of a key: short for its permissions.")]
        | UnsetType
        | None
    ) = UNSET
    permissions: (
        Annotated[Permissions, Meta(description="The permissions that such a token gets.")] | UnsetType | None
    ) = UNSET
    namespaces: (
        Annotated[
            list[NamespaceName],
            Meta(
                min_length=1,
                max_length=NAMESPACES_MAX,
                description="The namespaces in which it works, as of a key. Left out: the namespace of the request.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    labels: GrantedLabels | UnsetType | None = UNSET
    expires_at: Time | UnsetType | None = UNSET
    lifetime_seconds: Annotated[
        float,
        Meta(
            ge=LIFETIME_SECONDS_LEAST,
            le=LIFETIME_SECONDS,
            description="The time for which the access token works that such a token is exchanged for.",
        ),
    ] = LIFETIME_SECONDS
    single_use: Annotated[
        bool,
        Meta(
            description="A token that has an id (`jti`) is taken once. Say false for issuers that hand out one token "
            "for many requests, such as Kubernetes and GitLab."
        ),
    ] = True
    key_set: (
        Annotated[
            dict[str, Any],
            Meta(
                description="The public keys of the issuer as a JWKS, for one that cannot be reached from here. Left "
                "out: "
                "they are read from its discovery document, and again when it rotates them."
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


class FederationService:
    """Everything about federations but their use (`exchange`)."""

    def __init__(self, context: ControlContext, keys: Keys, directory: NamespaceDirectory) -> None:
        self._context = context
        self._keys = keys
        self._directory = directory

    @property
    def _store(self) -> FederationStore:
        return self._context.store.federations

    @requires(Permission.KEYS_ADMIN)
    async def make(self, who: Principal, body: FederationBody) -> FederationRow:
        """A new federation. Raises `Forbidden` if it would be stronger than the one that asks; `Invalid`;
        `Conflict`."""
        issuer = checked_issuer(body.issuer, is_asked=not body.key_set)
        audience = clean_text(body.audience, "/audience")
        conditions = dict(body.conditions)
        fault = conditions_fault(issuer, conditions)
        if fault is not None:
            raise Invalid(fault[1], pointer=f"/conditions/{_escaped(fault[0])}" if fault[0] else "/conditions")
        key_set = None if body.key_set is UNSET or body.key_set is None else checked_key_set(body.key_set)
        asked = KeyBody(
            name=body.name,
            role=body.role,
            permissions=body.permissions,
            namespaces=body.namespaces,
            labels=body.labels,
            expires_at=body.expires_at,
        )
        # The secret is known to nobody from here on: not even its beginning is kept.
        made = await composed_key(self._context, self._directory, who, asked, new_secret(self._context.clock))
        made = made._replace(key=replace(made.key, prefix=None))
        federation = Federation(
            key_id=made.key.key_id,
            issuer=issuer,
            audience=audience,
            conditions=conditions,
            key_set=key_set,
            lifetime_seconds=body.lifetime_seconds,
            single_use=body.single_use,
        )
        facts = {"issuer": issuer, "audience": audience, "conditions": conditions, "has_key_set": key_set is not None}
        audit = [
            entry(
                who, AuditAction.FEDERATION_ADDED, "federation", federation.key_id, namespace=place,
                after={**after, **facts},
            )
            for place, after in made.told.items()
        ]  # fmt: skip
        await self._context.surely(lambda: self._store.add(federation, made.key, audit=audit))
        logger.info("federation_made", key_id=str(federation.key_id), issuer=issuer, by=who.name)
        stored = await self._store.get(federation.key_id)  # its times are the store's
        if stored is None:  # removed by another caller a moment ago
            return FederationRow(federation, made.row(await self._context.time.now()))
        mine = scope_of(who)
        return stored if mine is None else stored._replace(key=seen_in(mine, stored.key))

    @requires(Permission.KEYS_ADMIN)
    async def page(
        self, who: Principal, before: UUID | None, limit: int, *, namespace: str | None = None
    ) -> Sequence[FederationRow]:
        """Federations that work in the caller's namespace, or those of the installation, the newest first. Raises
        `Forbidden` if `namespace` is not one that the caller sees."""
        mine = scope_of(who)
        if mine is not None and namespace is not None:
            check_namespace(who, namespace)
        rows = await self._store.page(mine or namespace, before=before, limit=limit)
        return [row if mine is None else row._replace(key=seen_in(mine, row.key)) for row in rows]

    @requires(Permission.KEYS_ADMIN)
    async def get(self, who: Principal, key_id: UUID) -> FederationRow:
        """One federation. Raises `NotFound`."""
        row, mine = await self._store.get(key_id), scope_of(who)
        if row is None or (mine is not None and mine not in (row.key.namespace, *row.key.namespaces)):
            raise NotFound(f"there is no federation {key_id}")
        return row if mine is None else row._replace(key=seen_in(mine, row.key))

    @requires(Permission.KEYS_ADMIN)
    async def remove(self, who: Principal, key_id: UUID) -> None:
        """End it, with the access tokens that it gave. Raises `NotFound`, and `Forbidden` for one that may do more than
        the caller. The home of one that works elsewhere, too, is another namespace: revoke it here as a key."""
        row, scope = await self._store.get(key_id), scope_of(who)
        found = await self._keys.of_id(key_id)
        if row is None or scope not in (None, row.key.namespace) or row.key.revoked_at is not None:
            raise NotFound(f"there is no federation {key_id}")
        if found is not None and key_id != who.key_id:
            check_weaker(who, found.caller, "remove")
        told = {row.key.namespace, *row.key.namespaces} - {INSTALLATION}
        audit = [
            entry(
                who, AuditAction.FEDERATION_REMOVED, "federation", key_id, namespace=place,
                detail={"name": row.key.name, "issuer": row.federation.issuer},
            )
            for place in sorted(told)
        ]  # fmt: skip
        await self._context.surely(lambda: self._keys.revoke(scope, key_id, audit=audit))
        self._context.signals.send(Topic.KEYS, (key_id,))
        logger.info("federation_removed", key_id=str(key_id), name=row.key.name, by=who.name)


def checked_issuer(text: str, *, is_asked: bool) -> str:
    """The address of an issuer as tokens name it. `is_asked`: its keys are read from there, so the way must be private.
    Raises `Invalid`."""
    fault = "an issuer is an https address without user, query and fragment, such as https://gitlab.example.com"
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise Invalid(fault, pointer="/issuer") from None
    is_plain = parts.username is None and not parts.query and not parts.fragment
    if (
        parts.scheme not in ("https", "http")
        or not host
        or not is_plain
        or not text.isascii()
        or not text.isprintable()
    ):
        raise Invalid(fault, pointer="/issuer")
    if " " in text or "\\" in text or (parts.scheme == "http" and is_asked and not _is_local(host)):
        raise Invalid(fault, pointer="/issuer")
    return text


def checked_key_set(keys: Mapping[str, Any]) -> str:
    """A JWKS as it is kept: its public keys alone. Raises `Invalid`."""
    members = keys.get("keys")
    if not isinstance(members, list) or not members or len(members) > KEYS_MAX:
        raise Invalid(f'a key set is {{"keys": [...]}} with 1 to {KEYS_MAX} keys', pointer="/key_set")
    for number, each in enumerate(members):
        pointer = f"/key_set/keys/{number}"
        if not isinstance(each, Mapping) or each.get("kty") not in PUBLIC_TYPES:
            raise Invalid(f"a key has a kty of {', '.join(PUBLIC_TYPES)}", pointer=pointer)
        if _PRIVATE & each.keys():
            raise Invalid("this is a private key: send the public half, and replace the pair", pointer=pointer)
    text = json.dumps({"keys": members})
    if len(text) > KEY_SET_CHARACTERS_MAX:
        raise Invalid(f"a key set has {KEY_SET_CHARACTERS_MAX} characters at most", pointer="/key_set")
    return text


def _is_local(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
