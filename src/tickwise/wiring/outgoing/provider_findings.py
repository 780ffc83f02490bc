"""The findings of `tickwise doctor sso`: the provider, its clock and keys, our address there, and the mapping of roles.
Nothing is changed by looking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import Settings
from tickwise.control.known_roles import KnownRoles
from tickwise.control.people.sso.rules import SsoConfig
from tickwise.control.people.sso.service import CALLBACK
from tickwise.domain.accounts.role_mapping import MappedRole
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Misconfigured, ProviderUnavailable, TickwiseError
from tickwise.domain.permissions import ROLES
from tickwise.ports.identity.oidc import IdentityProvider, ProviderState
from tickwise.ports.identity.users import Member
from tickwise.wiring.findings import DoctorFinding
from tickwise.wiring.outgoing.provider import make_provider
from tickwise.wiring.storage.databases import store_of
from tickwise.wiring.storage.file_store import is_in_process

CLOCK_SECONDS: Final = 5.0
"""The time in an answer is told to the second, and the answer takes some."""


def examine_provider(settings: Settings, database_url: str | None) -> list[DoctorFinding]:
    """Look at the provider of the settings. `database_url`: where custom roles are looked up; None: nowhere."""

    async def collected() -> list[DoctorFinding]:
        return [finding async for finding in _collect(settings, database_url)]

    return asyncio.run(collected())


async def _collect(settings: Settings, database_url: str | None) -> AsyncIterator[DoctorFinding]:
    try:
        config = make_provider(settings, SystemClock())
    except Misconfigured as wrong:
        yield DoctorFinding("settings", "error", wrong.detail)
        return
    if config is None:
        yield DoctorFinding(
            "settings", "warning", "no provider signs people in",
            "set TICKWISE_OIDC_ISSUER, TICKWISE_OIDC_CLIENT_ID and TICKWISE_PUBLIC_URL",
        )  # fmt: skip
        return
    try:
        async for finding in _provider(config.provider, settings):
            yield finding
    finally:
        await config.provider.close()
    async for finding in _mapping(config, database_url):
        yield finding


async def _provider(provider: IdentityProvider, settings: Settings) -> AsyncIterator[DoctorFinding]:
    try:
        state = await provider.look()
    except ProviderUnavailable as away:
        yield DoctorFinding(
            "discovery", "error", away.detail, "check TICKWISE_OIDC_ISSUER, the way there, and that the provider runs"
        )
        return
    yield DoctorFinding("discovery", "ok", provider.issuer)
    yield _clock(state, settings.oidc_leeway_seconds)
    if state.signing_keys:
        yield DoctorFinding("keys", "ok", f"{state.signing_keys} that can sign")
    else:
        yield DoctorFinding("keys", "error", "its key set has no public key that can sign", "mend the provider's keys")
    for finding in _metadata(state):
        yield finding
    yield await _redirect(provider, (settings.public_url or "").rstrip("/") + CALLBACK)


def _clock(state: ProviderState, leeway: float) -> DoctorFinding:
    if state.clock_seconds is None:
        return DoctorFinding("clock", "warning", "the provider does not tell its time")
    text = f"the provider's is {state.clock_seconds:+.0f} s from this machine's"
    if abs(state.clock_seconds) <= CLOCK_SECONDS:
        return DoctorFinding("clock", "ok", text)
    beyond = abs(state.clock_seconds) > leeway
    return DoctorFinding("clock", "error" if beyond else "warning", text, "run an NTP client on both machines")


def _metadata(state: ProviderState) -> list[DoctorFinding]:
    found = []
    if "S256" not in (state.metadata.get("code_challenge_methods_supported") or ("S256",)):
        found.append(DoctorFinding("pkce", "warning", "the provider does not say that it takes S256"))
    if state.metadata.get("backchannel_logout_supported") is not True:
        found.append(
            DoctorFinding(
                "logout",
                "warning",
                "the provider tells no logouts: a sign-out there ends no session here",
                "shorten TICKWISE_BROWSER_SESSION_SECONDS if that matters",
            )
        )
    return found


async def _redirect(provider: IdentityProvider, address: str) -> DoctorFinding:
    try:
        known = await provider.knows_redirect()
    except ProviderUnavailable as away:
        return DoctorFinding("redirect address", "warning", f"{address} could not be tried: {away.detail}")
    if known is None:
        return DoctorFinding(
            "redirect address", "warning", f"whether {address} is registered cannot be seen", "look at the provider"
        )
    if not known:
        return DoctorFinding(
            "redirect address", "error", f"the provider refuses {address}, or the client id",
            "register it there, exactly so, and check TICKWISE_OIDC_CLIENT_ID",
        )  # fmt: skip
    return DoctorFinding("redirect address", "ok", address)


async def _mapping(config: SsoConfig, database_url: str | None) -> AsyncIterator[DoctorFinding]:
    given = sorted({entry.given for entry in config.rules.roles.entries})
    if not given:
        yield DoctorFinding("roles", "warning", "no group or claim gives a role", "set TICKWISE_OIDC_ROLES")
        return
    try:
        unknown, unseen = await _unknown(given, database_url)
    except TickwiseError as failure:
        yield DoctorFinding("roles", "warning", f"custom roles could not be looked up: {failure.detail}")
        return
    for text in unknown:
        yield DoctorFinding("roles", "error", f"oidc_roles names {text}, which is not there: it gives nothing",
                            "make it, or mend TICKWISE_OIDC_ROLES")  # fmt: skip
    if unseen:
        yield DoctorFinding("roles", "warning", f"without a database it cannot be seen whether there is {unseen}",
                            "name it by --database")  # fmt: skip
    if not unknown and not unseen:
        yield DoctorFinding("roles", "ok", f"{len(config.rules.roles.entries)} entries, each of a role that is there")


async def _unknown(given: list[MappedRole], database_url: str | None) -> tuple[list[str], str]:
    """The roles and namespaces that are not there, and those that cannot be looked up."""
    if database_url is None or is_in_process(database_url) or is_cassandra(database_url):
        unseen = [f"{each.role}@{each.namespace}" for each in given if each.role not in ROLES]
        return [], ", ".join(unseen)
    store = store_of(database_url, SystemClock())
    try:
        await store.open()
        known = KnownRoles(await store.roles.all(None))
        found = [f"the role {each.role}@{each.namespace}" for each in given if known.grant(Member(*each)) is None]
        places = sorted({each.namespace for each in given} - {INSTALLATION})
        found += [f"the namespace {place}" for place in places if await store.namespaces.get(place) is None]
        return found, ""
    finally:
        await store.close()
