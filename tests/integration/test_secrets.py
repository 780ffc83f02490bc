"""Secrets on a whole Tickwise: through a crash and a rotation, and in no dump, log or backup as they are."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.support.local_up import Local, environment, local_up, run_command
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.secrets.own import OwnSecrets
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.config import Settings
from tickwise.ports.secrets import SecretFault, WantedSecret
from tickwise.sdk.client import Client
from tickwise.wiring.secret_keys.secrets_key import make_sealer, new_key

VALUE = "correct-horse-battery-staple-7"
SECOND = "a second value that nobody guesses"
TABLES = """
    SELECT format('SELECT coalesce(string_agg(t::text, E''\\n''), '''') FROM %s t', oid::regclass) FROM pg_class
    WHERE relnamespace = 'tickwise'::regnamespace AND relkind IN ('r', 'p', 'm')"""
"""All rows of all tables as text, `bytea` in hexadecimal digits."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """One `up` with its own database."""
    folder = tmp_path_factory.mktemp("secrets")
    folder.chmod(0o711)
    with local_up(folder / "data") as found:
        yield found


def database_of(local: Local) -> str:
    """The address of its database."""
    return str(json.loads((local.data_dir / "client.json").read_text())["database_url"])


async def dump(url: str) -> str:
    """All that the database has."""
    connection = await asyncpg.connect(url)
    try:
        parts = [await connection.fetchval(row[0]) for row in await connection.fetch(TABLES)]
        return "\n".join(parts)
    finally:
        await connection.close()


async def values(url: str, settings: Settings, *names: str) -> list[bytes | SecretFault]:
    """The values that tasks would get."""
    store = PostgresStore(url, clock=SystemClock())
    await store.open()
    try:
        wanted = [WantedSecret("default", name) for name in names]
        found = await OwnSecrets(store.secrets, make_sealer(settings, SystemClock())).values(wanted)
        return [found[each] for each in wanted]
    finally:
        await store.close()


async def kill_a_rotation(url: str, environ: dict[str, str], *, held: str) -> None:
    """Its second step cannot end while the row of one of its secrets is held, so the command has more to do."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT FROM tickwise.secrets WHERE name = $1 FOR UPDATE", held)
            command = [sys.executable, "-m", "tickwise", "secrets", "rewrap"]
            with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as rotation:
                assert rotation.stderr is not None
                assert b"50 done" in await asyncio.to_thread(rotation.stderr.readline)
                rotation.kill()
    finally:
        await connection.close()


def set_secret(local: Local, name: str, value: str) -> None:
    """As a script does it: piped."""
    environ = {**local.environ, "TICKWISE_DATA_DIR": str(local.data_dir)}
    ran = run_command(["secrets", "set", name], environ, stdin=f"{value}\n")
    assert 0 == ran.code, ran.err
    assert value not in ran.out + ran.err


def forms(value: str) -> list[str]:
    """The forms that a reader of a dump would look for."""
    coded = base64.b64encode(value.encode()).decode()
    return [value, value.encode().hex(), coded, coded.encode().hex()]


def test_up_has_a_key_of_its_own(local: Local) -> None:
    """A secret can be set at once, and the doctor has proved that it is encrypted."""
    file = local.data_dir / "secrets.key"
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    for name, value in (("db-password", VALUE), ("other", SECOND)):
        set_secret(local, name, value)
    found = [each for each in local.tickwise("doctor", "--json").json if each["name"] == "secrets"]
    assert [("ok", True)] == [(each["level"], "2 under the newest key" in each["detail"]) for each in found]


def test_no_dump_and_no_log_has_a_value(local: Local) -> None:
    """Nor its base64 or its hexadecimal digits; the logs have none, either."""
    local.tickwise("secrets", "list")
    local.tickwise("secrets", "set", "db-password", VALUE)
    text = asyncio.run(dump(database_of(local)))
    assert "db-password" in text, "it is a dump with secrets"
    logs = "".join(path.read_text(errors="replace") for path in local.data_dir.rglob("*.log"))
    assert "/secrets" in logs, "it is a log of these requests"
    for form in (*forms(VALUE), *forms(SECOND)):
        assert form not in text
        assert form not in logs


def test_a_backup_has_the_key_with_the_secrets(local: Local, tmp_path: Path) -> None:
    """So that a restore reads them; and no value as it is."""
    file = tmp_path / "a.backup"
    ran = local.tickwise("backup", str(file))
    assert 0 == ran.code, ran.err
    with tarfile.open(file) as archive:
        assert [name for name in archive.getnames() if name.endswith("secrets.key")]
    assert VALUE.encode() not in file.read_bytes()


def test_a_crash_and_a_rotation_that_is_killed_lose_no_secret(tmp_path: Path) -> None:
    """`kill -9` of everything right after the last answer, then of the command of a rotation: each secret is under one
    of the two keys all the time, and under the newest one when the command was begun again."""
    folder = tmp_path / "data"
    tmp_path.chmod(0o711)
    environ = environment(TICKWISE_DATA_DIR=str(folder))
    names = [f"secret-number-{number}" for number in range(120)]
    every = [f"value of {name}".encode() for name in names]
    assert 0 == run_command(["up", "--background", "--port", "0"], environ).code
    started = json.loads((folder / "client.json").read_text())
    with Client(started["url"], started["key"]) as client:
        for name in names:
            client.request("PUT", f"/secrets/{name}", body={"value": f"value of {name}"})
    first = psutil.Process(started["pid"])
    processes = [*first.children(recursive=True), first]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    psutil.wait_procs(processes, timeout=60)
    file, newest = folder / "secrets.key", new_key()
    file.write_text(f"{newest}\n{file.read_text()}")
    with local_up(folder) as local:
        url = database_of(local)
        asyncio.run(kill_a_rotation(url, environ, held=sorted(names)[60]))
        assert every == asyncio.run(values(url, Settings(data_dir=folder), *names))
        ran = local.tickwise("secrets", "rewrap", "--json")
        assert (0, []) == (ran.code, ran.json["failed"])
        assert 20 <= ran.json["rewrapped"] <= 70
        keys = local.tickwise("secrets", "keys", "--json").json["keys"]
        assert [(True, 120), (False, 0)] == [(each["newest"], each["secrets"]) for each in keys]
        alone = Settings(data_dir=tmp_path / "none", secrets_key=(newest,))
        assert every == asyncio.run(values(url, alone, *names))
