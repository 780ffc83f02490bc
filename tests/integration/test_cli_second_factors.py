"""The command line of people with a second factor, against a whole Tickwise."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyotp
import pytest

from tests.support.local_up import Local, local_up
from tickwise.sdk.client import Client

PASSWORD = "four quiet herons wade"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory, with a key for secrets, which keeps the seeds of apps."""
    key = base64.b64encode(bytes(range(32))).decode()
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://", TICKWISE_SECRETS_KEY=key) as up:
        yield up


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The settings of a person with no sign-in."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def tokens(local: Local, name: str) -> str:
    """The access token of a person without a factor."""
    with Client(local.url, None) as client:
        body = {"grant_type": "password", "username": name, "password": PASSWORD}
        return str(client.request("POST", "/auth/token", body=body).body["access_token"])


def enrolled(local: Local, name: str) -> tuple[pyotp.TOTP, list[str]]:
    """A new person with an app, and the recovery codes."""
    made = local.tickwise("users", "add", name, "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    assert 0 == made.code, made.err
    with Client(local.url, tokens(local, name)) as client:
        begun: Any = client.request("POST", "/auth/second-factors", body={"password": PASSWORD, "name": "phone"}).body
        totp = pyotp.TOTP(begun["seed_secret"])
        path = f"/auth/second-factors/{begun['factor_id']}/confirm"
        confirmed: Any = client.request("POST", path, body={"code": totp.now()}).body
    return totp, confirmed["recovery_codes"]


def login(local: Local, home: dict[str, str], name: str, *options: str) -> Any:
    """Sign in."""
    return local.tickwise("login", name, "--password-stdin", *options, stdin=PASSWORD + "\n", env=home)


def test_a_sign_in_takes_the_code_of_the_app_or_a_recovery_code(local: Local, home: dict[str, str]) -> None:
    """A wrong one is refused; without a terminal and without `--code` it says what is missing."""
    totp, codes = enrolled(local, "Ada")
    without = login(local, home, "ada")
    assert (2, True) == (without.code, "--code" in without.err), without.err
    wrong = login(local, home, "ada", "--code", "000000")
    assert (4, True) == (wrong.code, "wrong, or was used before" in wrong.err), wrong.err
    right = login(local, home, "ada", "--code", totp.at(time.time(), counter_offset=1))
    assert 0 == right.code, right.err
    assert "Ada" == local.tickwise("whoami", "--json", env=home).json["name"]
    assert 0 == login(local, home, "ada", "--code", codes[0]).code
    assert 4 == login(local, home, "ada", "--code", codes[0]).code


def test_factors_are_listed_renamed_and_removed(local: Local, home: dict[str, str]) -> None:
    """And recovery codes made; each change with the password."""
    _, codes = enrolled(local, "Bob")
    assert 0 == login(local, home, "bob", "--code", codes[0]).code
    listed = local.tickwise("second-factors", "list", env=home)
    assert ("phone" in listed.out, "9 of 10 recovery codes are left" in listed.out) == (True, True), listed.out
    wrong = local.tickwise("second-factors", "rename", "phone", "old", "--password-stdin", stdin="wrong\n", env=home)
    assert 0 != wrong.code
    word: dict[str, Any] = {"stdin": PASSWORD + "\n", "env": home}
    assert 0 == local.tickwise("second-factors", "rename", "phone", "old", "--password-stdin", **word).code
    made = local.tickwise("second-factors", "recovery-codes", "--password-stdin", **word)
    assert 10 == len(made.out.split()), made.out
    assert 5 == local.tickwise("second-factors", "remove", "phone", "--password-stdin", **word).code
    assert 0 == local.tickwise("second-factors", "remove", "old", "--password-stdin", **word).code
    assert "No second factors" in local.tickwise("second-factors", "list", env=home).err
    assert 0 == login(local, home, "bob").code


def test_an_administrator_resets_factors_by_the_key_of_the_machine(local: Local, home: dict[str, str]) -> None:
    """By the key of the machine, which is asked for no second factor."""
    enrolled(local, "Eve")
    reset = local.tickwise("users", "reset-second-factors", "Eve", env=home)
    assert (0, "1 second factors of Eve are removed.") == (reset.code, reset.out.strip()), reset.err
    assert 0 == login(local, home, "eve").code
