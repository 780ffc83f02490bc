"""`tickwise doctor`: everything that can be looked at without changing anything, each with what to do about it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.sandbox.levels import SandboxLevel, sandbox_level
from tickwise.adapters.runner.process.task_places import expected_work_root
from tickwise.adapters.runner.process.task_users import task_users
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.config import Settings
from tickwise.domain.accounts.run_as import read_run_as_users
from tickwise.domain.errors import Misconfigured, TickwiseError
from tickwise.domain.rules.confinement import Isolation
from tickwise.observability.tasks import end_tasks
from tickwise.wiring.cassandra.bounded_look import LookOrder, bounded_findings
from tickwise.wiring.containers.policy import container_finding
from tickwise.wiring.findings import DoctorFinding, clocks, findings_apart, signals_beside_cassandra, store_findings
from tickwise.wiring.installation.shards import NamedDatabases, shard_findings
from tickwise.wiring.secret_keys.secrets_check import secret_findings
from tickwise.wiring.storage.database_findings import Opened, address_findings, of_each, opened
from tickwise.wiring.storage.databases import addresses
from tickwise.wiring.storage.file_store import address_in, examine_file_store, is_used
from tickwise.wiring.storage.isolation_findings import isolation_findings
from tickwise.wiring.storage.looks import bucket_findings
from tickwise.wiring.tls.certificates import read_certificates
from tickwise.wiring.tls.clear_text import CURE, clear_text

SPACE_BYTES: Final = 1 << 30
"""Less free space than this is worth a word: a day of a busy laptop."""
CONNECT_SECONDS: Final = 0.5


class Running(NamedTuple):
    """The `up` that runs on the data folder."""

    url: str
    pid: int
    database_url: str | None


class Left(NamedTuple):
    """The record of an `up` that died without cleaning up: commands still read it."""

    url: str
    pid: int
    path: Path


def doctor(
    settings: Settings, running: Running | None = None, *, left: Left | None = None, database_given: bool = False
) -> list[DoctorFinding]:
    """Look at settings, folders, port, blobs, database and executors, in that order; a database with an error
    comes first.

    What runs says itself where its port and its database are, and what was killed left word of it (`left`);
    `database_given`: the settings name one to look at.
    """
    if running is not None:
        port = _served(running)
    else:
        port = _port(settings) if left is None else _left(left, settings.data_dir)
    return asyncio.run(_collect(settings, port, database_of(settings, running, given=database_given)))


def database_of(settings: Settings, running: Running | None, *, given: bool) -> str | None:
    """The address of the database to look at. `given`: the person named one; else that of what runs comes first, and
    then what the next `up` on the data folder would open."""
    if running is not None and not given and running.database_url is not None:
        return running.database_url
    if settings.database_url is None and is_used(settings.data_dir):
        return address_in(settings.data_dir)
    return settings.database_url


async def _collect(settings: Settings, port: DoctorFinding, database_url: str | None) -> list[DoctorFinding]:
    # Begun first: the other looks take seconds on a busy machine, and a store that is away takes some, too.
    looking = asyncio.create_task(_all(_database(settings, database_url)))
    try:
        await SystemClock().sleep(0.0)
        found = [DoctorFinding("settings", "warning", text) for text in settings.warnings]
        found += [_folder(settings.data_dir), port, _encryption(settings)]
        found += [finding async for finding in _blobs(settings)]
        found += [_work_folders(settings), _tasks(settings), _isolation(settings)]
        found.append(await container_finding(settings))
        store = await looking
    finally:
        await end_tasks([looking])
    # Who asks in an outage reads the cause first.
    return store + found if any(each.level == "error" for each in store) else found + store


async def _all(findings: AsyncIterator[DoctorFinding]) -> list[DoctorFinding]:
    return [finding async for finding in findings]


def _folder(data_dir: Path) -> DoctorFinding:
    free = shutil.disk_usage(_nearest(data_dir)).free
    text = f"{data_dir}, {free / (1 << 30):.1f} GB free"
    if free < SPACE_BYTES:
        return DoctorFinding("data folder", "warning", text, "free some space, or choose another with --data-dir")
    return DoctorFinding("data folder", "ok", text)


def _tasks(settings: Settings) -> DoctorFinding:
    """The user of a job with a script, if this user starts an executor here with these settings."""
    try:
        named = bool(read_run_as_users(settings.run_as_users).names)
        users = task_users(settings.run_tasks_as, settings.data_dir / "work", named=named)
    except Misconfigured as wrong:
        return DoctorFinding("tasks", "error", wrong.detail, "set TICKWISE_RUN_TASKS_AS, or unset it")
    if users is not None:
        whom = "a user of its namespace's own" if settings.run_tasks_as is None else f"the user {settings.run_tasks_as}"
        return DoctorFinding("tasks", "ok", f"each runs as {whom}, which owns nothing of this installation")
    if os.geteuid() == 0:
        return DoctorFinding(
            "tasks", "warning", "they run as root: a key with jobs:write owns this machine and all keys",
            "unset TICKWISE_RUN_TASKS_AS, or name a user that owns nothing else",
        )  # fmt: skip
    return DoctorFinding(
        "tasks", "warning",
        "they run as the executor's own user: a key with jobs:write may do what that user may, and read its files, "
        "such as the admin key in client.json and the embedded database",
        "give jobs:write only to those that may have all that, or start executors as root: then tasks are other users",
    )  # fmt: skip


def _isolation(settings: Settings) -> DoctorFinding:
    """The isolation levels that an executor started here by this user gives with these settings."""
    if settings.isolation == Isolation.PROCESS:
        return DoctorFinding("isolation", "ok", "process; no sandbox, for TICKWISE_ISOLATION is process")
    try:
        users = task_users(settings.run_tasks_as, settings.data_dir / "work")
    except Misconfigured:
        level = SandboxLevel(lack="tasks cannot run as they should (see tasks)", cure="mend that first")
    else:
        level = sandbox_level(None if users is None else users.any_of_them())
    if level.lack is not None:
        status = "error" if settings.isolation == Isolation.SANDBOX else "warning"
        return DoctorFinding("isolation", status, f"process; no sandbox: {level.lack}", level.cure)
    walls = "" if level.hides_abstract_sockets else "; no Landlock scopes, so abstract sockets show with a network"
    return DoctorFinding("isolation", "ok", f"process, sandbox ({level.program}, seccomp{walls})")


def _served(running: Running) -> DoctorFinding:
    address = urlsplit(running.url)
    if _answers(address.hostname or "", address.port or 0):
        return DoctorFinding("port", "ok", f"{running.url} is served by `tickwise up`, process {running.pid}")
    return DoctorFinding(
        "port", "error", f"`tickwise up`, process {running.pid}, runs, but {running.url} does not answer",
        "look at its log; stop it with `tickwise down`, and start it again",
    )  # fmt: skip


def _left(left: Left, data_dir: Path) -> DoctorFinding:
    address = urlsplit(left.url)
    gone = f"`tickwise up`, process {left.pid}, is gone without having been stopped"
    again = f"start it again: tickwise up --data-dir {data_dir}"
    if _answers(address.hostname or "", address.port or 0):
        return DoctorFinding(
            "port", "warning", f"{left.path} names {left.url}: {gone}, and another program answers", again
        )
    return DoctorFinding("port", "error", f"{left.path} names {left.url}, which does not answer: {gone}", again)


def _encryption(settings: Settings) -> DoctorFinding:
    """TLS, and what travels without."""
    try:
        certificates = read_certificates(settings)
    except Misconfigured as wrong:
        return DoctorFinding("encryption", "error", wrong.detail, "docs/how-to/tls.md")
    said = clear_text(settings)
    if said is not None:
        return DoctorFinding("encryption", "warning", said, CURE)
    if certificates is not None:
        loaded = certificates.loaded
        days = (loaded.ends_at - SystemClock().now()) / 86_400
        text = f"TLS {settings.tls_version_least} or newer; the certificate of {loaded.name} ends in {days:.0f} days"
        if loaded.ends_soon(SystemClock().now()):
            return DoctorFinding("encryption", "warning", text, "renew it: the files are read again by themselves")
        return DoctorFinding("encryption", "ok", text)
    if settings.tls_ends_at == "proxy":
        return DoctorFinding("encryption", "ok", "a proxy in front ends TLS, as tls_ends_at says")
    return DoctorFinding("encryption", "ok", "no TLS: only this machine reaches the API")


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _port(settings: Settings) -> DoctorFinding:
    where = f"{settings.host}:{settings.port}"
    if _answers(settings.host, settings.port):
        return DoctorFinding("port", "ok", f"{where} has an answering program (perhaps a running tickwise)")
    return DoctorFinding("port", "ok", f"{where} is free")


async def _blobs(settings: Settings) -> AsyncIterator[DoctorFinding]:
    url = settings.blobs_url or (settings.data_dir / "blobs").absolute().as_uri()
    if url.startswith("s3://"):
        async for finding in bucket_findings(settings, url):
            yield finding
    elif url.startswith("file://") and not Path(url.removeprefix("file://")).exists():
        yield DoctorFinding("blobs", "ok", f"{url} is made at the first start")
    else:
        yield await _folder_of_blobs(url)


async def _folder_of_blobs(url: str) -> DoctorFinding:
    try:
        await open_blobs(url).list("scripts/")
    except TickwiseError as failure:
        return DoctorFinding("blobs", "error", failure.detail, "set TICKWISE_BLOBS_URL to a folder that can be written")
    if url.startswith("file://"):
        return _room("blobs", url, Path(url.removeprefix("file://")))
    return DoctorFinding("blobs", "ok", url)


def _work_folders(settings: Settings) -> DoctorFinding:
    """The work folders of the tasks of this machine's executors."""
    place = settings.data_dir / "work"
    with suppress(Misconfigured):  # `_tasks` says it
        users = task_users(settings.run_tasks_as, place, named=bool(settings.run_as_users))
        if users is not None:
            place = expected_work_root(users.least_of_them(), place)
    return _room("work folders", str(place), _nearest(place))


