"""Secrets: set, look at without their values, remove; and the rotation of the installation's key.

    value ──► sealed, bound to namespace, name and version ──► store (version n, only if n - 1 is the newest)
    rotation ──► a page of data keys that another key wraps ──► unwrapped, wrapped by the newest ──► store
                 what no key opens any more is told by name, and stays as it is

Invariant: no value leaves through here. A caller who may set a secret reads none.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from tickwise.control.access import holds_everywhere, requires, requires_none
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.secrets.uses import USES_COUNTED, NamedUses, check_unused, named_uses
from tickwise.documents.channel_secrets import opened_secrets, sealed_secrets, sealed_under
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Busy, Forbidden, Invalid, NotFound, NotOpened, SealingKeyUnset, VersionConflict
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.secrets.output_masking import maskable
from tickwise.domain.secrets.references import clean_secret_name
from tickwise.ports.identity.factors import seed_context
from tickwise.ports.sealing import EnvelopeSealer, key_id_of, key_text
from tickwise.ports.store.secrets import (
    NewSecret,
    Rewrapped,
    SecretPlace,
    SecretQuery,
    SecretRow,
    SecretVersion,
    secret_context,
)

VALUE_BYTES_MOST: Final = 1 << 20
"""The largest value."""
REWRAP_PAGE: Final = 50
"""The secrets of one step of a rotation. With a command of 0.1 s for each of two calls, a step takes 10 s."""
NAMED_LOST: Final = 100
"""The most secrets without their key that one answer names."""
_RACES_MOST: Final = 5


class SecretBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The value of a secret."""

    value: Annotated[
        str,
        Meta(
            description="1 byte to 1 MiB (1,048,576 bytes); text is stored as UTF-8. No answer ever has it.",
            extra_json_schema={"format": "password", "writeOnly": True},
        ),
    ]
    encoding: Annotated[
        Literal["text", "base64"], Meta(description="`base64`: `value` is the base64 of bytes that are no text.")
    ] = "text"

    def __repr__(self) -> str:
        """Without the value, wherever it is printed."""
        return f"SecretBody(encoding={self.encoding!r})"

    def plain(self) -> bytes:
        """The bytes of the value. Raises `Invalid`, without a part of them."""
        if self.encoding == "text":
            try:
                found = self.value.encode()
            except UnicodeEncodeError:
                raise Invalid("the value has half a character; send whole ones, or base64", pointer="/value") from None
        else:
            found = _from_base64(self.value)
        if not 0 < len(found) <= VALUE_BYTES_MOST:
            raise Invalid(f"a value has 1 to {VALUE_BYTES_MOST} bytes, and this one has {len(found)}", pointer="/value")
        return found


class SecretSet(NamedTuple):
    """A secret that was set."""

    row: SecretRow
    created: bool
    """It was not there before."""
    unmasked: str | None
    """The reason that the value is not masked in outputs; None: it is."""


class SecretDetails(NamedTuple):
    """A secret, and the records of its versions."""

    row: SecretRow
    versions: Sequence[SecretVersion]
    """The newest first."""


class SecretKeys(NamedTuple):
    """The keys of the installation, and the number of secrets that each wraps."""

    newest: bytes | None
    """The id of the key that wraps; None: none is set."""
    known: Sequence[bytes]
    """The ids of the keys that this process has."""
    used: Mapping[bytes, int]
    """The number of secrets by the id of the key that wraps them."""
    lost: Sequence[SecretRow]
    """Secrets whose key this process does not have, `NAMED_LOST` at most."""


class RewrapStep(NamedTuple):
    """The outcome of one step of a rotation."""

    rewrapped: int
    failed: Sequence[tuple[SecretPlace, str]]
    """Secrets that could not be wrapped anew, and why."""
    next: SecretPlace | None
    """The place behind which the next step goes on; None: that was the last one."""


