"""Secrets on the pages: set, replaced and removed; no page shows a value."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tickwise.adapters.secrets.own import OwnSecrets
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.secrets import WantedSecret

VALUE = "correct-horse-battery-staple"


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def value_of(rig: Rig, name: str) -> Any:
    """The value that a task would get."""
    wanted = WantedSecret("default", name)
    assert rig.here.control.context.sealer is not None
    return (await OwnSecrets(rig.here.store.secrets, rig.here.control.context.sealer).values([wanted]))[wanted]


async def test_a_secret_is_set_replaced_and_removed_on_its_page(rig: Rig) -> None:
    """In the navigation; line ends come as programs expect them; no page has the value."""
    browser = await rig.signed_in("developer", ("developer", "default"))
    empty = Markup((await browser.get("/secrets")).text)
    assert "There is no secret in default." in empty.words
    assert "/secrets" in {each["href"] for each in empty.named("a")}
    texts = []
    answer = await browser.post("/secrets", {"name": "tls-key", "secret": f"{VALUE}\r\nsecond line\r\n"})
    assert (303, "/secrets?done=set") == (answer.status_code, answer.headers["location"])
    assert f"{VALUE}\nsecond line\n".encode() == await value_of(rig, "tls-key")
    texts.append((await browser.get("/secrets?done=set")).text)
    page = Markup(texts[0])
    assert "secret:tls-key" in page.words
    taken = await browser.post("/secrets", {"name": "tls-key", "secret": VALUE})
    assert (409, True) == (taken.status_code, "replace it in the list" in taken.text)
    path = "/secrets/tls-key/replace"
    assert 303 == (await browser.post(path, {"version": "1", "secret": "newer"})).status_code
    stale = await browser.post(path, {"version": "1", "secret": VALUE})
    assert (409, b"newer") == (stale.status_code, await value_of(rig, "tls-key"))
    unsure = await browser.post("/secrets/tls-key/remove")
    assert (422, True) == (unsure.status_code, "ick the box" in unsure.text)
    assert 303 == (await browser.post("/secrets/tls-key/remove", {"confirm": "yes"})).status_code
    assert [] == (await rig.here.client.get(f"{API}/secrets")).json()
    texts += [taken.text, stale.text, unsure.text, (await browser.get("/secrets")).text]
    assert not [text for text in texts if VALUE in text or "newer" in text]


@pytest.mark.parametrize(("name", "value", "field"), [("-x", VALUE, "name"), ("a", "", "value"), ("", VALUE, "name")])
async def test_a_fault_is_at_its_field_and_no_value_comes_back(rig: Rig, name: str, value: str, field: str) -> None:
    """The name does."""
    browser = await rig.signed_in("developer", ("developer", "default"))
    answer = await browser.post("/secrets", {"name": name, "secret": value})
    page = Markup(answer.text)
    assert (422, True) == (answer.status_code, VALUE not in answer.text)
    [wrong] = [each for tag in ("input", "textarea") for each in page.named(tag) if each.get("aria-invalid") == "true"]
    assert {"name": "name", "value": "secret"}[field] == wrong["name"]
    assert name in [each.get("value") for each in page.named("input") if each.get("name") == "name"]


async def test_no_value_comes_back_from_a_store_that_is_away_or_a_session_that_is_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other fields do: they are typed once."""
    browser = await rig.signed_in("developer", ("developer", "default"))

    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(rig.here.store.secrets, "put", away)
        failed = await browser.post("/secrets", {"name": "db-password", "secret": VALUE})
    assert (503, True, False) == (failed.status_code, "db-password" in failed.text, VALUE in failed.text)
    stranger = rig.browser(address="127.0.3.3")
    over = await stranger.post("/secrets", {"name": "db-password", "secret": VALUE})
    assert (401, True, False) == (over.status_code, "db-password" in over.text, VALUE in over.text)


async def test_the_page_of_a_secret_names_its_users_and_a_removal_asks(rig: Rig) -> None:
    """The list counts jobs; one box is not enough to remove a secret that is used, and nothing is lost until then."""
    await rig.here.client.put(f"{API}/secrets/db", json={"value": VALUE})
    task = {"kind": "shell", "command": "date", "env": {"A": "secret:db"}}
    body = {"name": "nightly <b>", "task": task, "cron": "0 2 * * *"}
    job = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
    await rig.here.client.post(f"{API}/tasks", json={"taskId": "shared", "task": task})
    browser = await rig.signed_in("developer", ("developer", "default"))
    listed = Markup((await browser.get("/secrets")).text)
    assert "/secrets/db" in {each["href"] for each in listed.named("a")}
    page = Markup((await browser.get("/secrets/db")).text)
    assert "1 job and 1 stored task. Without the secret, runs fail." in page.words
    assert ("nightly <b>" in page.words, "stored task shared" in page.words) == (True, True)
    assert f"/jobs/{job}" in {each["href"] for each in page.named("a")}
    refused = await browser.post("/secrets/db/remove", {"confirm": "yes"})
    page = Markup(refused.text)
    assert (409, True) == (
        refused.status_code,
        "It is in use: look below, then decide. Nothing was changed." in page.words,
    )
    assert {"confirm", "force"} == {each["name"] for each in page.named("input") if each.get("type") == "checkbox"}
    assert 303 == (await browser.post("/secrets/db/remove", {"confirm": "yes", "force": "yes"})).status_code
    assert 404 == (await browser.get("/secrets/db")).status_code


async def test_a_secret_is_replaced_on_its_own_page(rig: Rig) -> None:
    """By the version that the page showed; who may only look is offered no form."""
    await rig.here.client.put(f"{API}/secrets/db", json={"value": "first"})
    browser = await rig.signed_in("developer", ("developer", "default"))
    page = Markup((await browser.get("/secrets/db")).text)
    assert ["/secrets/db/replace", "/secrets/db/remove"] == [
        each["action"] for each in page.named("form") if each.get("action", "").startswith("/secrets/")
    ]
    (version,) = [each["value"] for each in page.named("input") if each.get("name") == "version"]
    sent = await browser.post("/secrets/db/replace", {"version": version, "secret": VALUE})
    assert (303, VALUE.encode()) == (sent.status_code, await value_of(rig, "db"))
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    assert "/secrets/db/replace" not in (await viewer.get("/secrets/db")).text


async def test_the_page_of_a_secret_that_nothing_uses_says_so(rig: Rig) -> None:
    """A viewer sees it without a form."""
    await rig.here.client.put(f"{API}/secrets/db", json={"value": VALUE})
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    page = Markup((await viewer.get("/secrets/db")).text)
    assert "No job and no stored task of default names it." in page.words
    assert not [each for each in page.named("form") if "secrets" in each.get("action", "")]


async def test_who_may_only_look_has_no_form(rig: Rig) -> None:
    """And without a permission there is no page."""
    await rig.here.client.put(f"{API}/secrets/db", json={"value": VALUE})
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    page = Markup((await viewer.get("/secrets")).text)
    assert "secret:db" in page.words
    assert not [each for each in page.named("form") if "secrets" in each.get("action", "")]
    assert 403 == (await viewer.post("/secrets", {"name": "a", "secret": VALUE})).status_code
