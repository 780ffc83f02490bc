"""The prepared sandboxes of one executor, each for the tasks of one key.

    chosen(key) ──► a holder that is ready and has room ──► start                 (`holder`)
             └────► None: the task starts another way; where tasks come often, a holder is begun meanwhile

A holder is of one namespace, user, interpreter, environment and set of mounts. Invariants: tasks of two namespaces
never share one. No start waits for a holder. No more than MAX_HOLDERS are kept. One that has forked often, or for long,
forks no more, because all scripts that are forked from it have one hash seed; it ends with the last of its tasks.

For one event loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from tickwise.adapters.runner.process.removal import remove_folder
from tickwise.adapters.runner.process.sandbox.plan import Mount
from tickwise.adapters.runner.process.sandbox.prepared.holder import HolderStart, SandboxHolder
from tickwise.adapters.runner.process.task_places import PASSABLE
from tickwise.adapters.runner.process.task_starter import StarterLost
from tickwise.ports.clock import Clock

MAX_HOLDERS: Final = 8
"""Each takes some 12 MB, most of which it shares with the inits of its tasks, and two processes."""
MAX_STARTS: Final = 20_000
MAX_AGE_SECONDS: Final = 600.0
OFTEN_SECONDS: Final = 60.0
"""A second task within this time makes a holder worth its start, which costs as much as five sandboxes."""
IDLE_SECONDS: Final = 5.0
"""A holder that started nothing for so long may give its place to another one."""
FAILED_SECONDS: Final = 60.0
"""After one that did not become ready, until the next one of its key."""
MAX_REMEMBERED: Final = 1_000

logger = structlog.get_logger("tickwise.executor")


class HolderKey(NamedTuple):
    """Tasks with the same key can start in the same prepared sandbox."""

    namespace: str
    uid: int
    program: str
    """The interpreter of the holder."""
    environment: tuple[tuple[str, str], ...]
    """The variables of the holder, sorted."""
    mounts: tuple[Mount, ...]
    is_warm: bool


@dataclass(slots=True, eq=False)
class _KeptHolder:
    holder: SandboxHolder
    since: float
    last: float


@dataclass(slots=True)
class _Demand:
    """The demand for holders of one key, of which there is none."""

    asked: float = float("-inf")
    failed: float = float("-inf")
    is_starting: bool = False


@dataclass(slots=True)
class PreparedSandboxes:
    """Of one runner. `folder`: that of the runner's tasks, in which each holder gets a folder of its own."""

    folder: Path
    clock: Clock
    _kept: dict[HolderKey, _KeptHolder] = field(default_factory=dict)
    _leaving: list[SandboxHolder] = field(default_factory=list)
    _demands: dict[HolderKey, _Demand] = field(default_factory=dict)
    _making: set[asyncio.Task[None]] = field(default_factory=set)
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _is_closed: bool = False
    _thread: ThreadPoolExecutor = field(
        # The kernel ends a holder with the thread that has started it.
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="prepared-sandboxes")
    )

    def chosen(self, key: HolderKey, start: Callable[[Path], HolderStart]) -> SandboxHolder | None:
        """The holder for a task; None: it starts another way. `start`: the holder of this key, by its folder."""
        now = self.clock.monotonic()
        kept = self._current(key, now)
        if kept is not None:
            kept.last = now
            return kept.holder if kept.holder.has_room else None
        if len(self._demands) >= MAX_REMEMBERED:
            self._demands = {known: one for known, one in self._demands.items() if one.is_starting}
        demand = self._demands.setdefault(key, _Demand())
        is_often, demand.asked = now - demand.asked < OFTEN_SECONDS, now
        if not is_often or demand.is_starting or self._is_closed or now - demand.failed < FAILED_SECONDS:
            return None
        if self._make_room(now):
            demand.is_starting = True
            making = asyncio.get_running_loop().create_task(self._make(key, demand, start))
            self._making.add(making)
            making.add_done_callback(self._making.discard)
        return None

    def _current(self, key: HolderKey, now: float) -> _KeptHolder | None:
        """The holder that still forks. Those that fork no more are ended after the last of their tasks."""
        for done in [one for one in self._leaving if one.is_lost or not one.tasks]:
            self._leaving.remove(done)
            self._end(done)
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.holder.is_lost or kept.holder.starts >= MAX_STARTS or now - kept.since > MAX_AGE_SECONDS:
            self._leaving.append(self._kept.pop(key).holder)
            # The next one is begun at once: tasks come often.
            return None
        return kept

    def _make_room(self, now: float) -> bool:
        """Let the holder go that was used least lately, if there are too many; False if all are in use."""
        if len(self._kept) + len(self._making) < MAX_HOLDERS:
            return True
        key, oldest = min(self._kept.items(), key=lambda item: item[1].last, default=(None, None))
        if key is None or oldest is None or now - oldest.last < IDLE_SECONDS:
            return False
        self._leaving.append(self._kept.pop(key).holder)
        return True

    async def _make(self, key: HolderKey, demand: _Demand, start: Callable[[Path], HolderStart]) -> None:
        loop = asyncio.get_running_loop()
        place = self.folder / f"sandbox-{next(self._numbers)}"
        try:
            begun = await loop.run_in_executor(self._thread, partial(_begun, place, start))
        except StarterLost as error:
            demand.failed = self.clock.monotonic()
            logger.warning("prepared_sandbox_failing", namespace=key.namespace, detail=error.detail)
        else:
            now = self.clock.monotonic()
            holder = SandboxHolder(*begun)
            if self._is_closed:
                self._leaving.append(holder)
            else:
                self._kept[key] = _KeptHolder(holder, now, now)
        finally:
            demand.is_starting = False

    def _end(self, holder: SandboxHolder) -> None:
        holder.close()
        self._thread.submit(_ended, holder)

    async def close(self) -> None:
        """End all, with all that is left of their tasks."""
        self._is_closed = True
        if self._making:
            await asyncio.wait(self._making)
        for holder in (*self._leaving, *(kept.holder for kept in self._kept.values())):
            self._end(holder)
        self._leaving, self._kept = [], {}
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)


def _begun(
    place: Path, start: Callable[[Path], HolderStart]
) -> tuple[subprocess.Popen[bytes], socket.socket, HolderStart, str]:
    """Make the folder of a holder, and start it. Blocking. Raises `StarterLost`."""
    try:
        place.parent.mkdir(mode=PASSABLE, exist_ok=True)
        place.mkdir(mode=0o700)
        wanted = start(place)
        if wanted.user is not None:
            os.chown(place, wanted.user.uid, wanted.user.gid)
    except OSError as error:
        raise StarterLost(str(error)) from error
    try:
        return SandboxHolder.begin(wanted)
    except BaseException:
        remove_folder(place)
        raise


def _ended(holder: SandboxHolder) -> None:
    """Blocking."""
    holder.wait()
    remove_folder(holder.place)
