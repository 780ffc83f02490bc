"""Namespaces, settings, people and keys on pages: what a form does, what it refuses, and what is shown once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tests.support.people import PASSWORD
from tickwise.control.cluster import SettingInForce
from tickwise.domain.audit import AuditAction
from tickwise.ports.audit import AuditQuery

SETTINGS = (
    SettingInForce("port", "8470", "TICKWISE_PORT", "", "The port of the API.", secret=False),
    SettingInForce("lease_seconds", "10", "default", "s", "The time that a lease is good for.", secret=False),
    SettingInForce("bootstrap_key", "********", "/etc/secrets.toml", "", "An admin key.", secret=True),
)
ANOTHER: str = "seven loud otters dive"


@pytest_asyncio.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with pages(settings=SETTINGS) as made:
        await made.here.key("in-team-a", "jobs:read", namespace="team-a")
        yield made


async def _admin(rig: Rig, name: str, namespace: str = "*") -> Browser:
    return await rig.signed_in(name, ("admin", namespace))


async def _entries(rig: Rig, action: AuditAction, actor: str) -> int:
    query = AuditQuery(namespace=None, action=action, actor=actor, limit=50)
    return len(await rig.here.store.audit.find(query))


def _secret(text: str, prefix: str) -> str:
    [secret] = {str(each) for each in re.findall(rf"{prefix}_[0-9A-Za-z]+", text) if len(each) > 40}
    return secret


# ---------------------------------------------------------------------------------------------------- settings


async def test_settings_are_shown_to_administrators_of_the_installation_alone(rig: Rig) -> None:
    """With their source and their unit; secrets are masked. An administrator of a namespace is not led there."""
    browser = await _admin(rig, "root")
    page = Markup((await browser.get("/settings")).text)
    for word in ("lease_seconds", "10 s", "TICKWISE_PORT", "********", "/etc/secrets.toml"):
        assert word in page.words, word
    assert "/settings" in {each["href"] for each in page.named("a")}
    local = await _admin(rig, "bounded", "team-a")
    assert 403 == (await local.get("/settings?namespace=team-a")).status_code
    there = Markup((await local.get("/?namespace=team-a")).text)
    assert not [each for each in there.named("a") if each["href"].startswith("/settings")]


@pytest.mark.parametrize(("query", "shown"), [("q=LEASE", {"lease_seconds"}), ("set=yes", {"port", "bootstrap_key"})])
async def test_settings_are_found_by_a_word_and_by_their_source(rig: Rig, query: str, shown: set[str]) -> None:
    """Each search is an address."""
    browser = await _admin(rig, f"finds {query}")
    words = Markup((await browser.get(f"/settings?{query}")).text).words
    assert {row.name for row in SETTINGS if row.name in words} == shown


# ---------------------------------------------------------------------------------------------------- namespaces


async def test_a_namespace_goes_through_its_steps(rig: Rig) -> None:
    """Added, renamed, bounded, closed, opened, closed and removed; each step is offered in its state alone."""
    browser = await _admin(rig, "steps")
    made = await browser.post("/namespaces", {"name": "team-z", "display_name": "Team <Z>"})
    assert 303 == made.status_code, made.text
    assert 409 == (await browser.post("/namespaces", {"name": "team-z"})).status_code
    assert 409 == (await browser.post("/namespaces/team-z/remove", {"confirm": "team-z"})).status_code
    for form, fields in (
        ("rename", {"display_name": "Zed", "version": "1"}), ("quotas", {"jobs": "4", "version": "2"}),
        ("close", {"version": "3"}), ("open", {"version": "4"}), ("close", {"version": "5"}),
    ):  # fmt: skip
        page = Markup((await browser.get("/namespaces/team-z")).text)
        assert f"/namespaces/team-z/{form}" in {each.get("action") for each in page.named("form")}
        answer = await browser.post(f"/namespaces/team-z/{form}", fields)
        assert 303 == answer.status_code, (form, answer.text)
    refused = await browser.post("/namespaces/team-z/remove", {"confirm": "team-a"})
    assert 422 == refused.status_code
    assert 303 == (await browser.post("/namespaces/team-z/remove", {"confirm": "team-z"})).status_code
    page = Markup((await browser.get("/namespaces/team-z")).text)
    assert "It is being removed, which cannot be undone. Left: 0 jobs" in page.words
    assert not [form for form in page.named("form") if "/namespaces/team-z" in form.get("action", "")]
    assert await _entries(rig, AuditAction.NAMESPACE_CHANGED, "steps") == 5
    assert await _entries(rig, AuditAction.NAMESPACE_REMOVED, "steps") == 1


async def test_quotas_stand_beside_what_is_used(rig: Rig) -> None:
    """A form that is refused keeps what was typed; a version of before is told."""
    browser = await _admin(rig, "bounds")
    await browser.post("/namespaces", {"name": "team-q"})
    assert 303 == (await browser.post("/namespaces/team-q/quotas", {"jobs": "4", "calendars": "1"})).status_code
    job, there = {"name": "a", "every": "1h"}, {"Tickwise-Namespace": "team-q"}
    assert 201 == (await rig.here.client.post(f"{API}/jobs", json=job, headers=there)).status_code
    words = Markup((await browser.get("/namespaces/team-q")).text).words
    assert "Active jobs that last14 25.0 %" in words
    for fields, told in (({"jobs": "many"}, "write a whole number"), ({"requests_per_second": "0"}, "from 0.001")):
        answer = await browser.post("/namespaces/team-q/quotas", fields)
        assert 422 == answer.status_code
        assert told in answer.text
        assert f'value="{next(iter(fields.values()))}"' in answer.text
    stale = await browser.post("/namespaces/team-q/quotas", {"jobs": "5", "version": "1"})
    assert 409 == stale.status_code
    assert 4 == (await rig.here.client.get(f"{API}/namespaces/team-q/quotas")).json()["jobs"]


async def test_an_administrator_of_a_namespace_sees_it_and_changes_its_name_alone(rig: Rig) -> None:
    """No other namespace, no quota, no end."""
    browser = await _admin(rig, "own", "team-a")
    words = Markup((await browser.get("/namespaces?namespace=team-a")).text).words
    assert "team-a" in words
    assert "New namespace" not in words
    page = Markup((await browser.get("/namespaces/team-a?namespace=team-a")).text)
    actions = {form.get("action", "") for form in page.named("form") if form.get("method") == "post"}
    assert actions == {"/logout", "/display", "/namespaces/team-a/rename?namespace=team-a"} or actions == {
        "/logout", "/display", "/namespaces/team-a/rename",
    }  # fmt: skip
    assert 404 == (await browser.get("/namespaces/default?namespace=team-a")).status_code
    assert 403 == (await browser.post("/namespaces/team-a/close?namespace=team-a")).status_code
    assert 403 == (await browser.post("/namespaces/team-a/quotas?namespace=team-a", {"jobs": "1"})).status_code


async def test_members_stand_with_their_roles(rig: Rig) -> None:
    """Of that namespace, also for an administrator who looks from another one."""
    await rig.signed_in("member", ("developer", "team-a"))
    browser = await _admin(rig, "sees members")
    page = Markup((await browser.get("/namespaces/team-a")).text)
    assert "member developer" in page.words.split("Members")[1]
    other = Markup((await browser.get("/namespaces/default")).text)
    assert "member developer" not in other.words


# ---------------------------------------------------------------------------------------------------- people


async def test_a_person_is_invited_and_chooses_a_password(rig: Rig) -> None:
    """By a link that is shown once and works once."""
    browser = await _admin(rig, "invites")
    answer = await browser.post("/users", {"name": "Grace", "role": "viewer", "namespace": "default"})
    assert 200 == answer.status_code, answer.text
    assert "no-store" == answer.headers["cache-control"]
    secret = _secret(answer.text, "twl")
    assert f"http://127.0.0.1:8470/choose-password/{secret}" in answer.text
    assert secret not in (await browser.get("/users")).text
    guest = rig.browser()
    assert 200 == (await guest.get(f"/choose-password/{secret}")).status_code
    for form in ({"password": PASSWORD, "password_again": "x"}, {"password": "short", "password_again": "short"}):
        refused = await guest.post("/choose-password", {"secret": secret, **form})
        assert 422 == refused.status_code
    chosen = {"secret": secret, "password": PASSWORD, "password_again": PASSWORD}
    assert 303 == (await guest.post("/choose-password", chosen)).status_code
    assert (
        401
        == (
            await guest.post("/choose-password", {**chosen, "password": ANOTHER, "password_again": ANOTHER})
        ).status_code
    )
    assert 303 == (await guest.sign_in("Grace")).status_code
    assert 200 == (await guest.get("/jobs")).status_code


async def test_no_password_is_chosen_over_clear_text(rig: Rig) -> None:
    """As no sign-in is."""
    browser = rig.browser(address="192.0.2.7", base="http://tickwise.example:8470")
    answer = await browser.get("/choose-password/twl_x")
    assert 403 == answer.status_code
    assert "plain HTTP" in answer.text
    form = {"secret": "twl_x", "password": PASSWORD, "password_again": PASSWORD}
    assert 403 == (await browser.post("/choose-password", form)).status_code


async def test_roles_are_given_and_taken(rig: Rig) -> None:
    """With labels; a form that is old is refused, and each change is on record."""
    browser = await _admin(rig, "gives")
    made = await browser.post("/users", {"name": "Heidi", "password": PASSWORD})
    assert 303 == made.status_code
    path = made.headers["location"].split("?")[0]
    given = {"role": "operator", "namespace": "team-a", "labels": "team=data", "version": "1"}
    assert 303 == (await browser.post(f"{path}/give", given)).status_code
    assert 409 == (await browser.post(f"{path}/give", given)).status_code
    page = Markup((await browser.get(path)).text)
    assert "operator in team-a team=data" in page.words
    [member] = [each["value"] for each in page.named("input") if each.get("name") == "member"]
    for fields, status in (({"member": "nobody|x"}, 422), ({"member": member, "version": "2"}, 303)):
        assert status == (await browser.post(f"{path}/take", fields)).status_code
    assert "No role yet" in Markup((await browser.get(path)).text).words
    assert 422 == (await browser.post(f"{path}/give", {"role": "wizard", "namespace": "default"})).status_code
    assert await _entries(rig, AuditAction.USER_CHANGED, "gives") == 2


async def test_a_person_is_changed_deactivated_and_comes_back(rig: Rig) -> None:
    """Who is deactivated is signed out, after a box is ticked."""
    browser, person = await _admin(rig, "ends"), await rig.signed_in("Ivan", ("viewer", "default"))
    page = Markup((await browser.get("/users")).text)
    assert "Ivan" in page.words
    rows = (await rig.here.client.get(f"{API}/users")).json()
    path = next(f"/users/{row['user_id']}" for row in rows if row["name"] == "Ivan")
    changed = await browser.post(f"{path}/change", {"name": "Ivan", "email": "ivan@example.org"})
    assert 303 == changed.status_code, changed.text
    assert 422 == (await browser.post(f"{path}/change", {"name": "Ivan", "email": "no address"})).status_code
    assert 422 == (await browser.post(f"{path}/deactivate")).status_code
    assert 303 == (await browser.post(f"{path}/deactivate", {"confirm": "yes"})).status_code
    rig.pages._sessions.forget(str(person.cookie).split("=", 1)[1])
    assert 303 == (await person.get("/jobs")).status_code
    assert 303 == (await browser.post(f"{path}/activate")).status_code
    link = await browser.post(f"{path}/reset")
    assert 200 == link.status_code
    assert _secret(link.text, "twl")


async def test_the_last_administrator_stays(rig: Rig) -> None:
    """The refusal is told on the page."""
    async with pages() as alone:
        browser = await _admin(alone, "only")
        rows = (await alone.here.client.get(f"{API}/users")).json()
        path = f"/users/{rows[0]['user_id']}"
        answer = await browser.post(f"{path}/deactivate", {"confirm": "yes"})
        assert 409 == answer.status_code
        assert "administrator" in answer.text


async def test_an_administrator_of_a_namespace_gives_roles_there_alone(rig: Rig) -> None:
    """What control refuses, the page refuses."""
    browser = await _admin(rig, "narrow", "team-a")
    form = {"name": "Judy", "role": "admin", "namespace": "default"}
    assert 403 == (await browser.post("/users?namespace=team-a", form)).status_code
    page = Markup((await browser.get("/users?namespace=team-a")).text)
    places = [each["value"] for each in page.named("option") if each.get("value") in ("*", "default", "team-a")]
    assert places == ["team-a"]


# ---------------------------------------------------------------------------------------------------- keys


async def test_a_key_is_made_used_rotated_and_revoked(rig: Rig) -> None:
    """Each secret is shown once, and works from then on."""
    browser = await _admin(rig, "keysmith")
    made = await browser.post(
        "/keys", {"name": "pipeline", "permissions": "jobs:read, runs:read", "namespace": "team-a"}
    )
    assert 200 == made.status_code, made.text
    secret = _secret(made.text, "tw")
    headers = {"Authorization": f"Bearer {secret}"}
    assert 200 == (await rig.here.client.get(f"{API}/jobs", headers=headers)).status_code
    listed = await browser.get("/keys")
    assert secret not in listed.text
    [path] = {each["action"].rsplit("/", 1)[0] for each in Markup(listed.text).named("form")
              if "/keys/" in each.get("action", "") and "rotate" in each["action"]}  # fmt: skip
    rotated = await browser.post(f"{path}/rotate", {"overlap_hours": "0"})
    assert 200 == rotated.status_code, rotated.text
    later = _secret(rotated.text, "tw")
    assert later != secret
    assert 422 == (await browser.post(f"{path}/rotate", {"overlap_hours": "100000"})).status_code
    assert 422 == (await browser.post(f"{path}/revoke")).status_code
    assert 303 == (await browser.post(f"{path}/revoke", {"confirm": "yes"})).status_code
    for action in (AuditAction.KEY_MADE, AuditAction.KEY_ROTATED, AuditAction.KEY_REVOKED):
        assert await _entries(rig, action, "keysmith") == 1, action


async def test_a_key_that_is_refused_comes_back_as_it_was_typed(rig: Rig) -> None:
    """With the fault at its field."""
    browser = await _admin(rig, "typist")
    for form, told in (
        ({"name": "x", "permissions": "jobs:fly"}, "there is no permission"),
        ({"role": "viewer"}, "give the key a name"),
        ({"name": "x", "role": "viewer", "expires_at": "2001-01-01T00:00"}, "expires_at is in the past"),
        ({"name": "x", "role": "viewer", "labels": "team"}, "write a label as name=value"),
    ):  # fmt: skip
        answer = await browser.post("/keys", form)
        assert 422 == answer.status_code, form
        assert told in answer.text


async def test_a_key_is_offered_what_its_visitor_may_do_with_it(rig: Rig) -> None:
    """Nobody rotates a key that does not depend on them, nor revokes one that is stronger."""
    browser = await _admin(rig, "looks", "team-a")
    page = Markup((await browser.get("/keys?namespace=team-a")).text)
    actions = [form.get("action", "") for form in page.named("form")]
    assert "someone" in page.words
    assert [each for each in actions if "/revoke" in each]
    assert not [each for each in actions if "/rotate" in each]


@pytest.mark.parametrize("path", ["/namespaces", "/users", "/keys", "/calendars", "/settings", "/timeline"])
async def test_hostile_names_stay_text(rig: Rig, path: str) -> None:
    """On the lists and on the pages of one."""
    hostile = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    browser = await _admin(rig, f"reads {path}")
    await browser.post("/namespaces", {"name": "team-h", "display_name": hostile})
    await browser.post("/users", {"name": f"x {path} {hostile}"[:100], "password": PASSWORD})
    await browser.post("/keys", {"name": hostile, "role": "viewer"})
    await browser.post("/calendars", {"name": hostile, "dates": f"2026-12-25 {hostile}"})
    await browser.post("/windows", {"name": hostile, "dates": f"2026-12-25 {hostile}", "reason": hostile})
    seen = [path]
    for each in Markup((await browser.get(path)).text).named("a"):
        if each["href"].startswith(path) and len(seen) < 8:
            seen.append(each["href"])
    for address in seen:
        answer = await browser.get(address)
        assert answer.status_code in (200, 404), address
        page = Markup(answer.text)
        assert not {"img"} & page.tags()
        assert all(each["src"].startswith("/static/") for each in page.named("script")), address


async def test_a_link_that_was_used_says_so_in_place_of_a_form(rig: Rig) -> None:
    """And a password that was chosen is told of at the sign-in."""
    admin = await _admin(rig, "invites again")
    invited = {"name": "Ivy", "role": "viewer", "namespace": "default"}
    secret = _secret((await admin.post("/users", invited)).text, "twl")
    browser = rig.browser()
    assert "Choose it" in (await browser.get(f"/choose-password/{secret}")).text
    form = {"secret": secret, "password": PASSWORD, "password_again": PASSWORD}
    chosen = await browser.post("/choose-password", form)
    assert 303 == chosen.status_code, chosen.text
    assert "Your password is stored." in (await browser.get(chosen.headers["location"])).text
    again = await browser.get(f"/choose-password/{secret}")
    assert 401 == again.status_code
    assert "it was used or is too old" in again.text
    assert "Choose it" not in again.text
    assert "To the sign-in" in again.text
