"""The warmed interpreters of one executor: which script may be forked from one, and from which.

    spawn ──► zygote_for ──► one that is ready ──► fork                        (`zygote`)
                  └──► None: a cold start; where scripts come often, one is made ready meanwhile

A zygote is of one interpreter and one user. Its environment is that of every task of theirs but for the variables of
the task itself, so those that matter to an interpreter at its start make a start cold (`reason_against`).

Invariants: no start waits for a zygote unless its task says `start: warm`. No more than MAX_ZYGOTES are kept. One that
has forked often, or for long, forks no more, because all of its children have one hash seed; it ends with the last of
its tasks.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog

from tickwise.adapters.runner.process.tree import Tree
from tickwise.adapters.runner.process.warm.zygote import Zygote, ZygoteLost
from tickwise.ports.clock import Clock

COLD: Final = "cold"
WARM: Final = "warm"
MAX_ZYGOTES: Final = 8
"""Each takes some 15 MB, most of which it shares with its children."""
MAX_FORKS: Final = 20_000
MAX_AGE_SECONDS: Final = 600.0
OFTEN_SECONDS: Final = 60.0
"""A second script within this time makes a zygote worth its start, which costs as much as five cold ones."""
IDLE_SECONDS: Final = 5.0
"""A zygote that forked nothing for so long may give its place to another one."""
FAILED_SECONDS: Final = 60.0
"""After one that did not become ready, until the next one of its kind."""
MAX_REMEMBERED: Final = 1_000

_AT_START: Final = re.compile(
    r"PYTHON.*|LC_.*|LANG|LANGUAGE|LOCPATH|NLSPATH|LD_.*|MALLOC_.*|GLIBC_.*|OPENSSL_.*|__PYVENV_LAUNCHER__"
)
"""Variables that an interpreter, its C library or OpenSSL reads once, at its start."""

logger = structlog.get_logger("tickwise.executor")


def reason_against(task: Mapping[str, Any]) -> str | None:
    """The reason why a script must start cold, by its task alone; None: it need not."""
    if task.get("start") == COLD:
        return "the task says so"
    named = next((name for name in task.get("env", {}) if _AT_START.fullmatch(name)), None)
    return None if named is None else f"its variable {named} matters at the start of an interpreter"


class ZygoteKey(NamedTuple):
    """Scripts with the same key can be forked from the same zygote."""

    program: str
    uid: int


SpawnProgram = Callable[[ZygoteKey, Mapping[str, str], int], tuple[Tree, int, bool, float]]


@dataclass(slots=True, eq=False)
class _Kept:
    zygote: Zygote
    seen: tuple[object, ...]
    """Its program and its folders on the disk, as they were when it began."""
    since: float
    last: float


class WarmStarts:
    """For one runner. Its methods block, and are for threads."""

    def __init__(self, clock: Clock, spawn: SpawnProgram) -> None:
        """`spawn` starts the program with these variables and this descriptor of its socket as its input."""
        self._clock = clock
        self._spawn = spawn
        self._lock = threading.Lock()
        self._kept: dict[ZygoteKey, _Kept] = {}
        self._leaving: list[Zygote] = []
        self._asked: dict[ZygoteKey, float] = {}
        self._failed: dict[ZygoteKey, float] = {}
        self._starting: set[ZygoteKey] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="zygotes")
        self._is_closed = False

    def zygote_for(self, key: ZygoteKey, environment: Mapping[str, str], *, waits: bool) -> Zygote | None:
        """The zygote that a script is forked from; None: it starts cold. `environment`: that of the zygote. `waits`:
        one is made if need be."""
        now = self._clock.monotonic()
        with self._lock:
            found = self._current(key, now)
            if found is not None or self._is_closed:
                return found
            often = waits or now - self._asked.get(key, -OFTEN_SECONDS) < OFTEN_SECONDS
            if len(self._asked) >= MAX_REMEMBERED:
                self._asked.clear()
            self._asked[key] = now
            failed = now - self._failed.get(key, -FAILED_SECONDS) < FAILED_SECONDS
            if not often or failed or (key in self._starting and not waits) or not self._make_room(now):
                return None
            self._starting.add(key)
            making = self._thread.submit(self._make, key, environment)
        if not waits:
            return None
        making.result()
        with self._lock:
            return self._current(key, self._clock.monotonic())

    def ready(self, key: ZygoteKey) -> Zygote | None:
        """The zygote that scripts are forked from now. It looks at the disk, and makes none."""
        with self._lock:
            return None if self._is_closed else self._current(key, self._clock.monotonic())

    def _current(self, key: ZygoteKey, now: float) -> Zygote | None:
        """The zygote that still forks. Those that fork no more are ended after the last of their tasks."""
        for done in [one for one in self._leaving if one.tasks <= 0]:
            self._leaving.remove(done)
            self._thread.submit(done.close)
        kept = self._kept.get(key)
        if kept is None:
            return None
        zygote = kept.zygote
        is_over = zygote.forks_no_more or zygote.forks >= MAX_FORKS or now - kept.since > MAX_AGE_SECONDS
        if is_over or kept.seen != _seen(key.program, zygote.path):
            self._leaving.append(self._kept.pop(key).zygote)
            # The next one is made at once: scripts come often.
            return None
        kept.last = now
        return zygote

    def _make_room(self, now: float) -> bool:
        """Let the zygote go that was used least lately, if there are too many; False if all are in use."""
        if len(self._kept) + len(self._starting) < MAX_ZYGOTES:
            return True
        key, oldest = min(self._kept.items(), key=lambda item: item[1].last, default=(None, None))
        if key is None or oldest is None or now - oldest.last < IDLE_SECONDS:
            return False
        self._leaving.append(self._kept.pop(key).zygote)
        return True

    def _make(self, key: ZygoteKey, environment: Mapping[str, str]) -> None:
        """In the thread of its own."""
        with self._lock:
            if key in self._kept or self._is_closed:
                self._starting.discard(key)
                return
        zygote = None
        try:
            zygote = self._started(key, environment)
        except (OSError, ZygoteLost) as error:
            logger.info("zygote_unusable", program=key.program, detail=str(error))
        finally:
            now = self._clock.monotonic()
            with self._lock:
                self._starting.discard(key)
                if zygote is not None:
                    self._kept[key] = _Kept(zygote, _seen(key.program, zygote.path), now, now)
                else:
                    if len(self._failed) >= MAX_REMEMBERED:
                        self._failed.clear()
                    self._failed[key] = now

    def _started(self, key: ZygoteKey, environment: Mapping[str, str]) -> Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                tree, output, *_ = self._spawn(key, environment, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        return Zygote(tree, output, ours)

    def close(self) -> None:
        """End all. None of their children may be left."""
        with self._lock:
            self._is_closed = True
        self._thread.shutdown()
        for zygote in (*self._leaving, *(kept.zygote for kept in self._kept.values())):
            zygote.close()
        self._leaving, self._kept = [], {}


def _seen(program: str, path: Sequence[str]) -> tuple[object, ...]:
    """An interpreter and the folders that it imports from, on the disk: another value when one of them is replaced, or
    when packages come or go."""
    found: list[object] = []
    for name in (program, *path):
        try:
            status = os.stat(name)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino, status.st_mtime_ns))
    return tuple(found)
