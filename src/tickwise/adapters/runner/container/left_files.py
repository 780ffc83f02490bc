"""The files that a task left in the work folder of its container, on their way to the artefacts.

    archive of the folder ──► a folder of ours: plain files within the limits ──► ArtefactKeeper

Invariant: of an archive, only plain files with plain names are written, each below a folder that was made for it, so
nothing that a task lays there leads out of it.
"""

from __future__ import annotations

import asyncio
import os
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import IO, Final

from tickwise.adapters.runner.artefacts import MAX_DEPTH, MAX_ENTRIES, ArtefactKeeper, LeftFiles, look
from tickwise.adapters.runner.container.engine import Engine, EngineAway, EngineRefused
from tickwise.adapters.runner.container.handover import UNTOUCHED_TEXT, WORK
from tickwise.adapters.runner.settings import ArtefactLimits, RunnerSettings
from tickwise.adapters.runner.slots import Attempt

MAX_ARCHIVE_FACTOR: Final = 4
"""Of the bytes that artefacts may have: so much of an archive is read, for files that are not kept are in it, too."""
HEADERS_BYTES: Final = 8 << 20


async def kept_files(
    attempt: Attempt, engine: Engine, container: str, files: Mapping[str, bytes], settings: RunnerSettings
) -> str:
    """Store what a task left in the work folder of its container, which has ended. `files`: those that it was given, by
    their whole paths. The answer: the lines of the log about them; empty, there are none. Raises nothing for an engine
    that is away."""
    given = {path.removeprefix(f"{WORK}/"): text for path, text in files.items() if path.startswith(f"{WORK}/")}
    try:
        if not given and await engine.changed(container, WORK) in (UNTOUCHED_TEXT, None):
            return ""
        return await _kept(attempt, engine, container, given, settings)
    except (EngineAway, EngineRefused, OSError, tarfile.TarError) as error:
        return f"[its artefacts are not kept: {error}]\n"


async def _kept(
    attempt: Attempt, engine: Engine, container: str, given: Mapping[str, bytes], settings: RunnerSettings
) -> str:
    limits, assignment, root = settings.artefacts, attempt.assignment, settings.work_root
    await asyncio.to_thread(lambda: root.mkdir(parents=True, exist_ok=True))
    with tempfile.TemporaryDirectory(prefix="left-", dir=root) as folder, tempfile.TemporaryFile(dir=root) as file:
        if not await fetch(engine.archive(container, WORK), file, limits):
            return f"[its artefacts are not kept: its work folder has much more than {limits.attempt_bytes} bytes]\n"
        found = await asyncio.to_thread(unpack, file, Path(folder), given, limits)
        if found is None:
            return ""
        keeper = ArtefactKeeper(
            settings.blobs, assignment.run_id, assignment.attempt, asyncio.to_thread, attempt.sink.forms
        )
        return await keeper.keep(Path(folder), found, os.getuid(), attempt.hurry)


async def fetch(pieces: AsyncIterator[bytes], into: IO[bytes], limits: ArtefactLimits) -> bool:
    """Write an archive to a file of ours; False: it is larger than what is read of it."""
    left = MAX_ARCHIVE_FACTOR * limits.attempt_bytes + HEADERS_BYTES
    async for piece in pieces:
        left -= len(piece)
        if left < 0:
            return False
        into.write(piece)
    return True


def unpack(archive: IO[bytes], folder: Path, own: Mapping[str, bytes], limits: ArtefactLimits) -> LeftFiles | None:
    """Lay the plain files of an archive into this empty folder; what is to be kept of them, None: nothing. `own`: the
    files that the task was given, by name. Blocking. Raises `OSError`, and `tarfile.TarError` for a broken archive."""
    archive.seek(0)
    others: list[tuple[str, str]] = []
    entries = 0
    with tarfile.open(fileobj=archive, mode="r:", errorlevel=1) as opened:
        for entry in opened:
            name = entry.name.partition("/")[2]  # the folder itself comes first
            entries += 1
            if entries > MAX_ENTRIES:
                others.append((f"{name}…", f"only {MAX_ENTRIES} files and folders are looked at"))
                break
            if not name or entry.isdir():
                continue
            why = _refusal(name, entry, limits)
            if why is not None:
                others.append((name, why))
                continue
            content = opened.extractfile(entry)
            if content is not None:
                _write(folder, name, content.read)
    found = look(folder, os.getuid(), own, limits)
    if others:
        found = found or LeftFiles(limits)
        for name, why in others:
            found.leave(name, why)
    return found


def _refusal(name: str, entry: tarfile.TarInfo, limits: ArtefactLimits) -> str | None:
    parts = name.split("/")
    if entry.issym():
        return "it is a link"
    if not entry.isreg():
        return "it has another name as well" if entry.islnk() else "it is no plain file"
    if len(parts) > MAX_DEPTH or any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts):
        return f"its name is none, or it lies below more than {MAX_DEPTH} folders"
    if entry.size > limits.file_bytes:
        return f"it has {entry.size} bytes, more than {limits.file_bytes}"
    return None


def _write(folder: Path, name: str, read: Callable[[int], bytes]) -> None:
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as file:
        while piece := read(1 << 20):
            file.write(piece)
