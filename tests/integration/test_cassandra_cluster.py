"""A cluster as an operator meets it: its keyspace is made, its settings are looked at, unsafe ones are refused; TLS and
passwords."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from tests.services.cassandra import Cassandra
from tests.support import certificates
from tests.support.cassandras import CLOCK, PATIENT_SECONDS, linked, next_shard
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.schema import KEY_BYTES, VERSION, KeyspaceState, findings, status, upgrade
from tickwise.cli.main import main
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.testing.contracts.effect_log import own, read_all
from tickwise.wiring.cassandra.bounded_look import LookOrder, bounded_findings
from tickwise.wiring.cassandra.keyspace import cassandra_findings

pytestmark = pytest.mark.thorough
SUPERUSER = "cassandra:cassandra"
"""The user that a new cluster has."""


async def test_several_machines_may_make_the_keyspace_at_once(cassandra_server_url: str) -> None:
    """And again: it stays as it is."""
    address = read_address(f"{cassandra_server_url}/at_once_{next_shard()}")
    assert KeyspaceState(0, "") == await status(address, CLOCK)
    told: list[tuple[int, int]] = []
    made = [upgrade(address, CLOCK, lambda done, of: told.append((done, of))) for _ in range(3)]
    assert [str(VERSION)] * 3 == await asyncio.gather(*made)
    assert (8, 8) in told
    state = await status(address, CLOCK)
    assert KeyspaceState(VERSION, "datacenter1", state.keeper_key, 1, state.installation) == state
    assert 2 * KEY_BYTES == len(state.keeper_key)
    assert state.keeper_key not in repr(state)
    async with linked(address, answer_seconds=PATIENT_SECONDS) as link:
        log = CassandraLog(link, 0)
        await own(log)
        await log.append(b"kept")
        await upgrade(address, CLOCK)
        assert [b"kept"] == [entry.body for entry in await read_all(log)]


async def test_a_newer_keyspace_is_not_touched(cassandra_server_url: str) -> None:
    """By a program of before."""
    address = read_address(f"{cassandra_server_url}/newer_{next_shard()}")
    await upgrade(address, CLOCK)
    async with linked(address, answer_seconds=PATIENT_SECONDS) as link:
        await link.ask("meta_write", "version", str(VERSION + 1))
    with pytest.raises(Misconfigured, match=f"has version {VERSION + 1}.* install the newer Tickwise"):
        await upgrade(address, CLOCK)
    assert not (await status(address, CLOCK)).fits
    url = f"{cassandra_server_url}/{address.keyspace}"
    [schema] = [each async for each in cassandra_findings(url) if each.name == "schema"]
    assert ("error", "install the newer Tickwise") == (schema.level, schema.advice)


async def test_a_log_without_its_keyspace_names_the_cure(cassandra_server_url: str) -> None:
    """`tickwise db upgrade`."""
    async with linked(f"{cassandra_server_url}/nowhere", answer_seconds=PATIENT_SECONDS) as link:
        with pytest.raises(Misconfigured, match="tickwise db upgrade"):
            await own(CassandraLog(link, 0))


async def test_a_cluster_that_is_not_there_is_unavailable() -> None:
    """And no mistake of the operator's, as far as anybody can tell."""
    address = read_address("cassandra://127.0.0.1:1/tickwise")
    with pytest.raises(StoreUnavailable):
        await status(address, CLOCK)
    with pytest.raises(StoreUnavailable, match="check the names"):
        await status(read_address("cassandra://nowhere.invalid/tickwise"), CLOCK)
    found = [each async for each in cassandra_findings("cassandra://127.0.0.1:1/tickwise")]
    assert ["error"] == [each.level for each in found]


