"""A cursor comes back from clients, and may hold anything: each listing refuses one that is none of its own, in our
words."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from tests.support import databases
from tests.support.app import World, world
from tests.support.people import signing_key
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.api.endpoint import Endpoint
from tickwise.api.resources import RESOURCES

LISTINGS: Final = [each for each in RESOURCES if each.query is not None and "cursor" in each.query.__struct_fields__]

BYTES: Final = [b"", b"\0", b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"' or 1=1--", b"%", b"\\", b"zz" * 150]
NUMBERS: Final = ["nan", "inf", "-inf", "1e308", "1e999", "-1e18", "9" * 30, "0", "-1", "1_0", "\u0669", str(2**63)]
IDS: Final = [str(UUID(int=0)), str(UUID(int=2**128 - 1)), "x" * 36, f"urn:uuid:{UUID(int=7)}", "{" + "0" * 32]
CONTENTS: Final = [
    *BYTES,
    *(each.encode() for each in (*NUMBERS, *IDS)),
    *(f"{at} {entry}".encode() for at in NUMBERS for entry in ("1", str(2**63), "-1", "9" * 30, "nan")),
]
RAW: Final = ["A", "AAAAA", "-", "_" * 500]
"""Spellings that are no base64."""

OWN_WORDS: Final = {200, 400, 404, 422}
"""404: of what a listing is about, which is not there."""
FOREIGN: Final = ("query argument", "PostgreSQL", "asyncpg", "$1", "OverflowError", "out of range")


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def here(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[World]:
    if request.param == "memory":
        async with world(store=MemoryStore(SystemClock())) as made:
            yield made
        return
    async with databases.database(postgres_url) as url:
        await upgrade(url)
        async with world(store=PostgresStore(url, clock=SystemClock())) as made:
            yield made


def test_the_listings_are_found() -> None:
    """By their query, so that a new one is among them."""
    assert {"listAudit", "listJobs", "listKeys", "listNamespaces", "listRuns"} <= {each.name for each in LISTINGS}


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda each: str(each.name))
async def test_odd_cursors_are_refused_in_our_words_or_are_places(here: World, listing: Endpoint) -> None:
    """Never an internal error, and no word of the driver or the database."""
    made = await here.client.post(
        "/api/v1/jobs",
        json={"name": "a", "cron": "0 3 * * *", "schedule_type": "CRON", "task": {"kind": "shell", "command": "date"}},
    )
    path = listing.path.replace("{job_id}", made.json()["job_id"])
    for name in ("run_id", "task_id", "key", "operation_id", "queue", "key_id", "user_id", "namespace"):
        path = path.replace("{" + name + "}", str(uuid4()))
    cursors = [urlsafe_b64encode(each).rstrip(b"=").decode() for each in CONTENTS]
    for content, cursor in zip([*CONTENTS, *RAW], [*cursors, *RAW], strict=True):
        answer = await here.client.get(path, params={"cursor": cursor})
        assert answer.status_code in OWN_WORDS, (content, answer.text)
        assert not [word for word in FOREIGN if word in answer.text], (content, answer.text)
        if answer.status_code in (400, 422):
            assert "cursor" in answer.text, (content, answer.text)


async def test_a_name_that_no_account_can_have_is_refused_in_our_words(here: World) -> None:
    """At the way in, which is open to strangers: they are told nothing of what is behind it."""
    await here.control.bearers.sign_with(signing_key())
    for name in ("a\0b", "a@\0"):
        answer = await here.client.post(
            "/api/v1/auth/token", json={"grant_type": "password", "username": name, "password": "x" * 20}
        )
        assert answer.status_code == 400, answer.text
        assert not [word for word in FOREIGN if word in answer.text], answer.text
        assert answer.json()["pointer"] == "/username", answer.text