class SecretService:
    """Everything about secrets of our own store."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.SECRETS_WRITE)
    async def set(
        self, who: Principal, name: str, body: SecretBody, *, found: SecretDetails | None = None, only: bool = False
    ) -> SecretSet:
        """Set or replace a secret. `only`: nothing but in place of `found`, or as a new one if that is None. Raises
        `Invalid`, `SealingKeyUnset`, `SealingUnavailable`; `VersionConflict`; `Conflict`, code `secrets_exhausted` or
        `namespace_closing`; `Busy` if others keep setting it."""
        place, plain = SecretPlace(who.namespace, clean_secret_name(name)), body.plain()
        for _ in range(_RACES_MOST):
            earlier = (None if found is None else found.row) if only else await self._find(place)
            version = 1 if earlier is None else earlier.version + 1
            sealed = await self._sealer.seal_parts(plain, secret_context(place, version))
            new = NewSecret(namespace=place.namespace, name=place.name, version=version, sealed=sealed, by=who.name)
            audit = entry(who, AuditAction.SECRET_SET, "secret", place.name, detail={"version": version})
            try:
                row = await self._context.surely(lambda: self._context.store.secrets.put(new, audit=audit))  # noqa: B023 - awaited in this turn
            except VersionConflict:
                if only:
                    raise
                continue
            return SecretSet(row, created=version == 1, unmasked=maskable(plain))
        raise Busy("too many concurrent changes to this secret; send the same again")

    @requires_none("it tells of the key of this process, and of no secret")
    def has_key(self, row: SecretRow) -> bool:
        """Check whether this process has the key that wraps a secret. Without it the value is lost."""
        return row.key_id in self._known

    @requires(Permission.SECRETS_READ)
    async def page(self, who: Principal, after: str | None, limit: int) -> Sequence[SecretRow]:
        """The secrets of the namespace by name, those after `after`, each with the number of jobs that stay and name
        it, `USES_COUNTED` at most."""
        place = None if after is None else SecretPlace(who.namespace, after)
        query = SecretQuery(namespace=who.namespace, after=place, jobs_most=USES_COUNTED, limit=limit)
        return await self._context.store.secrets.find(query)

    @requires(Permission.SECRETS_READ)
    async def uses(self, who: Principal, name: str) -> NamedUses:
        """The jobs and stored tasks that name a secret. Raises `NotFound` if there is no such secret."""
        await self._get(who, name)
        return await named_uses(self._context, who, name)

    @requires(Permission.SECRETS_READ)
    async def get(self, who: Principal, name: str) -> SecretDetails:
        """One, with its versions. Raises `NotFound`."""
        return await self._get(who, name)

    @requires(Permission.SECRETS_WRITE)
    async def to_change(self, who: Principal, name: str) -> SecretDetails | None:
        """The secret of this name, if there is one, for a write that is judged by it."""
        return await self._details(SecretPlace(who.namespace, clean_secret_name(name)))

    @requires(Permission.SECRETS_WRITE)
    async def remove(
        self, who: Principal, name: str, only: SecretDetails | None = None, *, force: bool = False
    ) -> SecretDetails:
        """Remove a secret with all of its versions, with `only` nothing but that version; what it was. Raises
        `NotFound`, `VersionConflict`; unless `force`, `Conflict`, code `secret_in_use`."""
        found = only or await self._get(who, name)
        if not force:
            await check_unused(self._context, who, name)
        place = SecretPlace(who.namespace, name)
        version = None if only is None else only.row.version
        audit = entry(who, AuditAction.SECRET_REMOVED, "secret", name, detail={"version": found.row.version})
        if not await self._context.surely(lambda: self._context.store.secrets.remove(place, version, audit=audit)):
            raise _no_secret(who, name)
        return found

    # ------------------------------------------------------------------------------------------ the installation's key

    @requires(Permission.SECRETS_WRITE)
    async def keys(self, who: Principal) -> SecretKeys:
        """The keys that wrap, and the secrets under each, of all namespaces. Raises `Forbidden`."""
        _check_installation(who)
        secrets, known = self._context.store.secrets, self._known
        query = SecretQuery(namespace=None, not_under=known, limit=NAMED_LOST)
        return SecretKeys(
            None if self._context.sealer is None else self._context.sealer.newest,
            known,
            await secrets.keys_used(),
            await secrets.find(query),
        )

    @requires(Permission.SECRETS_WRITE)
    async def rewrap(self, who: Principal, after: SecretPlace | None, *, again: bool = False) -> RewrapStep:
        """Wrap the data keys of the next secrets by the newest key, of all namespaces; behind the last, seal the
        secrets of channels and the seeds of second factors by it. Those that are under it already are passed over
        unless `again`. What is done is done: a rotation that ends at any point goes on with the next call. Raises
        `Forbidden`, `SealingKeyUnset`, `SealingUnavailable`."""
        _check_installation(who)
        sealer = self._sealer
        if sealer.newest is None:
            raise SealingKeyUnset
        query = SecretQuery(
            namespace=None, after=after, not_under=() if again else (sealer.newest,), limit=REWRAP_PAGE + 1
        )
        found = await self._context.store.secrets.sealed_keys(query)
        done: list[Rewrapped] = []
        failed: list[tuple[SecretPlace, str]] = []
        for each in found[:REWRAP_PAGE]:
            try:
                done.append(Rewrapped(each.place, each.key, await sealer.rewrap(each.key)))
            except NotOpened as lost:
                failed.append((each.place, lost.detail))
        detail = {"count": len(done), "sealed_under": key_text(sealer.newest)}
        audit = entry(who, AuditAction.SECRETS_REWRAPPED, "secret", namespace=INSTALLATION, detail=detail)
        rewrapped = await self._context.store.secrets.rewrap(done, audit=audit) if done else 0
        if len(found) > REWRAP_PAGE:
            return RewrapStep(rewrapped, failed, found[REWRAP_PAGE - 1].place)
        resealed, closed = await self._reseal_channels(sealer, again=again)
        seeds, shut = await self._reseal_seeds(sealer, again=again)
        return RewrapStep(rewrapped + resealed + seeds, failed + closed + shut, None)

    # ------------------------------------------------------------------------------------------ parts

    async def _reseal_channels(
        self, sealer: EnvelopeSealer, *, again: bool
    ) -> tuple[int, list[tuple[SecretPlace, str]]]:
        """Seal the secrets of channels by the newest key, also those that are not sealed yet. The number of channels;
        those that do not open."""
        channels, count, after = self._context.store.channels, 0, None
        failed: list[tuple[SecretPlace, str]] = []
        while found := await channels.all_secrets(after, REWRAP_PAGE):
            for channel, kept in found:
                if not kept or (not again and sealed_under(kept) == sealer.newest):
                    continue
                try:
                    plain = await opened_secrets(kept, channel.channel_id, sealer)
                except NotOpened as lost:
                    failed.append((SecretPlace(channel.namespace, f"channel {channel.name}"), lost.detail))
                    continue
                sealed = await sealed_secrets(plain, channel.channel_id, sealer)
                count += await channels.reseal(channel.channel_id, kept, sealed)
            after = found[-1].channel.channel_id
        return count, failed

    async def _reseal_seeds(self, sealer: EnvelopeSealer, *, again: bool) -> tuple[int, list[tuple[SecretPlace, str]]]:
        """Seal the seeds of second factors by the newest key. The number of seeds; those that do not open."""
        factors, count, after = self._context.store.factors, 0, None
        failed: list[tuple[SecretPlace, str]] = []
        while found := await factors.seeds(after, REWRAP_PAGE):
            for each in found:
                if not again and key_id_of(each.secret) == sealer.newest:
                    continue
                try:
                    plain = await sealer.open(each.secret, seed_context(each.factor_id))
                except NotOpened as lost:
                    failed.append((SecretPlace(INSTALLATION, f"second factor of {each.user_id}"), lost.detail))
                    continue
                sealed = await sealer.seal(plain, seed_context(each.factor_id))
                count += await factors.reseal(each.factor_id, each.secret, sealed)
            after = found[-1].factor_id
        return count, failed

    @property
    def _sealer(self) -> EnvelopeSealer:
        if self._context.sealer is None:
            raise SealingKeyUnset
        return self._context.sealer

    @property
    def _known(self) -> Sequence[bytes]:
        return () if self._context.sealer is None else self._context.sealer.known

    async def _find(self, place: SecretPlace) -> SecretRow | None:
        query = SecretQuery(namespace=place.namespace, name=place.name, limit=1)
        return next(iter(await self._context.store.secrets.find(query)), None)

    async def _details(self, place: SecretPlace) -> SecretDetails | None:
        row = await self._find(place)
        return None if row is None else SecretDetails(row, await self._context.store.secrets.versions(place))

    async def _get(self, who: Principal, name: str) -> SecretDetails:
        """Raises `NotFound`."""
        place = SecretPlace(who.namespace, name)
        found = await self._details(place)
        if found is None:
            raise _no_secret(who, name)
        return found


def _check_installation(who: Principal) -> None:
    """Raises `Forbidden` unless the caller may write secrets in each namespace."""
    if not holds_everywhere(who, Permission.SECRETS_WRITE):
        raise Forbidden(
            "the key of the installation wraps the secrets of all namespaces: this takes the permission secrets:write "
            "in each one, as an administrator of the installation has it"
        )


def _no_secret(who: Principal, name: str) -> NotFound:
    return NotFound(f"there is no secret {name[:128]!r} in the namespace {who.namespace}")


def _from_base64(text: str) -> bytes:
    """Raises `Invalid`."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("the value is no base64", pointer="/value") from None