def test_the_commands_know_a_cluster(
    cassandra_server_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`db status`, `db upgrade`, `db status`, `db rebuild-tables`; and what is for PostgreSQL is refused."""
    monkeypatch.setenv("TICKWISE_DATABASE_URL", f"{cassandra_server_url}/commands_{next_shard()}")

    def said(*words: str) -> tuple[int, str]:
        code = main(words)
        written = capsys.readouterr()
        return code, written.out + written.err

    before = {"found": "none", "needed": str(VERSION), "current": False, "fits": False, "shards": []}
    assert before == json.loads(said("db", "status", "--json")[1])
    code, made = said("db", "upgrade")
    assert 0 == code
    assert f"The schema is at {VERSION}." in made
    after = {"found": str(VERSION), "needed": str(VERSION), "current": True, "fits": True}
    status_now = json.loads(said("db", "status", "--json")[1])
    assert [(0, "none")] == [(each["shard"], each["lease"]) for each in status_now.pop("shards")]
    assert after == status_now
    code, refused = said("db", "grant-executor", "somebody")
    assert code != 0
    assert "this command works on a PostgreSQL" in refused
    code, made = said("db", "rebuild-tables")
    assert (0, True) == (code, "generation 2" in made)


async def test_doctor_looks_at_a_cluster(cassandra_url: str) -> None:
    """One node is a warning; that no keeper owns the shard is an error."""
    found = {each.name: each.level async for each in cassandra_findings(cassandra_url)}
    assert {
        "schema": "ok", "cassandra": "ok", "commitlog_sync": "ok", "paxos_variant": "ok", "copies": "warning",
        "data centres": "ok", "keepers": "error",
    } == found  # fmt: skip
    look = LookOrder(cassandra_url, Settings(database_url=cassandra_url))
    looked = {each.name: each.level for each in await bounded_findings(look, seconds=60.0)}
    assert {**found, "servers": "warning"} == looked


@pytest.mark.takes_up_to(240)
async def test_unsafe_settings_and_strangers_are_refused(tmp_path: Path) -> None:
    """A node that syncs its commit log from time to time, with Paxos v1, behind TLS and a password: a stranger does not
    get in, a friend is told what to change, and nothing is made."""
    pair = certificates.make(tmp_path, rsa=True)
    both = tmp_path / "both.pem"
    both.write_text(pair.key.read_text() + pair.certificate.read_text())
    encryption = (
        f"client_encryption_options: {{enabled: true, optional: false, keystore: {both}, require_client_auth: false,\n"
        "  ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}"
    )
    settings = {
        "COMMITLOG_SYNC": "periodic", "COMMITLOG_PERIOD": "commitlog_sync_period: 10000ms", "PAXOS": "v1",
        "AUTHENTICATOR": "PasswordAuthenticator", "ENCRYPTION": encryption,
    }  # fmt: skip
    async with TlsCassandra(settings=settings) as node:
        options = f"tls=true&ca={pair.certificate}"
        address = read_address(f"cassandra://{SUPERUSER}@{node.address}/tickwise?{options}")

        async def knows_its_user() -> bool:
            with contextlib.suppress(StoreUnavailable, Misconfigured):
                await status(address, CLOCK)
                return True
            return False

        # A new node makes its user after it listens, and its first handshake takes seconds of a busy machine.
        await eventually(knows_its_user, what="the node lets its user in")
        refused = await eventually(lambda: _refusal(upgrade(address, CLOCK)), what="it is told what to change")
        assert re.search("commitlog_sync: .* has periodic.*paxos_variant: .* has v1", refused)
        state, found = await findings(address, CLOCK)
        assert KeyspaceState(0, "") == state
        assert {"commitlog_sync", "paxos_variant"} == {each.name for each in found if each.level == "error"}
        wrong = read_address(f"cassandra://cassandra:wrong@{node.address}/tickwise?{options}")
        assert "refuses this user" in await eventually(lambda: _refusal(status(wrong, CLOCK)), what="it is refused")
        for stranger in ("tls=true", ""):
            with pytest.raises(StoreUnavailable):
                await status(read_address(f"cassandra://{SUPERUSER}@{node.address}/tickwise?{stranger}"), CLOCK)


async def _refusal(call: Awaitable[Any]) -> str | None:
    """Why the cluster is not as it must be; None: it did not answer in time."""
    try:
        await call
    except StoreUnavailable:
        return None
    except Misconfigured as refused:
        return refused.detail
    raise AssertionError("it was not refused")


class TlsCassandra(Cassandra):
    """One that speaks TLS alone: it answers as soon as a connection is accepted."""

    def answers(self) -> bool:
        with socket.create_connection((self.host, self.port), timeout=5):
            return True
