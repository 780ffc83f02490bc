"""Sign-in by a certified provider: who comes in, as whom, with which roles, and what a bad day or an attack meets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.services.oidc_provider import CLIENT, PEOPLE, OidcProviderServer
from tests.support.app import ADMIN_KEY, API
from tests.support.http_receiver import HttpReceiver
from tests.support.pages import LOCAL, Markup, Rig
from tests.support.people import PASSWORD, ask, person, signed_in, signing_key
from tests.support.sso import Person, fault_of, query_of, sso_pages
from tickwise.adapters.oidc.requests import IssuerRequests, OutgoingWay
from tickwise.control.people.password_check import PasswordSignIn
from tickwise.control.people.sso.service import CALLBACK, SIGN_IN_SECONDS
from tickwise.domain.audit import AuditAction
from tickwise.domain.names import name_key
from tickwise.ports.audit import AuditQuery, AuditRow
from tickwise.testing.clock import ShiftedClock
from tickwise.web.sessions import KNOWN_SECONDS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def receiver() -> AsyncIterator[HttpReceiver]:
    """The place where the provider tells logouts."""
    async with HttpReceiver() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(receiver: HttpReceiver) -> AsyncIterator[OidcProviderServer]:
    async with OidcProviderServer([LOCAL + CALLBACK], logout=receiver.url("/logout")) as made:
        yield made


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def usual(server: OidcProviderServer) -> AsyncIterator[None]:
    """People and speed as at the start, after each test."""
    yield
    if not server.runs:
        await server.start()
    await server.control("people", **PEOPLE)
    await server.control("slow", seconds=0)


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest_asyncio.fixture(loop_scope="module")
async def rig(server: OidcProviderServer, clock: ShiftedClock) -> AsyncIterator[Rig]:
    async with sso_pages(server, clock=clock) as made:
        yield made


async def _roles(rig: Rig, name: str) -> list[str]:
    found = await rig.here.store.users.sign_in(name_key(name))
    assert found is not None
    return [f"{each.role}@{each.namespace}" for each in found.row.roles]


async def _entries(rig: Rig, action: AuditAction) -> list[AuditRow]:
    await rig.here.control.denials.write(last=True)
    return [*await rig.here.store.audit.find(AuditQuery(namespace=None, action=action))]


def _changed(**people: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The people of the provider, some with other claims."""
    return {name: {**claims, **people.get(name.replace("-", "_"), {})} for name, claims in PEOPLE.items()}


# ---------------------------------------------------------------------------------------------- the way in


async def test_a_person_signs_in_and_comes_to_the_page_that_was_asked_for(rig: Rig) -> None:
    """With name, verified e-mail and the roles of the groups, and with a session of their own. It is on record."""
    ada = Person(rig, "ada")
    page = await ada.get("/login?next=%2Fjobs%3Fstatus%3DPAUSED")
    assert page.text.index('id="provider"') < page.text.index('name="password"')
    answer = await ada.sign_in("/jobs%3Fstatus%3DPAUSED")
    assert (303, "/jobs?status=PAUSED") == (answer.status_code, answer.headers["location"])
    assert "Ada" not in (await Person(rig, "x").get("/jobs")).text
    shown = await ada.get("/jobs")
    assert 200 == shown.status_code
    assert "ada" in Markup(shown.text).words
    found = await rig.here.store.users.sign_in(name_key("ada"))
    assert found is not None
    assert ("ada@example.com", False) == (found.row.email, found.row.has_password)
    assert ["admin@*", "developer@default"] == sorted(await _roles(rig, "ada"))
    (added,) = await _entries(rig, AuditAction.USER_ADDED)
    assert "u-1" in (added.detail or "")
    (entered,) = await _entries(rig, AuditAction.SIGNED_IN)
    assert ("ada", True) == (entered.source.name, "provider" in (entered.detail or ""))
    assert 303 == (await ada.sign_in()).status_code
    assert 1 == len(await _entries(rig, AuditAction.USER_ADDED))


async def test_a_sign_in_leads_to_no_other_server(rig: Rig) -> None:
    """With any address."""
    for back in ("https://example.org/", "//example.org", "/\\example.org"):
        assert "/" == (await Person(rig, "ada").sign_in(back)).headers["location"]


