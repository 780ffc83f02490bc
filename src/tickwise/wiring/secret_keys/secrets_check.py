"""The proof that a secret is not stored as it is; at the start of an API, and in `tickwise doctor`.

random value ──sealed──► stored ──► all that the database has of it, as text: the value is not in it, nor its base64 or
its hexadecimal digits; opened, it is the value ──► taken back, in the same transaction
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Final

import structlog

from tickwise.config import Settings
from tickwise.documents.channel_secrets import sealed_under
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Misconfigured, SealingKeyUnset, SealingUnavailable, TickwiseError
from tickwise.ports.clock import Clock
from tickwise.ports.sealing import EnvelopeSealer, key_id_of, key_text
from tickwise.ports.store import Store
from tickwise.ports.store.secrets import NewSecret, SecretPlace, SecretQuery, secret_context
from tickwise.wiring.findings import DoctorFinding
from tickwise.wiring.secret_keys.secrets_key import make_sealer

SEALED_AT_ONCE: Final = 100
NAMED_MOST: Final = 5
_BY: Final = "tickwise"

logger = structlog.get_logger("tickwise.secrets")


async def check_sealing(store: Store, sealer: EnvelopeSealer, clock: Clock) -> None:
    """Prove it at a start. Without a key there is nothing to prove; a command that fails is told, and asked again when
    a secret is needed. Raises `Misconfigured` if a value is stored as it is; `StoreUnavailable`."""
    if sealer.newest is None:
        logger.info("secrets_without_key", detail=SealingKeyUnset().detail)
        return
    try:
        await prove_sealing(store, sealer, clock)
    except SealingUnavailable as away:
        logger.warning("secrets_unproved", detail=away.detail)


async def prove_sealing(store: Store, sealer: EnvelopeSealer, clock: Clock) -> None:
    """Raises `Misconfigured`, `SealingUnavailable`, `StoreUnavailable`."""
    plain = f"self-test-{clock.random_bytes(16).hex()}".encode()
    place = SecretPlace(INSTALLATION, f"self-test-{clock.random_bytes(8).hex()}")
    context = secret_context(place, 1)
    sealed = await sealer.seal_parts(plain, context)
    new = NewSecret(namespace=place.namespace, name=place.name, version=1, sealed=sealed, by=_BY)
    trace = (await store.secrets.trace_of(new)).lower()
    # Base64 of a text that stands somewhere in another one begins at one of three places of it.
    coded = [base64.b64encode(plain[offset:])[: -4 - offset].decode().lower() for offset in range(3)]
    if sealed.value.hex() not in trace and repr(sealed.value).lower() not in trace:
        raise Misconfigured("the self-test of secrets failed: the database gave back other bytes than were stored")
    if any(form in trace for form in (plain.decode(), plain.hex(), *coded)):
        raise Misconfigured("the self-test of secrets failed: a value is readable in the database; report this")
    if await sealer.open_parts(sealed, context) != plain:
        raise Misconfigured("the self-test of secrets failed: a value does not come back as it was")


async def secret_findings(settings: Settings, store: Store, clock: Clock) -> AsyncIterator[DoctorFinding]:
    """The findings of `tickwise doctor`: the proof, the keys in use, and secrets whose key is lost."""
    try:
        sealer = make_sealer(settings, clock)
    except Misconfigured as wrong:
        yield DoctorFinding("secrets", "error", wrong.detail, "docs/how-to/secrets.md")
        return
    used = await store.secrets.keys_used()
    if sealer.newest is None:
        if used:
            text = f"{sum(used.values())} are stored, and these settings have no key for them"
            yield DoctorFinding("secrets", "warning", text, "run doctor with the settings of the API, or set the key")
        else:
            yield DoctorFinding(
                "secrets", "ok", "none is stored, and no key is set: tickwise secrets new-key makes one"
            )
        return
    try:
        await prove_sealing(store, sealer, clock)
    except TickwiseError as failure:
        yield DoctorFinding("secrets", "error", failure.detail, "docs/how-to/secrets.md")
    else:
        newest = used.get(sealer.newest, 0)
        text = f"stored encrypted, as a test value shows; {newest} under the newest key ({key_text(sealer.newest)})"
        yield DoctorFinding("secrets", "ok", text)
    earlier = {key_id: count for key_id, count in used.items() if key_id in sealer.known and key_id != sealer.newest}
    if earlier:
        text = ", ".join(f"{count} under {key_text(key_id)}" for key_id, count in sorted(earlier.items()))
        yield DoctorFinding("secrets", "warning", f"{text}, an earlier key", "tickwise secrets rewrap")
    async for finding in _channels(store, sealer):
        yield finding
    async for finding in _seeds(store, sealer):
        yield finding
    lost = await store.secrets.find(SecretQuery(namespace=None, not_under=sealer.known, limit=NAMED_MOST + 1))
    if lost:
        names = ", ".join(f"{row.namespace}/{row.name}" for row in lost[:NAMED_MOST])
        more = " and more" if len(lost) > NAMED_MOST else ""
        count = sum(number for key_id, number in used.items() if key_id not in sealer.known)
        yield DoctorFinding(
            "secrets", "error", f"{count} cannot be decrypted, for their key is not set: {names}{more}",
            "set that key again behind the others, or set these secrets anew: tickwise secrets set NAME",
        )  # fmt: skip


async def _channels(store: Store, sealer: EnvelopeSealer) -> AsyncIterator[DoctorFinding]:
    """Channels whose secrets are not sealed by the newest key, or do not open."""
    earlier, lost, after = 0, list[str](), None
    while found := await store.channels.all_secrets(after, SEALED_AT_ONCE):
        for channel, kept in found:
            under = sealed_under(kept)
            if under is not None and under not in sealer.known:
                lost.append(f"{channel.namespace}/{channel.name}")
            elif kept and under != sealer.newest:
                earlier += 1
        after = found[-1].channel.channel_id
    if earlier:
        yield DoctorFinding(
            "secrets", "warning", f"those of {earlier} channels are not sealed by the newest key",
            "tickwise secrets rewrap",
        )  # fmt: skip
    if lost:
        yield DoctorFinding(
            "secrets", "error", f"those of {len(lost)} channels do not open: {', '.join(lost[:NAMED_MOST])}",
            "set their key again behind the others, or make these channels again",
        )  # fmt: skip


async def _seeds(store: Store, sealer: EnvelopeSealer) -> AsyncIterator[DoctorFinding]:
    """Seeds of second factors that are not sealed by the newest key, or do not open."""
    earlier, lost, after = 0, 0, None
    while found := await store.factors.seeds(after, SEALED_AT_ONCE):
        under = [key_id_of(each.secret) for each in found]
        lost += sum(each not in sealer.known for each in under)
        earlier += sum(each in sealer.known and each != sealer.newest for each in under)
        after = found[-1].factor_id
    if earlier:
        yield DoctorFinding(
            "secrets", "warning", f"the seeds of {earlier} second factors are not sealed by the newest key",
            "tickwise secrets rewrap",
        )  # fmt: skip
    if lost:
        yield DoctorFinding(
            "secrets", "error", f"the seeds of {lost} second factors do not open, so their codes do not work",
            "set their key again behind the others, or reset these people: tickwise users reset-second-factors NAME",
        )  # fmt: skip
