"""The backup of an embedded installation, while it runs or while it does not.

    pg_dump, as of one moment ─► keys and settings ─► outputs ─► end ─► on the disk ─► its name

Outputs come after the database: an output is stored before the end of its run is, so each run that the dump holds has
its output in the archive, as far as it was kept. Outputs of later runs may be there too; nothing names them.

Invariant: the name of a backup stands for a whole one. It is written under another name, which ends in `.partial`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tickwise import __version__
from tickwise.adapters.blobs import folder_of
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres, cluster_folder, dump, find_binaries, recorded_programs
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.adapters.store.postgres import schema_status
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.installation.apart import StopFlag, apart
from tickwise.wiring.installation.archive import ArchiveHead, ArchiveWriter
from tickwise.wiring.storage.file_store import is_used

FILES: Final = ("local.key", "first.key", "token.key", "secrets.key")
"""Keys that an `up` keeps in its data folder."""
OF_SETTINGS: Final = ("token_key_file", "secrets_key_file", "tls_cert_file", "tls_key_file")
"""Settings that name a file without which the installation is another one."""
SETTING_FILES: Final = ("service.toml", "secrets.toml")
UNSET: Final = "(unset)"
_STAGED: Final = "#"
"""In the name of a blob that is being written; in that of a whole one it is escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSource:
    """The installation to back up."""

    data_dir: Path
    settings: Sequence[tuple[str, str, str]]
    """Name, value and origin of each setting: those of the `up` that runs, else those that one would have."""
    database_url: str | None = None
    """The address that the running `up` uses; None: none runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """A backup that is complete."""

    file: str
    bytes: int
    blobs: int
    """Scripts, outputs and artefacts in it."""
    head: ArchiveHead


def back_up(source: BackupSource, file: Path) -> BackupReport:
    """Write a backup to `file`, which must not be there. Raises `Misconfigured`."""
    configured = next((value for name, value, _ in source.settings if name == "database_url"), "")
    address = source.database_url or ("" if configured == UNSET else configured)
    if address.startswith("file:") or (not address and is_used(source.data_dir)):
        raise Misconfigured(
            f"The Tickwise of {source.data_dir} has a file store: stop it and copy its data folder, or take a snapshot "
            "of the file system (docs/how-to/file-store.md)."
        )
    if is_cassandra(address):
        raise Misconfigured(
            f"The Tickwise of {source.data_dir} uses a Cassandra: back its keyspace up by the snapshots of Cassandra, "
            "and the folder of blobs beside it (docs/how-to/cassandra.md)."
        )
    if source_of(source.settings, "database_url") != "default":
        raise Misconfigured(
            f"The Tickwise of {source.data_dir} uses a PostgreSQL of yours: back that up with its own programs, and "
            "the folder of blobs beside it (docs/how-to/failover-and-restore.md)."
        )
    if file.exists():
        raise Misconfigured(f"{file} is there already. Name another file, or move that one away.")
    if not file.parent.is_dir():
        raise Misconfigured(f"the folder {file.parent} is not there. Make it, or name another file.")
    return asyncio.run(_back_up(source, file))


async def _back_up(source: BackupSource, file: Path) -> BackupReport:
    async with _database(source) as (url, programs, version):
        found, _ = await schema_status(url)
        if found is None:
            raise Misconfigured(f"{source.data_dir} holds no complete Tickwise: its first start did not end.")
        head = ArchiveHead(
            tickwise=__version__,
            schema=found.version,
            postgresql=version,
            taken_at=datetime.fromtimestamp(SystemClock().now(), UTC).isoformat(timespec="seconds"),
            settings=[each for each in source.settings if each[2] != "default"],
            places={f"settings/{place.name}": str(place) for place in _settings_files(source.settings)},
        )
        return await apart(lambda stop: _write(source, file, head, stop.until(dump(programs, url)), stop))


@asynccontextmanager
async def _database(source: BackupSource) -> AsyncIterator[tuple[str, Path, str]]:
    """The address of the database, and the folder and the version of the programs of its server."""
    data_dir = source.data_dir
    if not (data_dir / "postgres").is_dir():
        raise Misconfigured(f"There is no Tickwise in {data_dir}. Name its data folder: --data-dir.")
    if source.database_url is not None:
        recorded = recorded_programs(cluster_folder(data_dir))
        major = int((cluster_folder(data_dir) / "data" / "PG_VERSION").read_text())
        found = find_binaries(major=major, recorded=recorded)
        yield source.database_url, found.bin_dir, found.version
        return
    server = EmbeddedPostgres(data_dir, clock=SystemClock())
    url = await server.start()
    try:
        programs = server.programs
        yield url, programs.bin_dir, programs.version
    finally:
        await server.stop()


def _write(source: BackupSource, file: Path, head: ArchiveHead, parts: Iterable[bytes], stop: StopFlag) -> BackupReport:
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as failure:
        raise Misconfigured(f"{partial} cannot be written: {failure.strerror}. Name another file.") from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            archive = ArchiveWriter(stream, head)
            for number, part in enumerate(parts, 1):
                archive.add(f"database/{number:08d}", part)
            for name in FILES:
                archive.add_file(f"files/{name}", source.data_dir / name)
            for name, place in head.places.items():
                archive.add_file(name, Path(place))
            blobs = sum(archive.add_file(f"blobs/{name}", place) for name, place in stop.until(_blobs(source)))
            archive.finish()
            stream.flush()
            os.fsync(stream.fileno())
        partial.rename(file)
        _sync(file.parent)
    except OSError as failure:
        raise Misconfigured(f"The backup could not be written to {file}: {failure.strerror or failure}.") from failure
    finally:
        partial.unlink(missing_ok=True)
    return BackupReport(file=str(file), bytes=file.stat().st_size, blobs=blobs, head=head)


def _blobs(source: BackupSource) -> Iterator[tuple[str, Path]]:
    """All blobs, by their keys."""
    url = value_of(source.settings, "blobs_url")
    folder = source.data_dir / "blobs" if url == UNSET else folder_of(url)
    if folder is None:
        return
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if _STAGED not in name:
                place = Path(path) / name
                yield place.relative_to(folder).as_posix(), place


def _settings_files(settings: Sequence[tuple[str, str, str]]) -> list[Path]:
    """The files that the settings came from, and those that they name, as far as this user can read them."""
    origins = [Path(origin) for _, _, origin in settings if Path(origin).name in SETTING_FILES]
    named = [Path(value_of(settings, name)) for name in OF_SETTINGS if value_of(settings, name) != UNSET]
    beside = [place.with_name(name) for place in origins for name in SETTING_FILES]
    found: dict[str, Path] = {}
    for place in (*beside, *named):
        if os.access(place, os.R_OK) and place.is_file():
            found.setdefault(place.name, place.absolute())
    return list(found.values())


def value_of(settings: Sequence[tuple[str, str, str]], name: str) -> str:
    """The value of a setting, as it is shown."""
    return next((value for each, value, _ in settings if each == name), UNSET)


def source_of(settings: Sequence[tuple[str, str, str]], name: str) -> str:
    """The origin of a setting's value; `default` if nobody set it."""
    return next((origin for each, _, origin in settings if each == name), "default")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