async def test_a_person_without_a_role_is_told_so_and_not_added(rig: Rig) -> None:
    """Whom the provider knows is no reason to have an account."""
    answer = await Person(rig, "carl").sign_in()
    assert 401 == answer.status_code
    assert "none of your groups there gives a role" in fault_of(answer)
    assert None is await rig.here.store.users.sign_in(name_key("carl"))
    assert 1 == len(await _entries(rig, AuditAction.SIGN_IN_FAILED))
    refused = await Person(rig, "nobody").sign_in()
    assert "access_denied: nobody has this name" in fault_of(refused)


async def test_the_way_in_is_told_to_programs(rig: Rig) -> None:
    """Without a key: it is for those who have none."""
    answer = await ask(rig.here, None, "GET", "/auth/providers")
    assert "on" == answer.json()["passwords"]
    assert ["/login/provider"] == [each["login"] for each in answer.json()["providers"]]


# ---------------------------------------------------------------------------------------------- roles, accounts


async def test_a_group_that_is_taken_away_takes_its_role_and_its_sessions(
    rig: Rig, server: OidcProviderServer, clock: ShiftedClock
) -> None:
    """At the next sign-in; a new group gives its role. It is on record."""
    ada, elsewhere = Person(rig, "ada"), Person(rig, "ada")
    await Person(rig, "ada").sign_in()
    await person(rig.here, "root", ("admin", "*"))
    await ada.sign_in()
    await elsewhere.sign_in()
    await server.control("people", **_changed(u_1={"groups": ["dev"]}))
    assert 303 == (await ada.sign_in()).status_code
    assert ["developer@default"] == await _roles(rig, "ada")
    clock.shift(KNOWN_SECONDS + 1)
    assert 303 == (await elsewhere.get("/jobs")).status_code
    (entry,) = await _entries(rig, AuditAction.USER_CHANGED)
    assert ("admin in *" in (entry.before or ""), "admin in *" in (entry.after or "")) == (True, False)
    await server.control("people", **_changed(u_1={"groups": []}))
    assert 401 == (await ada.sign_in()).status_code
    assert [] == await _roles(rig, "ada")
    await server.control("people", **_changed(u_1={"groups": ["new", "ops"]}))
    assert 303 == (await ada.sign_in()).status_code
    assert ["admin@*"] == await _roles(rig, "ada")


async def test_the_last_administrator_is_not_lost_to_a_group(rig: Rig, server: OidcProviderServer) -> None:
    """The sign-in is refused, with what to do, and the installation keeps its administrator."""
    ada = Person(rig, "ada")
    await ada.sign_in()
    await server.control("people", **_changed(u_1={"groups": ["dev"]}))
    assert "last administrator" in fault_of(await ada.sign_in())
    assert "admin@*" in await _roles(rig, "ada")


async def test_roles_stay_where_they_do_not_follow(server: OidcProviderServer) -> None:
    """What an administrator gave by hand is kept."""
    async with sso_pages(server, rules={"roles_follow": False}) as rig:
        bob = Person(rig, "bob")
        await bob.sign_in()
        await server.control("people", **_changed(u_2={"groups": ["ops"]}))
        assert 303 == (await bob.sign_in()).status_code
        assert ["developer@default"] == await _roles(rig, "bob")


async def test_people_are_added_by_hand_where_that_is_the_rule(server: OidcProviderServer) -> None:
    """The refusal says by which command."""
    async with sso_pages(server, rules={"adds_people": False}) as rig:
        assert "tickwise users link NAME u-1" in fault_of(await Person(rig, "ada").sign_in())


async def test_an_unverified_email_is_nobodys(server: OidcProviderServer) -> None:
    """It opens no domain, and is not kept."""
    async with sso_pages(server, roles="*=viewer", rules={"email_domains": frozenset({"example.com"})}) as rig:
        assert "no domain that may sign in" in fault_of(await Person(rig, "carl").sign_in())
        assert 303 == (await Person(rig, "bob").sign_in()).status_code
    async with sso_pages(server, roles="*=viewer") as rig:
        assert 303 == (await Person(rig, "carl").sign_in()).status_code
        found = await rig.here.store.users.sign_in(name_key("carl"))
        assert found is not None
        assert None is found.row.email


