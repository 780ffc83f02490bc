"""A proxy before the pages signs people in by headers: on its own connections, and on no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any, Final
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.pages import Browser, Markup, Rig, pages
from tests.support.people import person
from tickwise.control.people.sso.proxy import EMAIL_CLAIM, GROUPS_CLAIM, NAME_CLAIM, PROXY_ISSUER, ProxyConfig
from tickwise.control.people.sso.rules import ProviderRules
from tickwise.domain.accounts.role_mapping import read_role_mapping
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.identities import Identity
from tickwise.testing.clock import VirtualClock
from tickwise.web.sessions import KNOWN_SECONDS
from tickwise.web.vouching.headers import ProxyHeaders

PROXY: Final = "127.0.0.9"
ADA: Final = {"Remote_User": "ada", "Remote_Email": "ada@example.com", "Remote_Groups": "dev, everybody"}


def _config(**rules: Any) -> ProxyConfig:
    given: dict[str, Any] = {
        "public_url": "",
        "roles": read_role_mapping("ops=admin@*; dev=developer"),
        "groups_claim": GROUPS_CLAIM,
        "name_claim": NAME_CLAIM,
        "email_claim": EMAIL_CLAIM,
        **rules,
    }
    return ProxyConfig(ProviderRules(**given), "/oauth2/sign_out")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def rig(clock: VirtualClock) -> AsyncIterator[Rig]:
    headers = ProxyHeaders(networks=(ip_network(PROXY),))
    async with pages(clock=clock, proxies=headers, proxy=_config()) as made:
        yield made


async def _signed_in(rig: Rig, **headers: str) -> Browser:
    browser = rig.browser(address=PROXY)
    answer = await browser.get("/login?next=/jobs", **(headers or ADA))
    assert (303, "/jobs") == (answer.status_code, answer.headers["location"]), answer.text
    return browser


async def test_the_person_whom_the_proxy_names_is_signed_in_without_a_click(rig: Rig) -> None:
    """A page leads to the sign-in, and that back: with the roles of the groups."""
    browser = rig.browser(address=PROXY)
    asked = await browser.get("/jobs", **ADA)
    assert "/login?next=%2Fjobs" == asked.headers["location"]
    assert 303 == (await browser.get(asked.headers["location"], **ADA)).status_code
    page = await browser.get("/jobs", **ADA)
    assert 200 == page.status_code
    assert "ada" in Markup(page.text).words
    (row,) = [each for each in await rig.here.store.users.page(None, after=None, limit=10) if each.name == "ada"]
    assert ([("default", "developer")], "ada@example.com") == ([each[:2] for each in row.roles], row.email)


async def test_the_audit_log_says_that_a_proxy_vouched(rig: Rig) -> None:
    """Its detail names the way and the issuer."""
    await _signed_in(rig)
    query = AuditQuery(namespace=INSTALLATION, action=AuditAction.SIGNED_IN)
    (entry,) = await rig.here.store.audit.find(query)
    assert entry.detail is not None
    assert '"how":"proxy"' in entry.detail.replace(" ", "")
    assert '"issuer":"proxy"' in entry.detail.replace(" ", "")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.10", "10.0.0.9", "::1"])
async def test_a_header_from_another_address_is_refused(rig: Rig, address: str) -> None:
    """With the reason, and no session; the password stays a way in. A header that names the proxy changes nothing."""
    browser = rig.browser(address=address)
    answer = await browser.get("/login", **ADA, X_Forwarded_For=PROXY, Forwarded=f"for={PROXY}")
    assert 401 == answer.status_code if address != "10.0.0.9" else answer.status_code in (401, 403)
    assert "set-cookie" not in answer.headers
    assert [] == [
        each.name for each in await rig.here.store.users.page(None, after=None, limit=10) if each.name == "ada"
    ]


async def test_the_reason_of_a_refusal_names_the_address(rig: Rig) -> None:
    """An operator whose proxy has moved sees it at once."""
    answer = await rig.browser(address="127.0.0.1").get("/login", **ADA)
    assert "signs nobody in from 127.0.0.1" in Markup(answer.text).words


async def test_a_session_is_good_on_connections_of_the_proxy_alone(rig: Rig) -> None:
    """A cookie that was taken away is nothing elsewhere, nor without the header."""
    browser = await _signed_in(rig)
    cookie = browser.cookie
    elsewhere = rig.browser(address="127.0.0.1")
    elsewhere.cookie = cookie
    assert 303 == (await elsewhere.get("/jobs", **ADA)).status_code
    without = rig.browser(address=PROXY)
    without.cookie = cookie
    assert "/login?next=%2Fjobs" == (await without.get("/jobs")).headers["location"]


@pytest.mark.parametrize(
    "changed",
    [{"Remote_User": "eve"}, {"Remote_Groups": "dev"}, {"Remote_Groups": ""}, {"Remote_Email": "eve@example.com"}],
)
async def test_a_session_ends_when_the_proxy_says_something_else(rig: Rig, changed: dict[str, str]) -> None:
    """Another person at one browser is not the one before, and a group that was taken away counts at the next page."""
    browser = await _signed_in(rig)
    answer = await browser.get("/jobs", **{**ADA, **changed})
    assert (303, "/login?next=%2Fjobs") == (answer.status_code, answer.headers["location"])


async def test_groups_in_another_order_are_the_same(rig: Rig) -> None:
    """A proxy may tell them as they come."""
    browser = await _signed_in(rig)
    assert 200 == (await browser.get("/jobs", **{**ADA, "Remote_Groups": "everybody,dev"})).status_code


async def test_another_group_gives_another_role_at_once(rig: Rig, clock: VirtualClock) -> None:
    """The sign-in that follows the change is made without a click, too."""
    browser = await _signed_in(rig)
    more = {**ADA, "Remote_Groups": "ops"}
    assert 303 == (await browser.get("/login?next=/users", **more)).status_code
    await clock.advance(KNOWN_SECONDS + 1)
    assert 200 == (await browser.get("/users", **more)).status_code


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("Remote-User", "ada"), ("Remote-User", "root"), ("Remote-Groups", "ops")], "comes 2 times"),
        ([("Remote-User", "ada"), ("Remote-Groups", "dev"), ("remote-groups", "ops")], "comes 2 times"),
        ([("Remote-User", "a" * 256), ("Remote-Groups", "ops")], "too long"),
        ([("Remote-User", "a\x01da"), ("Remote-Groups", "ops")], "cannot be shown"),
        ([("Remote-User", b"\xff\xfe"), ("Remote-Groups", "ops")], "no UTF-8"),
        ([("Remote-User", "ada"), ("Remote-Groups", ",".join(map(str, range(1_001))))], "more than 1000 groups"),
        ([("Remote-User", "ada"), ("Remote-Groups", "guests")], "none of your groups"),
        ([("Remote-User", "ada")], "none of your groups"),
    ],
)
async def test_headers_that_say_too_much_or_nothing_sign_nobody_in(
    rig: Rig, headers: list[tuple[str, Any]], reason: str
) -> None:
    """A header twice is a client's beside the proxy's."""
    client = rig.browser(address=PROXY).client
    answer = await client.get("/login", headers=[(name.encode(), _bytes(value)) for name, value in headers])
    assert 401 == answer.status_code
    assert reason in Markup(answer.text).words
    assert "set-cookie" not in answer.headers


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


async def test_a_local_account_of_the_same_name_is_not_taken(rig: Rig) -> None:
    """A name never leads to an account; an administrator ties it."""
    user = await person(rig.here, "ada", ("viewer", "default"))
    browser = rig.browser(address=PROXY)
    answer = await browser.get("/login", **ADA)
    assert (401, True) == (answer.status_code, "tie it" in answer.text)
    await rig.here.store.identities.link(Identity(PROXY_ISSUER, "ada"), UUID(user["user_id"]))
    assert 303 == (await browser.get("/login", **ADA)).status_code


async def test_who_signed_out_is_not_signed_in_again_at_once(rig: Rig) -> None:
    """The page leads back in, and out at the proxy."""
    browser = await _signed_in(rig)
    answer = await browser.post("/logout", None, **ADA)
    assert (303, "/login?done=out") == (answer.status_code, answer.headers["location"])
    page = await browser.get("/login?done=out", **ADA)
    assert (200, False) == (page.status_code, "set-cookie" in page.headers)
    assert "/oauth2/sign_out" in page.text
    assert "Sign in as ada" in Markup(page.text).words
    back = await browser.post("/login/proxy", {"next": "/runs"}, **ADA)
    assert (303, "/runs") == (back.status_code, back.headers["location"])


async def test_what_was_typed_comes_back_after_the_sign_in(rig: Rig) -> None:
    """A session that ended in the middle of a form loses nothing."""
    browser = await _signed_in(rig)
    browser.cookie = None
    asked = await browser.post("/jobs/new", {"name": "nightly"}, **ADA)
    assert (401, True) == (asked.status_code, 'name="typed.name" value="nightly"' in asked.text)
    answer = await browser.post("/login/proxy", {"next": "/jobs/new", "typed.name": "nightly"}, **ADA)
    assert (200, True) == (answer.status_code, "nightly" in answer.text)


async def test_a_form_from_elsewhere_signs_nobody_in(rig: Rig) -> None:
    """The headers come with each request of the browser, so where a form comes from counts."""
    answer = await rig.browser(address=PROXY).post("/login/proxy", {}, **ADA, Sec_Fetch_Site="cross-site")
    assert (403, False) == (answer.status_code, "set-cookie" in answer.headers)


async def test_without_proxies_the_header_is_nothing() -> None:
    """Neither a way in nor a fault: some proxies send it to everything behind them."""
    async with pages() as rig:
        answer = await rig.browser(address=PROXY).get("/login", **ADA)
        assert (200, False) == (answer.status_code, "set-cookie" in answer.headers)
        assert 401 == (await rig.browser(address=PROXY).post("/login/proxy", {}, **ADA)).status_code


async def test_nobody_is_added_where_an_administrator_adds_people() -> None:
    """The sentence says how an account is tied to the name."""
    headers = ProxyHeaders(networks=(ip_network("127.0.0.0/8"),))
    async with pages(proxies=headers, proxy=_config(adds_people=False)) as rig:
        answer = await rig.browser(address=PROXY).get("/login", **ADA)
        assert (401, True) == (answer.status_code, "tickwise users link" in answer.text)


async def test_a_password_session_does_not_mind_the_proxy(rig: Rig) -> None:
    """It came of no proxy, and is good on each way."""
    await person(rig.here, "Bo", ("viewer", "default"))
    browser = rig.browser(address="127.0.0.1")
    assert 303 == (await browser.sign_in("Bo")).status_code
    assert 200 == (await browser.get("/jobs")).status_code
    assert 200 == (await browser.get("/jobs", **ADA)).status_code
