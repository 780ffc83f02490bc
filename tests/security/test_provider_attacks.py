"""Attacks on the sign-in by a provider: replayed and mixed-up answers, planted sign-ins, taken names, forged tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.services.oidc_provider import OidcProviderServer
from tests.support.app import ADMIN_KEY, API
from tests.support.pages import LOCAL, Rig
from tests.support.people import ask, person
from tests.support.sso import Person, fault_of, query_of, sso_pages
from tickwise.control.people.sso.service import CALLBACK
from tickwise.ports.identity.identities import Identity

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[OidcProviderServer]:
    async with OidcProviderServer([LOCAL + CALLBACK]) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def rig(server: OidcProviderServer) -> AsyncIterator[Rig]:
    async with sso_pages(server) as made:
        yield made


@probe(10, stopped_by="the state is used up by the first answer, in the store")
async def test_an_answer_counts_once(rig: Rig) -> None:
    """The answer of a provider, sent again by the browser that used it."""
    ada = Person(rig, "ada")
    back = await ada.at_provider(await ada.begin())
    assert 303 == (await ada.get(back)).status_code
    assert "was completed" in fault_of(await ada.get(back))


@probe(10, stopped_by="the secret of the browser, whose digest is kept with the state")
async def test_an_answer_counts_in_the_browser_that_asked(rig: Rig) -> None:
    """A victim gets the answer of an attacker's sign-in, with and without one of its own under way."""
    attacker, victim = Person(rig, "bob"), Person(rig, "ada")
    back = await attacker.at_provider(await attacker.begin())
    assert "was completed, or took too long" in fault_of(await victim.get(f"{CALLBACK}?code=x"))
    assert "another browser" in fault_of(await victim.get(back))
    assert None is victim.session
    other = await attacker.at_provider(await attacker.begin())
    await victim.begin()
    assert "another browser" in fault_of(await victim.get(other))
    assert "was completed" in fault_of(await attacker.get(other))  # it is used up


@probe(10, stopped_by="the verifier of PKCE is derived from the secret of the browser that asked")
async def test_a_code_of_another_sign_in_is_refused(rig: Rig) -> None:
    """A stolen code under the attacker's own state."""
    attacker, victim = Person(rig, "bob"), Person(rig, "ada")
    stolen = query_of(await victim.at_provider(await victim.begin()))["code"]
    mine = query_of(await attacker.at_provider(await attacker.begin()))
    answer = await attacker.get(f"{CALLBACK}?code={stolen}&state={mine['state']}&iss={mine['iss']}")
    assert "invalid_grant" in fault_of(answer)


@probe(10, stopped_by="`iss` must be the issuer of the settings, and be there if the provider always says it")
async def test_the_answer_of_another_provider_is_refused(rig: Rig) -> None:
    """An answer that names another provider, or none (RFC 9207)."""
    for issuer in ("&iss=https%3A%2F%2Fother.example.com", ""):
        ada = Person(rig, "ada")
        back = query_of(await ada.at_provider(await ada.begin()))
        answer = await ada.get(f"{CALLBACK}?code={back['code']}&state={back['state']}{issuer}")
        assert "provider" in fault_of(answer)
        assert None is ada.session


@probe(10, stopped_by="the store has digests alone")
async def test_the_store_has_nothing_that_completes_a_sign_in(rig: Rig) -> None:
    """A copy of the store while a sign-in is under way."""
    ada = Person(rig, "ada")
    asked = query_of(await ada.begin())
    (record,) = rig.here.store.identities._state.sign_ins.values()
    assert ada.secret is not None
    for told in (asked["state"], asked["nonce"], ada.secret.partition("=")[2]):
        assert told not in repr(record)


@probe(10, stopped_by="an account is found by issuer and subject alone")
@pytest.mark.parametrize("field", ["name", "email"])
async def test_no_account_is_taken_over_by_its_name_or_its_email(field: str, rig: Rig) -> None:
    """A person at the provider with the name, or the e-mail, of a local account."""
    fields = {"name": "ada"} if field == "name" else {"name": "somebody", "email": "Ada@example.com"}
    made = await person(rig.here, fields.pop("name"), ("viewer", "default"), **fields)
    ada = Person(rig, "ada")
    assert "not tied to the provider" in fault_of(await ada.sign_in())
    path = f"/users/{made['user_id']}/identities"
    linked = await ask(rig.here, ADMIN_KEY, "PUT", path, json={"subject": "u-1"})
    assert 200 == linked.status_code, linked.text
    assert 303 == (await ada.sign_in()).status_code
    assert "u-1" == (await ask(rig.here, ADMIN_KEY, "GET", path)).json()[0]["subject"]
    assert 1 == len((await ask(rig.here, ADMIN_KEY, "DELETE", path)).json())
    assert 401 == (await ada.sign_in()).status_code


@probe(10, stopped_by="the signature is checked before anything else")
async def test_a_forged_logout_ends_nothing(rig: Rig) -> None:
    """Logout tokens that nobody signed, and forms without one."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for form, status in (("logout_token=a.b.c", 401), ("token=x", 400), ("", 400)):
        answer = await rig.here.client.post(f"{API}/auth/providers/logout", content=form, headers=kind)
        assert status == answer.status_code, (form, answer.text)


@probe(10, stopped_by="a caller needs each permission of the person")
async def test_an_identity_is_tied_by_those_alone_who_may_do_all_that_it_opens(rig: Rig) -> None:
    """A key that manages people ties its own identity to an administrator; also a key of one namespace."""
    boss = await person(rig.here, "boss", ("admin", "*"))
    key = await rig.here.key("a-key-of-somebody-who-manages-people", "users:read", "users:admin", everywhere=True)
    path = f"/users/{boss['user_id']}/identities"
    assert 403 == (await ask(rig.here, key, "PUT", path, json={"subject": "u-2"})).status_code
    local = await rig.here.key("a-key-of-somebody-in-one-namespace-only", "users:read", "users:admin")
    assert 403 == (await ask(rig.here, local, "PUT", path, json={"subject": "u-2"})).status_code
    assert None is await rig.here.store.identities.find(Identity("x", "u-2"))