async def test_roles_and_namespaces_that_are_not_there_give_nothing(server: OidcProviderServer) -> None:
    """A slip in the mapping lets nobody in, and takes nobody's other role."""
    roles = "dev=developer@nowhere; dev=made-up-role; dev=viewer"
    async with sso_pages(server, roles=roles) as rig:
        assert 303 == (await Person(rig, "bob").sign_in()).status_code
        assert ["viewer@default"] == await _roles(rig, "bob")


async def test_a_deactivated_person_stays_out(rig: Rig, clock: ShiftedClock) -> None:
    """Against the word of the provider, and at once in open sessions."""
    bob = Person(rig, "bob")
    await bob.sign_in()
    found = await rig.here.store.users.sign_in(name_key("bob"))
    assert found is not None
    await ask(rig.here, ADMIN_KEY, "PATCH", f"/users/{found.row.user_id}", json={"active": False})
    clock.shift(KNOWN_SECONDS + 1)
    assert 303 == (await bob.get("/jobs")).status_code
    assert "deactivated" in fault_of(await bob.sign_in())


async def test_a_person_who_was_removed_at_the_provider_stays_out(rig: Rig, server: OidcProviderServer) -> None:
    """The provider signs nobody in whom it does not know."""
    bob = Person(rig, "bob")
    await bob.sign_in()
    await server.control("people", **{name: claims for name, claims in PEOPLE.items() if name != "u-2"})
    assert 401 == (await Person(rig, "bob").sign_in()).status_code


# ---------------------------------------------------------------------------------------------- many at once


async def test_a_sign_in_that_takes_too_long_is_begun_again(rig: Rig, clock: ShiftedClock) -> None:
    """The page says so."""
    ada = Person(rig, "ada")
    back = await ada.at_provider(await ada.begin())
    clock.shift(SIGN_IN_SECONDS + 1)
    assert "took too long" in fault_of(await ada.get(back))


async def test_two_tabs_of_one_browser_sign_in(rig: Rig) -> None:
    """Each has a state of its own, and the browser one secret."""
    ada = Person(rig, "ada")
    first = await ada.begin("/jobs")
    second = await ada.begin("/runs")
    assert "/runs" == (await ada.get(await ada.at_provider(second))).headers["location"]
    assert "/jobs" == (await ada.get(await ada.at_provider(first))).headers["location"]


async def test_sign_ins_of_one_address_are_paced(rig: Rig) -> None:
    """As those with a password."""
    ada = Person(rig, "ada")
    statuses = [(await ada.get("/login/provider")).status_code]
    while statuses[-1] != 429 and len(statuses) < 500:  # one more is free each second, also where each takes as long
        statuses.append((await ada.get("/login/provider")).status_code)
    assert {303, 429} == set(statuses)


# ---------------------------------------------------------------------------------------------- bad days


async def test_while_the_provider_is_away_the_page_says_so_and_administrators_come_in(
    server: OidcProviderServer,
) -> None:
    """By password, where only they may; others are told why not. It goes on once the provider is back."""
    async with sso_pages(server, password_sign_in=PasswordSignIn.ADMINS) as rig:
        await person(rig.here, "root", ("admin", "*"))
        await person(rig.here, "paul", ("developer", "default"))
        await server.stop()
        ada = Person(rig, "ada")
        answer = await ada.get("/login/provider")
        assert 503 == answer.status_code
        assert "Administrators of the installation can sign in with a password" in answer.text
        assert 303 == (await rig.browser().sign_in("root")).status_code
        refused = await rig.browser().sign_in("paul")
        assert (401, True) == (refused.status_code, "only administrators" in fault_of(refused).lower())
        await rig.here.control.bearers.sign_with(signing_key())
        body = {"grant_type": "password", "username": "paul", "password": PASSWORD}
        assert "password_sign_in_off" == (await ask(rig.here, None, "POST", "/auth/token", json=body)).json()["code"]
        assert "access_token" in await signed_in(rig.here, "root")
        await server.start()
        rig.here.clock.shift(5.0)  # type: ignore[attr-defined]  # it is a ShiftedClock
        assert 303 == (await ada.sign_in()).status_code


