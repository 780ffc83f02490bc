"""Keeps the files that a task left in its work folder, within limits, and says in the log which.

    look    what is there: names and sizes, nothing is read        in a thread
    keep    reads one file after the other and stores it           up to MAX_KEEPING_SECONDS

A task writes its folder as it likes. Invariant: no link is followed and nothing but a plain file of the task's own user
with one name is read, so a task gets nothing out of the executor that it could not read itself; no file is held in
memory that is larger than an artefact may be.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tickwise.adapters.runner.settings import ArtefactLimits
from tickwise.documents.artefacts import Artefact, ArtefactIndex, artefact_key, index_content, index_key
from tickwise.domain.errors import Unavailable
from tickwise.domain.secrets.output_masking import ValueForms
from tickwise.ports.blobs import Blobs

MAX_ENTRIES: Final = 20_000
"""Files and folders that are looked at."""
MAX_DEPTH: Final = 16
BLOCK_BYTES: Final = 512
"""The unit in which a file system says what a file takes."""
MAX_NAME: Final = 500
NAMES_SHOWN: Final = 10
NAMES_OF_REASON: Final = 3
"""Of those that are not kept for one reason, so that others are seen too."""
MAX_KEEPING_SECONDS: Final = 60.0
"""The longest that the end of a run waits for its artefacts."""
MAX_HURRIED_SECONDS: Final = 1.0
"""The longest wait of a run that is to end at once."""
LITTER: Final = frozenset({"__pycache__"})
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK

InThread = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class LeftFiles:
    """The files in a work folder."""

    limits: ArtefactLimits
    kept: list[tuple[str, int]] = field(default_factory=list)
    """The names and sizes of those that are within the limits."""
    kept_bytes: int = 0
    left: list[str] = field(default_factory=list)
    """Some of the others, each with the reason, for people."""
    left_count: int = 0
    entries: int = 0
    seen_bytes: int = 0
    """The room that all of them take on the disk, kept or not."""
    reasons: Counter[str] = field(default_factory=Counter)

    def leave(self, name: str, why: str) -> None:
        """Note a file that is not kept."""
        self.left_count += 1
        self.reasons[why] += 1
        if len(self.left) < NAMES_SHOWN and self.reasons[why] <= NAMES_OF_REASON:
            self.left.append(f"{_shown(name)} ({why})")


def look(work: Path, uid: int, own: Mapping[str, bytes], limits: ArtefactLimits) -> LeftFiles | None:
    """The files of this user; None: there are none. `own`: the contents that the task was given, by name; they are
    passed over while they are unchanged. Blocking. Raises nothing."""
    found = LeftFiles(limits)
    try:
        descriptor = os.open(work, _FOLDER)
    except OSError:
        return None
    try:
        _look_into(found, descriptor, "", uid, own, 0)
    finally:
        os.close(descriptor)
    return found if found.kept or found.left_count else None


def _look_into(found: LeftFiles, folder: int, prefix: str, uid: int, own: Mapping[str, bytes], depth: int) -> None:
    try:
        with os.scandir(folder) as entries:
            names = []
            for entry in entries:
                found.entries += 1
                if found.entries > MAX_ENTRIES:
                    found.leave(f"{prefix}…", f"only {MAX_ENTRIES} files and folders are looked at")
                    break
                names.append(entry.name)
    except OSError:
        return
    for name in sorted(names):
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue
        whole = f"{prefix}{name}"
        if stat.S_ISDIR(status.st_mode):
            _look_deeper(found, folder, whole, uid, own, depth)
        else:
            found.seen_bytes += status.st_blocks * BLOCK_BYTES
            _consider(found, folder, whole, status, uid, own)


def _look_deeper(found: LeftFiles, folder: int, whole: str, uid: int, own: Mapping[str, bytes], depth: int) -> None:
    name = whole.rpartition("/")[2]
    if name in LITTER or found.entries > MAX_ENTRIES:
        return
    if depth >= MAX_DEPTH:
        found.leave(f"{whole}/", f"it lies below more than {MAX_DEPTH} folders")
        return
    try:
        deeper = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return
    try:
        _look_into(found, deeper, f"{whole}/", uid, own, depth + 1)
    finally:
        os.close(deeper)


def _consider(
    found: LeftFiles, folder: int, whole: str, status: os.stat_result, uid: int, own: Mapping[str, bytes]
) -> None:
    if whole in own and _is_unchanged(folder, whole, status, own[whole]):
        return
    limits = found.limits
    why = _refusal(whole, status, uid, limits)
    if why is None and len(found.kept) >= limits.count:
        why = f"at most {limits.count} files are kept"
    if why is None and found.kept_bytes + status.st_size > limits.attempt_bytes:
        why = f"all together have more than {limits.attempt_bytes} bytes"
    if why is None:
        found.kept.append((whole, status.st_size))
        found.kept_bytes += status.st_size
    else:
        found.leave(whole, why)


def _refusal(name: str, status: os.stat_result, uid: int, limits: ArtefactLimits) -> str | None:
    """The reason why this is no artefact."""
    if not stat.S_ISREG(status.st_mode):
        return "it is a link" if stat.S_ISLNK(status.st_mode) else "it is no plain file"
    if status.st_nlink != 1 or status.st_uid != uid:
        return "it has another name or owner as well"
    if len(name) > MAX_NAME or not name.isprintable():
        return "its name is too long, or holds control characters"
    if status.st_size > limits.file_bytes:
        return f"it has {status.st_size} bytes, more than {limits.file_bytes}"
    return None


def _is_unchanged(folder: int, whole: str, status: os.stat_result, content: bytes) -> bool:
    if not stat.S_ISREG(status.st_mode) or status.st_size != len(content):
        return False
    try:
        descriptor = os.open(whole.rpartition("/")[2], _FILE, dir_fd=folder)
    except OSError:
        return False
    with open(descriptor, "rb") as file:
        return file.read(len(content) + 1) == content


def read_file(work: Path, name: str, uid: int, limits: ArtefactLimits) -> bytes | None:
    """The content of a file, looked at again on its open descriptor; None: it is no artefact any more. Blocking."""
    *folders, last = name.split("/")
    try:
        with _opened(work, folders) as folder:
            descriptor = os.open(last, _FILE, dir_fd=folder)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if _refusal(name, os.fstat(descriptor), uid, limits) is not None:
            return None
        content = file.read(limits.file_bytes + 1)
    return content if len(content) <= limits.file_bytes else None


@contextmanager
def _opened(work: Path, folders: Sequence[str]) -> Iterator[int]:
    """The innermost of these folders, each opened in the one before."""
    descriptor = os.open(work, _FOLDER)
    try:
        for name in folders:
            inner = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


class ArtefactKeeper:
    """Stores the artefacts of one attempt."""

    def __init__(
        self, blobs: Blobs, run_id: UUID, attempt: int, in_thread: InThread, forms: ValueForms | None = None
    ) -> None:
        """`forms`: of secrets, which no name of a file may hold."""
        self._blobs = blobs
        self._run_id = run_id
        self._attempt = attempt
        self._in_thread = in_thread
        self._forms = forms

    async def keep(self, work: Path, found: LeftFiles, uid: int, hurry: asyncio.Future[None]) -> str:
        """Store the files. The answer: the lines of the log about them. It ends soon after `hurry` is done, and raises
        nothing for a store that is away."""
        storing = asyncio.ensure_future(self._store(work, found, uid))
        ends: set[asyncio.Future[Any]] = {storing, hurry}
        await asyncio.wait(ends, timeout=MAX_KEEPING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not storing.done() and hurry.done():
            await asyncio.wait({storing}, timeout=MAX_HURRIED_SECONDS)
        if not storing.done():
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)
            return "[its artefacts are not kept: that took too long]\n"
        try:
            kept = storing.result()
        except Unavailable as error:
            return f"[its artefacts are not kept: {error.detail}]\n"
        return said(kept, found)

    async def _store(self, work: Path, found: LeftFiles, uid: int) -> Sequence[Artefact]:
        kept: list[Artefact] = []
        size = 0
        forms = self._forms
        if forms is not None:
            found.left[:] = map(forms.masked_text, found.left)
        for name, _ in found.kept:
            if forms is not None and (shown := forms.masked_text(name)) != name:
                found.leave(shown, "its name holds a secret")
                continue
            content = await self._in_thread(read_file, work, name, uid, found.limits)
            if content is None or size + len(content) > found.limits.attempt_bytes:
                found.leave(name, "it changed while it was kept")
                continue
            size += len(content)
            await self._blobs.put(artefact_key(self._run_id, self._attempt, len(kept)), content)
            kept.append(Artefact(name, len(content), hashlib.sha256(content).hexdigest()))
        index = ArtefactIndex(kept, found.left, found.left_count)
        await self._blobs.put(index_key(self._run_id, self._attempt), index_content(index))
        return kept


def said(kept: Sequence[Artefact], found: LeftFiles) -> str:
    """The lines of the log about the files of an attempt."""
    lines = []
    if kept:
        names = ", ".join(f"{_shown(each.name)} ({each.size_bytes} bytes)" for each in kept[:NAMES_SHOWN])
        more = f" and {len(kept) - NAMES_SHOWN} more" if len(kept) > NAMES_SHOWN else ""
        lines.append(f"[kept as artefacts: {names}{more}]\n")
    if found.left_count:
        more = f" and {found.left_count - len(found.left)} more" if found.left_count > len(found.left) else ""
        lines.append(f"[left in its folder and not kept: {', '.join(found.left)}{more}]\n")
    return "".join(lines)


def _shown(name: str) -> str:
    """A name on one line of a log."""
    short = name if len(name) <= 100 else f"{name[:100]}…"
    return short if short.isprintable() else ascii(short)
