"""A whole Tickwise that speaks TLS, and the command line at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import NAME, Pair, make, number_of, trust
from tests.support.local_up import Local, environment, local_up, run_command
from tests.support.waiting import eventually

REFUSED, UNREACHABLE, MISCONFIGURED = 4, 3, 6
"""Exit codes of the command line."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, pair: Pair) -> Iterator[Local]:
    """All roles on a store in memory, with a certificate that no authority of this machine has signed."""
    files = {"TICKWISE_TLS_CERT_FILE": str(pair.certificate), "TICKWISE_TLS_KEY_FILE": str(pair.key)}
    health = {"TICKWISE_HEALTH_PORT": "0", "TICKWISE_TLS_PORTS": "api,health", "TICKWISE_LOG_FORMAT": "json"}
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://", **files, **health) as up:
        yield up


def port_of(local: Local) -> int:
    return int(local.url.rsplit(":", 1)[1])


def test_the_command_line_of_the_machine_finds_and_trusts_the_server(local: Local, pair: Pair) -> None:
    """By `client.json` alone: the address, the very certificate, and a name in it."""
    facts = json.loads((local.data_dir / "client.json").read_text())
    assert ("https", str(pair.certificate), NAME) == (local.url[:5], facts["ca_file"], facts["server_name"])
    ran = local.tickwise("run", "--shell", "true", "--now", "--follow")
    assert 0 == ran.code, ran.err
    assert "unencrypted" not in ran.err


def test_a_server_that_is_not_trusted_is_told_nothing(local: Local, pair: Pair) -> None:
    """Without its authority the request is not sent, and the message says which option names it."""
    words = ("jobs", "list", "--url", local.url, "--api-key", local.key)
    refused = local.tickwise(*words)
    assert UNREACHABLE == refused.code
    assert "is not trusted" in refused.err
    assert "--ca-file, or TICKWISE_CA_FILE" in refused.err
    assert 0 == local.tickwise(*words, "--ca-file", pair.certificate).code
    assert 0 == local.tickwise(*words, env={"TICKWISE_CA_FILE": str(pair.certificate)}).code
    elsewhere = local.tickwise(*words, "--ca-file", pair.key)
    assert "cannot be read as certificates" in elsewhere.err


def test_a_certificate_for_another_name_is_refused(local: Local, tmp_path: Path) -> None:
    """Also if its authority is trusted."""
    other = make(tmp_path, name="other.test", addresses="192.0.2.1")
    files = {"TICKWISE_TLS_CERT_FILE": str(other.certificate), "TICKWISE_TLS_KEY_FILE": str(other.key)}
    with local_up(tmp_path / "up", "--database", "memory://", **files) as up:
        assert 0 == up.tickwise("jobs", "list").code  # by `client.json`, which knows the name
        refused = up.tickwise("jobs", "list", "--url", up.url, "--api-key", up.key, "--ca-file", other.certificate)
        assert UNREACHABLE == refused.code
        assert "is not trusted" in refused.err


def test_the_wrong_scheme_is_named(local: Local) -> None:
    """Plain HTTP to the port of TLS."""
    plain = local.tickwise("jobs", "list", "--url", local.url.replace("https", "http"), "--api-key", local.key)
    assert REFUSED == plain.code
    assert "use https://" in plain.err


def test_a_person_signs_in_over_tls(local: Local, tmp_path: Path) -> None:
    """With the certificate of `client.json`; the token is used, and ended."""
    home, password = {"XDG_CONFIG_HOME": str(tmp_path)}, "four quiet herons wade"
    added = local.tickwise("users", "add", "Ada", "--role", "viewer", "--password-stdin", stdin=password)
    assert 0 == added.code, added.err
    signed_in = local.tickwise("login", "ada", "--password-stdin", stdin=password + "\n", env=home)
    assert 0 == signed_in.code, signed_in.err
    assert "Ada" == local.tickwise("whoami", "--json", env=home).json["name"]
    assert 0 == local.tickwise("logout", env=home).code


async def test_a_renewed_certificate_is_served_and_trusted_without_a_restart(
    local: Local, pair: Pair, tmp_path: Path
) -> None:
    """Within seconds, as it is shipped; the command line goes on."""
    renewed = make(tmp_path)
    number = renewed.number()
    renewed.key.replace(pair.key)
    renewed.certificate.replace(pair.certificate)

    async def is_served() -> bool:
        return await number_of("127.0.0.1", port_of(local)) == number

    await eventually(is_served, what="the renewed certificate is served")
    assert 0 == local.tickwise("jobs", "list").code


async def test_the_health_port_speaks_tls_where_it_is_asked_to(local: Local, pair: Pair) -> None:
    """By `tls_ports`; and the metrics have the end of the certificate."""
    import httpx2

    lines = [json.loads(line) for line in (local.data_dir / "test-up.log").read_text().splitlines() if line[:1] == "{"]
    (up,) = [line for line in lines if line["event"] == "up"]
    assert up["health_url"].startswith("https://")
    async with httpx2.AsyncClient(verify=trust(pair.certificate), trust_env=False, timeout=60) as client:
        assert 200 == (await client.get(up["health_url"] + "/readyz")).status_code
        metrics = (await client.get(up["health_url"] + "/metrics")).text
    assert "tickwise_certificate_end_timestamp_seconds 1" in metrics


def test_half_a_pair_of_settings_ends_the_start(tmp_path: Path) -> None:
    """With the name of what is missing."""
    environ = environment(TICKWISE_TLS_CERT_FILE=str(tmp_path / "a"), TICKWISE_DATA_DIR=str(tmp_path))
    ran = run_command(["up", "--database", "memory://", "--port", "0"], environ)
    assert MISCONFIGURED == ran.code
    assert "set TICKWISE_TLS_KEY_FILE too, or neither" in ran.err


def test_an_api_beyond_loopback_without_tls_warns(tmp_path: Path) -> None:
    """In the log of its start, and by `doctor`."""
    environ = {"TICKWISE_HOST": "0.0.0.0", "TICKWISE_LOG_FORMAT": "json"}
    with local_up(tmp_path, "--database", "memory://", **environ) as up:
        assert '"event": "clear_text"' in (tmp_path / "test-up.log").read_text()
        found = {each["name"]: each for each in up.tickwise("doctor", "--json", env=environ).json}
        assert "warning" == found["encryption"]["level"]
        assert "TICKWISE_TLS_CERT_FILE" in found["encryption"]["advice"]
