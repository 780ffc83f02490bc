"""The store in a folder of one process: its address, its limits in words, and a look at it from outside.

up --store file ──► file:///DATA/store ──► a log in that folder (`adapters/store/keeper`)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.store import Store
from tickwise.wiring.findings import DoctorFinding

FOLDER: Final = "store"
"""In the data folder of `up`."""
LIMITS: Final = "its jobs are in the memory of one process: for up to 10,000 of them, and no second process can use it"
SPACE_BYTES: Final = 256 << 20


def is_in_process(url: str) -> bool:
    """Check whether an address names a store that lives in the process that opens it."""
    return url.startswith(("memory:", "file:"))


def address_in(data_dir: Path) -> str:
    """The address of the file store of a data folder."""
    return (data_dir.absolute() / FOLDER).as_uri()


def is_used(data_dir: Path) -> bool:
    """Check whether the data folder has a file store already; of one that was copied the lock may be missing."""
    folder = data_dir / FOLDER
    return (folder / "lock").exists() or any(folder.glob("*-*.tw"))


def has_postgresql(data_dir: Path) -> bool:
    """Check whether the data folder has a PostgreSQL of its own."""
    from tickwise.adapters.embedded import has_cluster

    return has_cluster(data_dir)


def folder_of_store(url: str) -> Path:
    """The folder that an address names. Raises `Misconfigured`."""
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise Misconfigured("the address of a file store is file:///folder, with the whole path of a folder")
    return Path(unquote(parts.path))


def check_is_there(url: str) -> None:
    """Raises `Misconfigured` if there is no file store at the address."""
    folder = folder_of_store(url)
    if not any(folder.glob("*-*.tw")):
        raise Misconfigured(f"there is no file store in {folder}: `tickwise up --store file` makes one")


def open_file_store(
    url: str, clock: Clock, *, near_seconds: float, ended_in_memory: int, lost: Callable[[], None]
) -> Store:
    """The store over the log in that folder; it is still to be opened. `lost` is called if the process has to end."""
    from tickwise.adapters.store.keeper.file_log import FileLog
    from tickwise.adapters.store.keeper.spilled import SpilledRuns
    from tickwise.adapters.store.keeper.store import KeeperStore

    folder = folder_of_store(url)
    store = KeeperStore(
        FileLog(folder), clock, near_seconds=near_seconds, lost=lambda _detail: lost(),
        make_ended=lambda: SpilledRuns(folder, ended_in_memory),
    )  # fmt: skip
    return cast("Store", store)


def examine_file_store(url: str) -> Iterator[DoctorFinding]:
    """Read all files of a file store, whether a process has it or not, and change nothing."""
    from tickwise.adapters.store.keeper.file_log import examine

    try:
        folder = folder_of_store(url)
        if not folder.is_dir():
            yield DoctorFinding("store", "ok", f"{folder} is not there yet: `tickwise up --store file` makes it")
            return
        found = examine(folder)
    except Misconfigured as failure:
        yield DoctorFinding("store", "error", failure.detail, "see docs/how-to/file-store.md")
        return
    except OSError as failure:
        yield DoctorFinding("store", "error", f"the file store cannot be read: {failure}", "run it as the user of `up`")
        return
    size = f"{found.bytes / (1 << 20):.1f} MB in {found.files} files, entries up to {found.last}"
    if found.passed_over:
        places = ", ".join(f"{path} at byte {place}" for path, place in found.passed_over)
        said = f"{places} is damaged, and nothing is lost: a checkpoint has these entries; {size}"
        yield DoctorFinding("store", "warning", said, "look at the disk: what is damaged goes with a later checkpoint")
    else:
        yield DoctorFinding("store", "ok", f"a log in {folder}: {size}, all whole; {LIMITS}")
    free = shutil.disk_usage(folder).free
    if free < SPACE_BYTES:
        said = f"{free / (1 << 20):.0f} MB free for the log in {folder}"
        yield DoctorFinding("store space", "warning", said, "free some space: a full disk stops all work")
