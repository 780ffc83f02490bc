"""Filters of a list are saved under a name, for oneself or for all of the namespace, and lead back to the list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.support.pages import Markup, Rig, pages
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.store import MAX_VIEWS, SHARED

HOSTILE = "</a><script>alert(1)</script>"


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


def links(text: str, path: str) -> list[str]:
    """The links to a list with filters."""
    return [each["href"] for each in Markup(text).named("a") if each.get("href", "").startswith(f"{path}?")]


async def test_a_view_is_saved_and_leads_back_to_its_list(rig: Rig) -> None:
    """It stands in the head of the list and in the palette, of its owner alone."""
    ada = await rig.signed_in("ada", ("operator", "default"))
    query = "status=FAILED&label=customer%3Dacme"
    page = Markup((await ada.get(f"/runs?{query}")).text)
    assert "Save this view" in page.words
    sent = {
        each["name"]: each.get("value", "") for each in page.named("input") if each.get("name") in ("path", "query")
    }
    saved = await ada.post("/views", {**sent, "name": "  acme   failed "})
    assert 303 == saved.status_code, saved.text
    found = await ada.get("/runs")
    assert "acme failed" in Markup(found.text).words
    [address] = {each for each in links(found.text, "/runs") if "acme" in each}
    shown = Markup((await ada.get(address)).text)
    assert "Save this view" not in shown.words
    assert ["true"] == [each["aria-current"] for each in shown.named("a") if each.get("href") == address]
    assert f'href="{address.replace("&", "&amp;")}"' in (await ada.get("/find?q=acme+fai")).text
    assert "acme failed" not in (await ada.get("/jobs")).text
    bob = await rig.signed_in("bob", ("operator", "default"))
    for path in ("/runs", "/find?q=acme"):
        assert "acme failed" not in (await bob.get(path)).text


async def test_a_shared_view_is_for_all_of_the_namespace(rig: Rig) -> None:
    """Who may change or operate its jobs shares and removes it; a reader uses it."""
    ada = await rig.signed_in("ada", ("operator", "default"))
    vera = await rig.signed_in("vera", ("viewer", "default"))
    form = {"path": "/jobs", "query": "owner=ops", "name": "ours", "shared": "yes"}
    assert 403 == (await vera.post("/views", form)).status_code
    assert 303 == (await ada.post("/views", form)).status_code
    words = Markup((await vera.get("/jobs")).text).words
    assert "ours shared by ada" in words
    assert "Remove the saved view" not in (await vera.get("/jobs")).text
    gone = {"path": "/jobs", "name": "ours", "shared": "yes", "back": "/jobs?owner=ops"}
    assert 403 == (await vera.post("/views/remove", gone)).status_code
    back = await ada.post("/views/remove", gone)
    assert (303, "/jobs?owner=ops") == (back.status_code, back.headers["location"])
    assert 303 == (await ada.post("/views/remove", gone)).status_code
    assert [] == list(await rig.here.store.saved_views.find("default", [SHARED]))


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"path": "//evil.example", "query": "owner=x"}, 422),
        ({"path": "/audit", "query": "owner=x"}, 422),
        ({"query": "colour=red"}, 422),
        ({"query": ""}, 422),
        ({"query": "cursor=abc&namespace=team-a"}, 422),
        ({"query": "owner=" + "x" * 3_000, "name": "long"}, 303),
        ({"name": "  "}, 422),
        ({"name": "x" * 61}, 422),
        ({"name": "a\u202eb"}, 422),
        ({"name": "a\u0000b"}, 422),
    ],
)
async def test_only_a_filter_of_a_list_is_saved(rig: Rig, said: dict[str, str], status: int) -> None:
    """Under a name that can be seen."""
    ada = await rig.signed_in("ada", ("operator", "default"))
    answer = await ada.post("/views", {"path": "/jobs", "query": "owner=ops", "name": "ours", **said})
    assert status == answer.status_code, answer.text
    if status == 303:
        assert answer.headers["location"].startswith("/jobs?owner=")


async def test_a_name_is_text_and_a_filter_stays_in_its_address(rig: Rig) -> None:
    """Neither becomes markup."""
    ada = await rig.signed_in("ada", ("operator", "default"))
    query = f"name={quote(HOSTILE)}"
    assert 303 == (await ada.post("/views", {"path": "/jobs", "query": query, "name": HOSTILE})).status_code
    for path in ("/jobs", f"/jobs?{query}", "/find?q=script"):
        text = (await ada.get(path)).text
        assert "<script>alert" not in text, path
        assert "&lt;script&gt;alert(1)" in text, path


async def test_nobody_has_too_many(rig: Rig) -> None:
    """The page says so."""
    ada = await rig.signed_in("ada", ("operator", "default"))
    for number in range(MAX_VIEWS):
        assert 303 == (await ada.post("/views", {"path": "/jobs", "query": "owner=x", "name": str(number)})).status_code
    answer = await ada.post("/views", {"path": "/jobs", "query": "owner=x", "name": "one more"})
    assert 409 == answer.status_code
    assert f"you have {MAX_VIEWS} saved views" in Markup(answer.text).words.lower()


async def test_lists_are_there_while_views_cannot_be_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them."""
    ada = await rig.signed_in("ada", ("operator", "default"))

    async def away(*_: object) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(rig.here.store.saved_views, "find", away)
    for path in ("/jobs", "/runs", "/find?q=x"):
        assert 200 == (await ada.get(path)).status_code, path


async def test_a_view_of_another_namespace_stays_there(rig: Rig) -> None:
    """Its address names the namespace."""
    await rig.here.key("elsewhere", "jobs:read", namespace="team-a")
    ada = await rig.signed_in("ada", ("operator", "team-a"), ("operator", "default"))
    form = {"path": "/jobs", "query": "owner=x", "name": "theirs"}
    assert 303 == (await ada.post("/views?namespace=default", form)).status_code
    text = (await ada.get("/jobs?namespace=default")).text
    home = (await ada.get("/jobs?namespace=team-a")).text
    assert ("theirs" in Markup(text).words, "theirs" in Markup(home).words) == (True, False)
