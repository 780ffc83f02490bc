"""A person signs in by a certified provider, in a browser: from the page that was asked for to that page, and out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.services.oidc_provider import CLIENT, SECRET, OidcProviderServer
from tests.services.server import free_port
from tests.support.local_up import Local, local_up


@pytest.fixture(scope="module")
def signed_by_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A Tickwise that a provider signs people in to. The provider tells it logouts."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = OidcProviderServer([f"{url}/login/provider/callback"], logout=f"{url}/api/v1/auth/providers/logout")
    try:
        asyncio.run(server.start())
        with local_up(
            tmp_path_factory.mktemp("sso") / "data", "--port", str(port),
            TICKWISE_PUBLIC_URL=url, TICKWISE_OIDC_ISSUER=server.url, TICKWISE_OIDC_CLIENT_ID=CLIENT,
            TICKWISE_OIDC_CLIENT_SECRET=SECRET, TICKWISE_OIDC_SCOPES="openid,profile,email,groups",
            TICKWISE_OIDC_ROLES="ops=admin@*; dev=developer", TICKWISE_PASSWORD_SIGN_IN="admins",
            TICKWISE_OIDC_BUTTON="Sign in with Example Corp",
        ) as up:  # fmt: skip
            yield up
    finally:
        asyncio.run(server.remove())


def test_a_person_signs_in_by_the_provider_and_out_again(
    signed_by_provider: Local, context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    """The button comes first; after the provider the page that was asked for is there; the way out leads by both."""
    page = context().new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{signed_by_provider.url}/jobs?status=PAUSED")
    button = page.get_by_role("link", name="Sign in with Example Corp")
    expect(button).to_be_visible()
    pictures = Path(os.environ.get("TICKWISE_TEST_PICTURES", tmp_path))
    page.screenshot(path=pictures / "sign-in.png")
    button.click()
    expect(page.get_by_text("asks who you are")).to_be_visible()
    page.get_by_label("Name").fill("ada")
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/jobs?status=PAUSED")
    expect(page.get_by_text("ada", exact=True).first).to_be_attached()
    page.screenshot(path=pictures / "signed-in.png")
    page.goto(f"{signed_by_provider.url}/login/provider")
    page.wait_for_url("**/")
    page.request.post(f"{signed_by_provider.url}/logout", headers={"Sec-Fetch-Site": "same-origin"})
    page.goto(f"{signed_by_provider.url}/login?done=out")
    page.get_by_role("link", name="Sign out at the provider, too").click()
    page.screenshot(path=pictures / "signed-out.png")
    assert page.url.startswith(signed_by_provider.environ["TICKWISE_OIDC_ISSUER"])
    assert [] == wrong