def _nearest(place: Path) -> Path:
    """The folder itself, or the first above it that is there."""
    return next(each for each in (place.absolute(), *place.absolute().parents) if each.exists())


def _room(name: str, said: str, place: Path) -> DoctorFinding:
    """Check that the folder has enough free space."""
    free = shutil.disk_usage(place).free
    text = f"{said}, {free / (1 << 30):.1f} GB free"
    if free < SPACE_BYTES:
        advice = "free some space: a run whose output cannot be stored waits at its end, and fails after 10 minutes"
        return DoctorFinding(name, "warning", text, advice)
    return DoctorFinding(name, "ok", text)


async def _database(settings: Settings, database_url: str | None) -> AsyncIterator[DoctorFinding]:
    if database_url is None:
        yield _embedded()
        return
    if database_url.startswith("file:"):
        for finding in examine_file_store(database_url):
            yield finding
        return
    if database_url.startswith("memory:"):
        yield DoctorFinding("database", "warning", "memory:// forgets everything at its end", "for trials only")
        return
    if is_cassandra(database_url):
        looked = await bounded_findings(LookOrder(database_url, settings))
        for finding in looked:
            yield finding
        if not any(each.name == "signals" for each in looked):
            yield await signals_beside_cassandra(settings)
        return
    from tickwise.adapters.store.postgres import schema_status

    try:
        named = addresses(database_url)
    except TickwiseError as wrong:
        yield DoctorFinding("database", "error", wrong.detail, "docs/how-to/many-databases.md")
        return
    database_url = named[0]
    try:
        found, wanted = await schema_status(database_url)
    except TickwiseError as failure:
        yield DoctorFinding("database", "error", failure.detail, "check the address, and that it runs")
        return
    if found is None or not found.fits:
        has = "none" if found is None else found.version
        cure = "install the newer Tickwise" if found is not None and found.is_newer else "tickwise db upgrade"
        yield DoctorFinding("schema", "error", f"the database has {has}, this program needs {wanted}", cure)
        return
    yield DoctorFinding("schema", "ok", found.version)
    async with opened(named) as databases:
        if 1 in databases.stores:
            async for finding in _databases(settings, named, databases):
                yield finding
        else:
            yield DoctorFinding("database", "error", databases.failures[1])


