"""The private key of tokens: a file that others read, replace or lose, and clocks that differ."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import jwt
import pytest

from tests.security.probes import probe
from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import ask, person, signed_in, signing_key
from tickwise.config import load
from tickwise.control.people.bearers import RELOAD_SECONDS
from tickwise.control.people.tokens import ACCESS_SECONDS, ALGORITHM, SKEW_SECONDS, TYPE
from tickwise.domain.errors import Misconfigured
from tickwise.testing.clock import VirtualClock
from tickwise.wiring.keys.token_key import sign_tokens
from tickwise.wiring.private_files import TOKEN_KEY


async def signs_with(here: World, folder: Path, file: Path | None, *, makes: bool = False) -> None:
    """Start to make tokens as a process with these settings does."""
    variables = {"TICKWISE_DATA_DIR": str(folder)}
    if file is not None:
        variables["TICKWISE_TOKEN_KEY_FILE"] = str(file)
    await sign_tokens(load(variables), here.control, makes=makes)


async def status(here: World, token: str) -> int:
    return (await ask(here, token, "GET", "/auth/me")).status_code


@probe(10, stopped_by="exit 6 with the command that closes the file: a key that others can read signs nothing")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o622])
async def test_a_key_file_that_others_reach_is_refused(tmp_path: Path, mode: int) -> None:
    """The private key of tokens can be read or written by the group, or by everybody."""
    async with world() as here:
        await signs_with(here, tmp_path, None, makes=True)
        file = tmp_path / TOKEN_KEY
        assert 0o600 == stat.S_IMODE(file.stat().st_mode)
        file.chmod(mode)
        with pytest.raises(Misconfigured, match="chmod 600"):
            await signs_with(here, tmp_path, file)


@probe(10, stopped_by="exit 6 with the file's name: no process falls back to a key of its own")
@pytest.mark.parametrize(
    "content", [None, "", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
async def test_a_key_file_that_is_missing_or_none_is_refused(tmp_path: Path, content: str | None) -> None:
    """The file is gone, empty or something else, so that tokens would be signed by nothing that others know."""
    file = tmp_path / "token.pem"
    if content is not None:
        file.touch(mode=0o600)
        file.write_text(content)
    async with world() as here:
        with pytest.raises(Misconfigured, match="token"):
            await signs_with(here, tmp_path, file, makes=True)
        assert not (tmp_path / TOKEN_KEY).exists()


@probe(10, stopped_by="a public key is published before it signs, longer than any process goes by keys that it read")
async def test_two_processes_that_change_the_key_at_once_break_no_session() -> None:
    """Two processes start with different private keys at the same time, while forged tokens keep a third from reading
    the keys."""
    clock = VirtualClock()
    async with (
        world(clock=clock) as one,
        world(clock=clock, store=one.store) as other,
        world(clock=clock, store=one.store) as third,
    ):
        await one.control.bearers.sign_with(signing_key())
        await person(one, "Ada", ("viewer", "default"))
        before = (await signed_in(one, "Ada"))["access_token"]
        forged = jwt.encode({}, signing_key().private, algorithm=ALGORITHM, headers={"kid": "none", "typ": TYPE})
        assert 401 == await status(third, forged)
        changes = [asyncio.create_task(each.control.bearers.sign_with(signing_key())) for each in (one, other)]
        for _ in range(100):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, not a time
        while not all(change.done() for change in changes):
            await clock.advance(RELOAD_SECONDS)
        tokens = [before, *[(await signed_in(each, "Ada"))["access_token"] for each in (one, other)]]
        assert 3 == len({jwt.get_unverified_header(token)["kid"] for token in tokens})
        for here in (third, one, other):
            assert [200, 200, 200] == [await status(here, token) for token in tokens]


@probe(10, stopped_by="a leeway of 30 seconds for clocks, and none for a token that lasts longer than ten minutes")
async def test_a_clock_that_is_off_lengthens_no_token() -> None:
    """A token is shown long after its end, or to a process whose clock is behind or ahead."""
    clock = VirtualClock()
    async with world(clock=clock) as here:
        await here.control.bearers.sign_with(signing_key())
        await person(here, "Ada", ("viewer", "default"))
        token = (await signed_in(here, "Ada"))["access_token"]
        assert 200 == await status(here, token)
        await clock.advance(ACCESS_SECONDS + SKEW_SECONDS - 1.0)
        behind = VirtualClock(clock.now() - ACCESS_SECONDS - 2.0 * SKEW_SECONDS)
        assert 200 == await status(here, token)
        await clock.advance(2.0)
        assert 401 == await status(here, token)
        async with world(clock=behind, store=here.store) as late:
            assert 401 == await status(late, token)
        assert 200 == (await ask(here, ADMIN_KEY, "GET", "/auth/me")).status_code
