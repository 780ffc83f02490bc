"""An installation made of a backup, in an empty folder.

    verify the whole file ─► empty folder ─► RESTORING ─► new cluster ─► dump, keys, outputs ─► new epoch ─► complete

Invariant: while the file RESTORING is there, the folder is no installation, and no `up` starts on it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickwise import __version__
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import (
    Binaries,
    EmbeddedPostgres,
    cluster_folder,
    find_binaries,
    loading,
    make_data_dir,
)
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.schema import WANTED
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.continuity import Restored, begin_and_report
from tickwise.wiring.installation.apart import apart
from tickwise.wiring.installation.archive import READ_BYTES, ArchiveHead, ArchiveMember, opened
from tickwise.wiring.installation.backup import FILES

RESTORING: Final = "RESTORING"
"""In the data folder until a restore is complete."""
_OF_A_DISK: Final = frozenset({"lost+found"})
"""Present on a disk that is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """An installation that was restored."""

    data_dir: str
    head: ArchiveHead
    blobs: int
    settings_files: list[str]
    """Files of settings, which lie in the data folder now: no `up` reads them there by itself."""
    follows: Restored
    """The runs and occurrences that go on."""


def check_whole(data_dir: Path) -> None:
    """Raises `Misconfigured` for a folder in which a restore has not ended."""
    if (data_dir / RESTORING).exists():
        raise Misconfigured(
            f"{data_dir} holds the begin of a restore that did not end, and is no installation. If no restore is at "
            "work, delete the folder and repeat `tickwise restore`."
        )


def verified(file: Path) -> ArchiveHead:
    """The head of a backup that is whole and that this program can restore. Raises `Misconfigured`."""
    with opened(file) as (head, _):
        _check_versions(file, head, find_binaries())
        return head


def restore(file: Path, data_dir: Path) -> RestoreReport:
    """Make the installation of a backup in an empty folder. Raises `Misconfigured`; the folder is then empty again."""
    with opened(file) as (head, members):
        _check_versions(file, head, find_binaries())
        _check_empty(data_dir)
        make_data_dir(data_dir)
        (data_dir / RESTORING).touch(mode=0o600)
        try:
            report = asyncio.run(_restore(head, members, data_dir))
            (data_dir / RESTORING).unlink()
        except BaseException as failure:
            _empty(data_dir)
            if isinstance(failure, OSError):
                raise Misconfigured(f"The restore to {data_dir} failed: {failure.strerror or failure}.") from failure
            raise
    return report


def _check_versions(file: Path, head: ArchiveHead, programs: Binaries) -> None:
    if head.schema > WANTED:
        raise Misconfigured(
            f"{file} was made by a newer Tickwise ({head.tickwise}, schema {head.schema}); this is {__version__} with "
            f"schema {WANTED}. Install that version or a newer one."
        )
    if int(head.postgresql.split(".")[0]) > programs.major:
        raise Misconfigured(
            f"{file} was made with PostgreSQL {head.postgresql}, and here is {programs.version}. Install PostgreSQL "
            f"{head.postgresql.split('.')[0]}, or the Tickwise that made it."
        )


def _check_empty(data_dir: Path) -> None:
    check_whole(data_dir)
    if not data_dir.exists():
        return
    if not data_dir.is_dir() or {each.name for each in data_dir.iterdir()} - _OF_A_DISK:
        raise Misconfigured(
            f"{data_dir} is not empty: a backup is restored into an empty folder, or one that is not there yet. Name "
            "another: --data-dir. Or stop what runs there (`tickwise down`), and move the folder away."
        )


async def _restore(head: ArchiveHead, members: Iterator[ArchiveMember], data_dir: Path) -> RestoreReport:
    server = EmbeddedPostgres(data_dir, clock=SystemClock())
    url = await server.start()
    try:
        programs = server.programs.bin_dir
        blobs, settings_files = await apart(lambda stop: _unpack(stop.until(members), data_dir, programs, url))
        await upgrade(url)
        store = PostgresStore(url, clock=SystemClock())
        await store.open()
        try:
            follows = await begin_and_report(store)
        finally:
            await store.close()
    finally:
        await server.stop()
    return RestoreReport(data_dir=str(data_dir), head=head, blobs=blobs, settings_files=settings_files, follows=follows)


def _unpack(members: Iterator[ArchiveMember], data_dir: Path, programs: Path, url: str) -> tuple[int, list[str]]:
    """The number of blobs, and the files of settings."""
    blobs, settings_files = 0, list[str]()
    with loading(programs, url) as write:
        for member in members:
            folder, _, name = member.name.partition("/")
            if folder == "database":
                while part := member.content.read(READ_BYTES):
                    write(part)
                continue
            if folder == "files" and name not in FILES:
                continue
            place = data_dir / (name if folder == "files" else member.name)
            # A key or a file of settings is its owner's alone, however it stood before.
            _write(place, member if folder == "blobs" else _private(member))
            blobs += folder == "blobs"
            settings_files += [str(place)] if folder == "settings" else []
    return blobs, settings_files


def _private(member: ArchiveMember) -> ArchiveMember:
    """The member as a file that only its owner may read."""
    return member._replace(mode=0o600)


def _write(place: Path, member: ArchiveMember) -> None:
    for folder in reversed(place.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        shutil.copyfileobj(member.content, stream, READ_BYTES)
        os.fchmod(stream.fileno(), member.mode & 0o777)
        if not member.name.startswith("blobs/"):
            # A key that is lost with the power shuts people out. Outputs reach the disk by themselves within a minute,
            # and the archive has them until then.
            stream.flush()
            os.fsync(stream.fileno())
    os.utime(place, (member.modified_at, member.modified_at))


def _empty(data_dir: Path) -> None:
    """Remove what a restore has made in a folder that was empty, its cluster outside of the folder too."""
    shutil.rmtree(cluster_folder(data_dir), ignore_errors=True)
    for each in data_dir.iterdir():
        if each.name in _OF_A_DISK:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