async def _databases(settings: Settings, named: list[str], databases: Opened) -> AsyncIterator[DoctorFinding]:
    """Look at each database, and at what only the first one has."""
    clock, store = SystemClock(), databases.stores[1]
    try:
        async for finding in of_each(databases, lambda each: _store(each, clock)):
            yield finding
        async for finding in secret_findings(settings, store, clock):
            yield finding
        for shards in await shard_findings(_distinct(named, databases)):
            yield shards
        async for finding in of_each(databases, isolation_findings):
            yield finding
        yield await clocks(settings.signals_url or named[0], store)
        async for finding in findings_apart(settings, store):
            yield finding
        async for finding in address_findings(databases):
            yield finding
    except TickwiseError as failure:
        yield DoctorFinding("database", "error", failure.detail)


def _distinct(named: list[str], databases: Opened) -> NamedDatabases:
    """Each database once: that two addresses lead to one is a finding of its own."""
    by_id: dict[str, tuple[Any, str]] = {}
    for at, store in databases.stores.items():
        by_id.setdefault(store.upkeep.cluster_id, (store, named[at - 1]))
    return NamedDatabases([store for store, _ in by_id.values()], [url for _, url in by_id.values()])


async def _store(store: Any, clock: SystemClock) -> AsyncIterator[DoctorFinding]:
    for text in await store.findings():
        yield DoctorFinding("database", "warning", text)
    async for finding in store_findings(store, clock):
        yield finding


def _embedded() -> DoctorFinding:
    from tickwise.adapters.embedded import find_binaries

    try:
        found = find_binaries()
    except TickwiseError as failure:
        return DoctorFinding(
            "database", "error", failure.detail, "pip install 'tickwise[local]', or give --database URL"
        )
    return DoctorFinding("database", "ok", f"`tickwise up` would run PostgreSQL {found.version} from {found.bin_dir}")
