"""A PostgreSQL with a real hot standby, which follows it by streaming replication."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from tests.support import databases
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.embedded.cluster import Cluster
from tickwise.adapters.embedded.programs import run
from tickwise.adapters.embedded.server import ServerProcess, dying_with_parent, is_ready

RULES = "local all postgres trust\nlocal replication postgres trust\n"

# A standby refuses to follow with fewer of these than its primary has.
AT_LEAST = (
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
)


@dataclass(frozen=True)
class Pair:
    """Two servers with the same role and database."""

    primary: str
    standby: str

    async def caught_up(self) -> None:
        """Wait until the standby has all that the primary has written by now."""
        primary, standby = await asyncpg.connect(self.primary), await asyncpg.connect(self.standby)
        written = await primary.fetchval("SELECT pg_current_wal_insert_lsn()::text")
        # Nothing else may follow, and then the log is not sent for a while.
        await primary.execute("SELECT txid_current()")
        look = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
        await eventually(lambda: standby.fetchval(look, written), what="the standby follows")
        await primary.close()
        await standby.close()


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    """A primary that is the product's own embedded server, and a standby that was copied from it while it ran."""
    data_dir = Path(tempfile.mkdtemp(prefix="tickwise-pair-"))
    postgres = EmbeddedPostgres(data_dir, clock=SystemClock(), settings=databases.SETTINGS)
    standby: ServerProcess | None = None
    try:
        url = await postgres.start()
        cluster = postgres._cluster
        assert cluster is not None
        assert postgres.pid is not None
        rules = cluster.data / "pg_hba.conf"
        rules.write_text(RULES + rules.read_text())
        os.kill(postgres.pid, signal.SIGHUP)
        standby, sockets = await _follow(cluster, url)
        yield Pair(url, _through(url, sockets))
    finally:
        if standby is not None:
            await standby.end()
        root = postgres._cluster.root if postgres._cluster is not None else data_dir
        await postgres.stop()
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(data_dir, ignore_errors=True)


async def _follow(cluster: Cluster, url: str) -> tuple[ServerProcess, Path]:
    """A standby that is ready to be asked, and the folder of its socket."""
    superuser = url.replace("://tickwise:", "://postgres:")
    connection = await eventually(lambda: databases.connects(superuser), what="the superuser may connect")
    least = [f"{name}={await connection.fetchval(f'SHOW {name}')}" for name in AT_LEAST]
    await connection.close()
    data, sockets = cluster.root / "standby", cluster.root / "run2"
    for folder in (data, sockets):
        folder.mkdir(mode=0o700)
        if cluster.account is not None:
            os.chown(folder, cluster.account.uid, cluster.account.gid)
    copy: list[str | Path] = [cluster.program("pg_basebackup"), "-h", cluster.sockets, "-U", "postgres", "-D", data]
    copy += ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--no-password"]
    copied = run(copy, account=cluster.account)
    assert copied.returncode == 0, copied.stdout
    settings = [*least, "listen_addresses=", f"unix_socket_directories={sockets}", "hot_standby=on", "fsync=off"]
    command: list[str | Path] = [cluster.program("postgres"), "-D", data]
    command += [word for setting in settings for word in ("-c", setting)]
    server = ServerProcess(dying_with_parent(command), account=cluster.account, log_file=cluster.root / "standby.log")
    await server.launch()

    def looked() -> bool:
        assert server.runs, "\n".join(server.last_words)
        return is_ready(data, server.pid)

    await eventually(looked, what="the standby answers")
    return server, sockets


def _through(url: str, sockets: Path) -> str:
    """The same role and database, by another socket."""
    return urlunsplit(urlsplit(url)._replace(query=f"host={quote(str(sockets), safe='/')}"))
