"""Sign-ins are counted by all API processes together: another process gives a guesser no tries more."""

from __future__ import annotations

from pathlib import Path

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.integration.processes.fleet import Fleet, api_client
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import upgrade
from tickwise.control.people.pace import BURST, INTERVAL_SECONDS

ASKED = {"grant_type": "api_key", "api_key": "no-key-of-anybody"}
"""A credential that costs no hash, so that the count alone takes time."""


async def test_two_processes_give_one_address_the_attempts_of_one(database_url: str, tmp_path: Path) -> None:
    """Half of the attempts at each of them: a burst is let through, and then one each second."""
    await upgrade(database_url)
    token_key = tmp_path / "token-key.pem"
    token_key.touch(mode=0o600)
    private = Ed25519PrivateKey.generate()
    token_key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    fleet, clock = Fleet(database_url, tmp_path, TICKWISE_TOKEN_KEY_FILE=str(token_key)), SystemClock()
    try:
        processes = [fleet.start("api", "--port", "0") for _ in range(2)]
        one, other = [await process.ready() for process in processes]
        assert one is not None
        assert other is not None
        async with api_client(one, timeout=60) as first, api_client(other, timeout=60) as second:
            begun = clock.monotonic()
            # As many as a machine that stands still for some seconds, meanwhile, does not let through one by one.
            statuses = [await tried((first, second)[number % 2]) for number in range(6 * BURST)]
            seconds = clock.monotonic() - begun
    finally:
        fleet.stop()
    assert {401, 429} == set(statuses)
    assert BURST <= statuses.count(401) <= BURST + seconds / INTERVAL_SECONDS + 1


async def tried(client: httpx2.AsyncClient) -> int:
    """The status of an attempt."""
    return (await client.post("/auth/token", json=ASKED)).status_code
