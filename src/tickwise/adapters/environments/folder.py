"""The folder of environments, which the executors of a machine share. Blocking: for threads.

    ready/<key>/        venv/, about.json, build.log: whole, read-only
    building/<key>-…/   being made; locked by its builder for as long as that lives
    caches/<digest>/    what uv keeps for a namespace and user: downloads, and packages that were built from source
    locks/<key>         locked shared by each holder of an environment, exclusively by its builder and its remover
    programs/           the builder and uv, where the users of tasks can run neither in its own place
    removed-…/          on its way out; the next look removes what a kill left of it

    building/<key>-… ──sealed, rename──► ready/<key> ──nobody holds it, rename──► removed-… ──► gone

Invariants: `ready` holds whole environments alone; one that is held is not removed; only the builder that has the
exclusive lock of a key publishes it. All locks are the kernel's (`flock`), so a killed process holds none.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.environments.sealing import remove_tree, seal, size_of
from tickwise.ports.environments import FolderOwner

PASSABLE: Final = 0o711
"""Others may pass through to names that they know, and list nothing."""
PROGRAM: Final = Path("venv/bin/python")
REMOVED: Final = "removed-"
CACHE: Final = "cache-"
"""The lock of a cache, before its digest."""
MAX_LOG_BYTES: Final = 1 << 20


class EnvironmentFacts(NamedTuple):
    """The facts of an environment, kept beside it."""

    key: str
    namespace: str
    declared: str
    """The demand, for people: the requirements or the kind of lock."""
    python: str
    built_at: float
    seconds: float
    size_bytes: int


class StoredEnvironment(NamedTuple):
    """An environment that is ready."""

    facts: EnvironmentFacts
    used_at: float
    in_use: bool


@dataclass(frozen=True, slots=True)
class HeldEnvironment:
    """An `Environment`: a shared lock, and the interpreter that it keeps."""

    program: Path
    lock: int

    def release(self) -> None:
        """See `Environment`."""
        os.close(self.lock)


class Claim(NamedTuple):
    """The right to build one key."""

    key: str
    lock: int

    def release(self) -> None:
        """Let another builder have it."""
        os.close(self.lock)


class BuildSite(NamedTuple):
    """The folder of one build."""

    folder: Path
    work: Path
    """The part of it that belongs to the user of the build."""
    cache: Path
    locks: tuple[int, ...]
    """Of the folder, and of the cache."""


class EnvironmentFolder:
    """The folder of one machine's environments."""

    def __init__(self, root: Path) -> None:
        """Raises `OSError` if it cannot be made."""
        self.root = root
        self._programs: dict[Path, Path] = {}
        root.mkdir(parents=True, exist_ok=True, mode=PASSABLE)
        for name in ("ready", "building", "caches", "locks", "programs"):
            (root / name).mkdir(exist_ok=True, mode=PASSABLE)
            (root / name).chmod(PASSABLE)

    # ------------------------------------------------------------------------------------------ hold and claim

    def hold(self, key: str, now: float) -> HeldEnvironment | None:
        """The environment, if it is ready; used `now`, in seconds since the epoch."""
        lock = self._lock(key, fcntl.LOCK_SH)
        if lock is None:
            return None
        program = self.root / "ready" / key / PROGRAM
        if program.exists():  # false also if the Python that it was made of is gone
            os.utime(lock, (now, now))
            return HeldEnvironment(program, lock)
        os.close(lock)
        return None

    def is_ready(self, key: str) -> bool:
        """Check whether it can be held; without a lock, for this moment."""
        return (self.root / "ready" / key / PROGRAM).exists()

    def claim(self, key: str) -> Claim | None:
        """The right to build it; None: somebody holds or builds it."""
        lock = self._lock(key, fcntl.LOCK_EX)
        return None if lock is None else Claim(key, lock)

    def _lock(self, name: str, operation: int) -> int | None:
        """The descriptor of the locked file; None: another one has a lock that does not agree."""
        file = self.root / "locks" / name
        while True:
            lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, operation | fcntl.LOCK_NB)
                # The file may have been removed with what it locked, and another one made.
                if os.path.samestat(os.fstat(lock), file.stat()):
                    return lock
            except BlockingIOError:
                os.close(lock)
                return None
            except FileNotFoundError:
                pass
            os.close(lock)

    # ------------------------------------------------------------------------------------------ build

    def begin(self, claim: Claim, namespace: str, owner: FolderOwner | None) -> BuildSite:
        """A fresh folder for a build, and the cache of the namespace. Raises `OSError`."""
        folder, lock = self._locked_folder(claim.key)
        folder.chmod(PASSABLE)
        work = folder / "work"
        work.mkdir(mode=0o700)
        # Of each user too: executors with other work folders, or another `run_tasks_as`, have other users for the
        # namespace, and none of them can read the cache of another one.
        user = os.geteuid() if owner is None else owner.uid
        digest = sha256(f"{user}\0{namespace}".encode()).hexdigest()[:32]
        # An exclusive lock is a remover's, and gone in a moment; without a lock the cache may go, which costs a build.
        used = self._lock(CACHE + digest, fcntl.LOCK_SH)
        if used is not None:
            os.utime(used)
        cache = self.root / "caches" / digest / "uv"
        cache.parent.mkdir(exist_ok=True, mode=PASSABLE)
        cache.parent.chmod(PASSABLE)
        cache.mkdir(exist_ok=True, mode=0o700)
        if owner is not None:
            os.chown(work, owner.uid, owner.gid)
            if cache.lstat().st_uid != owner.uid:
                os.chown(cache, owner.uid, owner.gid, follow_symlinks=False)
        return BuildSite(folder, work, cache, (lock,) if used is None else (lock, used))

    def _locked_folder(self, key: str) -> tuple[Path, int]:
        while True:
            folder = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.root / "building"))
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:  # another process swept it away, before it was locked
                continue
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)

    def publish(
        self, site: BuildSite, facts: EnvironmentFacts, log: bytes, owner: FolderOwner | None
    ) -> EnvironmentFacts:
        """Seal what was built, and make it ready; with its size. Raises `ForeignFile`, `OSError`."""
        venv = site.folder / "venv"
        (site.work / "venv").rename(venv)
        size = seal(venv, os.geteuid() if owner is None else owner.uid)
        facts = facts._replace(size_bytes=size)
        (site.folder / "build.log").write_bytes(log[-MAX_LOG_BYTES:])
        (site.folder / "about.json").write_text(json.dumps(facts._asdict()), encoding="utf-8")
        remove_tree(site.work)
        ready = self.root / "ready" / facts.key
        if ready.exists():  # broken, or we would not have built
            self._remove(ready)
        site.folder.rename(ready)
        return facts

    def abandon(self, site: BuildSite) -> None:
        """Remove what is left of a build, and let go of its locks."""
        if site.folder.exists():
            remove_tree(site.folder)
        for lock in site.locks:
            os.close(lock)

    def program(self, source: Path) -> Path:
        """A copy of a program that every user can run; the same for the same content. Read once: uv has 38 MB. Raises
        `OSError`."""
        known = self._programs.get(source)
        if known is not None and known.exists():
            return known
        with source.open("rb") as file:
            digest = sha256(file.read()).hexdigest()[:16]
        place = self.root / "programs" / f"{digest}-{source.name}"
        if not place.exists():
            partial = place.with_name(f"{place.name}-{os.getpid()}")
            try:
                shutil.copyfile(source, partial)
                partial.chmod(0o555)
                partial.rename(place)
            except OSError:
                partial.unlink(missing_ok=True)  # it would keep a full disk full
                raise
        self._programs[source] = place
        return place

    # ------------------------------------------------------------------------------------------ list and remove

    def stored(self) -> list[StoredEnvironment]:
        """The environments that are ready, the least recently used first."""
        found = []
        for folder in (self.root / "ready").iterdir():
            with suppress(OSError, ValueError, TypeError):  # it is being removed
                facts = EnvironmentFacts(**json.loads((folder / "about.json").read_text(encoding="utf-8")))
                lock = self.root / "locks" / folder.name
                used_at = lock.stat().st_mtime if lock.exists() else facts.built_at
                found.append(StoredEnvironment(facts, used_at, self._is_locked(folder.name)))
        return sorted(found, key=lambda each: each.used_at)

    def log(self, key: str) -> bytes | None:
        """The log of its build; None if there is no such environment."""
        try:
            return (self.root / "ready" / key / "build.log").read_bytes()
        except OSError:
            return None

    def _is_locked(self, name: str) -> bool:
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is None:
            return True
        os.close(lock)
        return False

    def shrink(self, *, bytes_most: int, count_most: int) -> list[str]:
        """Remove what was used least recently until both limits are kept, caches first; the keys of the removed
        environments. What is in use stays."""
        stored = self.stored()
        caches = {folder: size_of(folder) for folder in (self.root / "caches").iterdir()}
        size = sum(each.facts.size_bytes for each in stored) + sum(caches.values())
        for folder in sorted(caches, key=self._cache_used_at):
            if size > bytes_most and self._drop(CACHE + folder.name, folder):
                size -= caches[folder]
        count, removed = len(stored), []
        for each in stored:
            if size <= bytes_most and count <= count_most:
                break
            if self.remove(each.facts.key):
                size, count = size - each.facts.size_bytes, count - 1
                removed.append(each.facts.key)
        return removed

    def remove_unused(self, since: float) -> list[str]:
        """Remove what was not used since then, in seconds since the epoch; the keys. What is in use stays."""
        unused = [each.facts.key for each in self.stored() if each.used_at < since]
        return [key for key in unused if self.remove(key)]

    def _cache_used_at(self, folder: Path) -> float:
        try:
            return (self.root / "locks" / (CACHE + folder.name)).stat().st_mtime
        except OSError:
            return 0.0

    def remove(self, key: str) -> bool:
        """Remove one environment; False if it is in use."""
        return self._drop(key, self.root / "ready" / key)

    def _drop(self, name: str, folder: Path) -> bool:
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is None:
            return False
        try:
            if folder.exists():
                self._remove(folder)
            (self.root / "locks" / name).unlink(missing_ok=True)
        finally:
            os.close(lock)
        return True

    def _remove(self, folder: Path) -> None:
        """At once as far as others see."""
        for number in itertools.count():
            removed = self.root / f"{REMOVED}{os.getpid()}-{number}"
            try:
                folder.rename(removed)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                remove_tree(removed)
                return

    def sweep(self) -> None:
        """Remove what killed builds and removals left."""
        for folder in self.root.glob(f"{REMOVED}*"):
            remove_tree(folder)
        for folder in self._abandoned():
            remove_tree(folder)

    def _abandoned(self) -> Iterator[Path]:
        for folder in (self.root / "building").iterdir():
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield folder
            except BlockingIOError:
                pass
            finally:
                os.close(lock)
