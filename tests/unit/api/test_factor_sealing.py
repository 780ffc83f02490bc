"""The seeds of second factors follow a rotation of the installation's key, without a sign-in of their people."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.factors import STEP_SECONDS, challenge_of, code_now, show, totp_of
from tests.support.people import ask, person, signed_in, signing_key
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.ports.identity.factors import Factor, seed_context
from tickwise.ports.sealing import key_id_of
from tickwise.testing.clock import VirtualClock

FIRST, NEXT, LOST = (LocalKey(bytes(range(begin, begin + 32))) for begin in (0, 50, 100))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    """An installation whose key is being changed: the new one in front, that of before behind it."""
    async with world(clock=clock, sealer=EnvelopeSealing([NEXT, FIRST], clock)) as made:
        await made.control.bearers.sign_with(signing_key())
        yield made


async def sealed_earlier(here: World, clock: VirtualClock, key: LocalKey) -> Factor:
    """The only seed, sealed by an earlier key, as before the new one was set."""
    (found,) = await here.store.factors.seeds(None, 10)
    assert here.control.context.sealer is not None
    context = seed_context(found.factor_id)
    plain = await here.control.context.sealer.open(found.secret, context)
    sealed = await EnvelopeSealing([key], clock).seal(plain, context)
    assert await here.store.factors.reseal(found.factor_id, found.secret, sealed)
    return found


async def test_a_rotation_seals_the_seeds_anew(here: World, clock: VirtualClock) -> None:
    """Counted once; the person signs in by a code when the earlier key is gone."""
    await person(here, "Ada", ("viewer", "default"))
    totp = await totp_of(here, str((await signed_in(here, "Ada"))["access_token"]))
    await sealed_earlier(here, clock, FIRST)
    for count in (1, 0):
        step = await ask(here, ADMIN_KEY, "POST", "/secrets:rewrap", json={})
        assert {"rewrapped": count, "failed": [], "next": None} == step.json()
    (found,) = await here.store.factors.seeds(None, 10)
    assert EnvelopeSealing([NEXT], clock).newest == key_id_of(found.secret)
    here.control.context.sealer = EnvelopeSealing([NEXT], clock)
    await clock.advance(STEP_SECONDS)
    problem = await challenge_of(here, "Ada")
    assert 200 == (await show(here, problem["challenge"], await code_now(here, totp))).status_code


async def test_a_seed_whose_key_is_lost_is_named(here: World, clock: VirtualClock) -> None:
    """It stays as it is, so that the key can come back."""
    await person(here, "Ada", ("viewer", "default"))
    await totp_of(here, str((await signed_in(here, "Ada"))["access_token"]))
    await sealed_earlier(here, clock, LOST)
    (before,) = await here.store.factors.seeds(None, 10)
    step = (await ask(here, ADMIN_KEY, "POST", "/secrets:rewrap", json={})).json()
    assert (0, None) == (step["rewrapped"], step["next"])
    assert [f"second factor of {before.user_id}"] == [each["name"] for each in step["failed"]]
    assert [before] == list(await here.store.factors.seeds(None, 10))