async def test_where_passwords_are_off_nobody_enters_one(server: OidcProviderServer) -> None:
    """The page has no field for it, and the API takes none."""
    async with sso_pages(server, password_sign_in=PasswordSignIn.OFF) as rig:
        await person(rig.here, "root", ("admin", "*"))
        assert 'name="password"' not in (await Person(rig, "x").get("/login")).text
        assert 401 == (await rig.browser().sign_in("root")).status_code


async def test_a_slow_provider_holds_a_sign_in_up_and_nothing_else(server: OidcProviderServer) -> None:
    """It is given up after the time of the settings."""
    requests = IssuerRequests()
    async with sso_pages(server, requests=requests) as rig:
        ada = Person(rig, "ada")
        back = await ada.at_provider(await ada.begin())
        requests._way = OutgoingWay(timeout_seconds=0.5)  # not before: what is quick takes longer, too, now and then
        await server.control("slow", seconds=5)
        assert "did not answer within 0.5 s" in fault_of(await ada.get(back))


@pytest.mark.parametrize("alg", ["ES256", "EdDSA", "RS256"])
async def test_keys_are_rotated_between_two_sign_ins(
    alg: str, rig: Rig, server: OidcProviderServer, clock: ShiftedClock
) -> None:
    """To another kind of key, too."""
    assert 303 == (await Person(rig, "ada").sign_in()).status_code
    await server.control("rotate", alg=alg, keep=False)
    clock.shift(15.0)
    assert 303 == (await Person(rig, "ada").sign_in()).status_code


@pytest.mark.parametrize(("seconds", "status"), [(30.0, 303), (-30.0, 303), (600.0, 401), (-600.0, 401)])
async def test_clocks_that_differ(seconds: float, status: int, server: OidcProviderServer) -> None:
    """By 30 s nobody notices; by 10 min the page names the clocks."""
    clock = ShiftedClock()
    clock.shift(seconds)
    async with sso_pages(server, clock=clock) as rig:
        answer = await Person(rig, "ada").sign_in()
        assert status == answer.status_code
        if status == 401:
            assert "clocks" in fault_of(answer)


# ---------------------------------------------------------------------------------------------- the way out


async def test_a_logout_at_the_provider_ends_the_session_here(
    rig: Rig, server: OidcProviderServer, receiver: HttpReceiver, clock: ShiftedClock
) -> None:
    """That of its browser, and the person's tokens; once. A session by another browser goes on."""
    ada, elsewhere = Person(rig, "ada"), Person(rig, "ada")
    await ada.sign_in()
    await elsewhere.sign_in()
    sessions = rig.here.store.identities._state.browser_sessions.values()
    sids = [each.session.provider.session for each in sessions if each.session.provider is not None]
    assert 2 == len({*sids})
    heard = len(receiver.heard)
    await server.control("logout", client=CLIENT, subject="u-1", session=sids[0])
    await receiver.until(heard + 1)
    form = receiver.heard[-1].body
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    told = await rig.here.client.post(f"{API}/auth/providers/logout", content=form, headers=kind)
    assert 200 == told.status_code, told.text
    clock.shift(KNOWN_SECONDS + 1)
    assert 303 == (await ada.get("/jobs")).status_code
    assert 200 == (await elsewhere.get("/jobs")).status_code
    again = await rig.here.client.post(f"{API}/auth/providers/logout", content=form, headers=kind)
    assert (401, True) == (again.status_code, "used before" in again.json()["detail"])
    (entry,) = await _entries(rig, AuditAction.SIGNED_OUT)
    assert 1 == len(entry.targets)


async def test_a_sign_out_here_offers_the_one_at_the_provider(rig: Rig) -> None:
    """The page leads there, and the provider back to it."""
    ada = Person(rig, "ada")
    await ada.sign_in()
    ada.browser.cookie = ada.session
    answer = await ada.browser.post("/logout")
    assert "/login?done=out" == answer.headers["location"]
    ada.session = None
    assert 'href="/login/provider/out"' in (await ada.get("/login?done=out")).text
    place = (await ada.get("/login/provider/out")).headers["location"]
    assert f"{LOCAL}/login" == query_of(place)["post_logout_redirect_uri"]
    assert 200 == (await ada.there.get(place)).status_code
