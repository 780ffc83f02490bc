"""An address says what its page shows: a parameter that the page does not know is refused, not ignored."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.pages import Browser, Markup, pages
from tests.unit.web.test_access import SOME_ID
from tickwise.web.page import WebPage
from tickwise.web.views import PAGES

GUARDED = [page for page in PAGES if not page.is_open]


@pytest_asyncio.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Of an administrator."""
    async with pages() as made:
        yield await made.signed_in("asker", ("admin", "*"))


@pytest.mark.parametrize("page", GUARDED, ids=lambda page: page.name)
async def test_a_parameter_that_a_page_does_not_know_is_refused(browser: Browser, page: WebPage) -> None:
    """With its name, and those that there are. The namespace is one of every page."""
    path = re.sub(r"\{[^}]*\}", SOME_ID, page.path)
    ask = browser.post if page.method == "POST" else browser.get
    answer = await ask(f"{path}?namespace=default&scale=hour")
    words = Markup(answer.text).words
    assert (422, True) == (answer.status_code, "scale" in words), words
    for name in page.query:
        assert name in words, words


async def test_an_empty_parameter_of_another_page_is_none(browser: Browser) -> None:
    """A browser sends the empty fields of a form, too."""
    assert 200 == (await browser.get("/timeline?scale=&namespace=default")).status_code
