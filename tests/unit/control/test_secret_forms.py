"""The text of secrets: a scanner finds them, a typing error is told from a wrong key, and older forms stay good."""

from __future__ import annotations

import re
import string
from collections.abc import AsyncIterator
from typing import Final
from zlib import crc32

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.support.app import API, World, world
from tickwise.control.keys.forms import ALPHABET, PATTERN, SecretForms, SecretKind, checksum, is_genuine, new_secret
from tickwise.testing.clock import VirtualClock

OLD: Final = "tw_" + "Ab3_-" * 8 + "xyz"
"""The form of before: 43 characters of URL-safe base64."""


def spoiled(secret: str, place: int) -> str:
    """The secret with another character in this place."""
    other = ALPHABET[(ALPHABET.index(secret[place]) + 1) % len(ALPHABET)]
    return secret[:place] + other + secret[place + 1 :]


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


@pytest.mark.parametrize("kind", SecretKind)
def test_a_scanner_finds_each_kind_of_secret_whole(kind: SecretKind) -> None:
    """In a file of settings, a header and an address, and not in a longer word."""
    secret = new_secret(VirtualClock(), kind)
    for text in (f'KEY="{secret}"', f"Authorization: Bearer {secret}\r\n", f"?key={secret}&x=1"):
        assert [secret] == re.findall(PATTERN, text)
    assert not re.findall(PATTERN, f"x{secret}")
    assert not re.findall(PATTERN, f"{secret}x")


def test_the_checksum_is_the_crc_of_the_text_before_it() -> None:
    """By hand: CRC-32 as zlib has it, in base62 from 0 to z, with leading zeros."""
    secret = new_secret(VirtualClock())
    number = 0
    for digit in secret[-6:]:
        number = number * 62 + (string.digits + string.ascii_uppercase + string.ascii_lowercase).index(digit)
    assert crc32(secret[:-6].encode()) == number
    assert "000000" == checksum("", "")


@given(place=st.integers(3, 51))
def test_one_wrong_character_is_told_from_its_place(place: int) -> None:
    """Whichever it is, the checksum's own included."""
    secret, forms = new_secret(VirtualClock()), SecretForms()
    assert forms.fault(secret, SecretKind.KEY) is None
    assert "checksum" in (forms.fault(spoiled(secret, place), SecretKind.KEY) or "")
    assert is_genuine(secret)
    assert not is_genuine(spoiled(secret, place))


@pytest.mark.parametrize("kind", SecretKind)
def test_a_secret_of_another_kind_is_told_by_its_name(kind: SecretKind) -> None:
    """A refresh token where a key is needed, and the other way round."""
    secret, forms = new_secret(VirtualClock(), kind), SecretForms()
    for wanted in SecretKind:
        fault = forms.fault(secret, wanted)
        assert (fault is None) == (wanted is kind)
        assert fault is None or secret not in fault


@pytest.mark.parametrize("text", [OLD, "a key that somebody chose", "tw_short", "e3b0c44298fc1c149afbf4c8996fb924", ""])
def test_a_text_of_another_form_is_looked_up(text: str) -> None:
    """Keys of before, and keys that operators chose."""
    for kind in SecretKind:
        assert SecretForms().fault(text, kind) is None


def test_the_bootstrap_key_may_look_like_a_mistyped_one() -> None:
    """The key of the settings may have any form; others of that form stay refused."""
    chosen = spoiled(new_secret(VirtualClock()), 10)
    assert SecretForms(chosen).fault(chosen, SecretKind.KEY) is None
    assert SecretForms(chosen).fault(spoiled(chosen, 11), SecretKind.KEY) is not None


async def test_a_mistyped_key_is_refused_without_a_query(here: World) -> None:
    """401 with a text of its own, which repeats nothing of the key; the store is not asked."""
    key = (await here.client.post(f"{API}/keys", json={"name": "ci", "scopes": ["jobs:read"]})).json()["key"]
    wrong = spoiled(key, 20)
    asked: list[bytes] = []
    find = here.store.keys.find

    async def counted(digest: bytes):  # type: ignore[no-untyped-def]  # the port's own
        asked.append(digest)
        return await find(digest)

    here.store.keys.find = counted  # type: ignore[method-assign]  # counts the queries
    answer = await here.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {wrong}"})
    assert (401, []) == (answer.status_code, asked)
    assert "checksum" in answer.json()["detail"]
    assert wrong not in answer.text
    assert 200 == (await here.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {key}"})).status_code
    assert asked


async def test_secrets_of_before_are_taken(here: World) -> None:
    """A key of the release before goes on to work."""
    await here.key(OLD, "jobs:read")
    assert 200 == (await here.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {OLD}"})).status_code
