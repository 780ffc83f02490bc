"""Two groups that only the processes of one attempt are in, where a task runs as another user.

    0x90000000 + …   the group of its executor, from the eleven digits of the executor's number
    0xA0000000 + …   the group of the attempt, from the seven digits that count the executor's attempts

A process keeps its groups when it forks, leaves its session, clears its environment, changes its limits,
makes a user namespace. Only a right of root's (CAP_SETGID) can take one away, and a task has none. `/proc/PID/status`
shows them. No file belongs to these groups, and the numbers lie above all that systemd, containers and directories
give out, so to be in one is no right. (Grid Engine and HTCondor find the processes of a job in the same way.)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.process.orphan_reaper_program import ATTEMPTS, EXECUTOR_GROUPS, executor_group

ATTEMPT_GROUPS: Final = 0xA000_0000
_AFTER: Final = ATTEMPT_GROUPS + ATTEMPTS
_PROC: Final = Path("/proc")
_STOPPED: Final = (b"T", b"t")


class Credentials(NamedTuple):
    """The rights of a process that matter here."""

    uid: int
    groups: frozenset[int]
    is_stopped: bool


def groups_of(number: int) -> tuple[int, int]:
    """The groups of the attempt with this number (`task_marks.Marks.attempt`)."""
    executor, attempt = divmod(number, ATTEMPTS)
    return executor_group(executor), ATTEMPT_GROUPS + attempt


def can_be_given() -> bool:
    """Check whether the user namespace of this process has those numbers: a container without root's rights may lack
    them."""
    try:
        rows = [[int(word) for word in line.split()] for line in Path("/proc/self/gid_map").read_text().splitlines()]
    except (OSError, ValueError):
        return False
    return any(inside <= EXECUTOR_GROUPS and inside + count >= _AFTER for inside, _, count in rows)


def credentials_of(name: str) -> Credentials:
    """The credentials of the process with this number. Raises `OSError` if it has ended."""
    uid, groups, is_stopped = 0, frozenset[int](), False
    for line in (_PROC / name / "status").read_bytes().splitlines():
        if line.startswith(b"State:"):
            is_stopped = line.split()[1] in _STOPPED
        elif line.startswith(b"Uid:"):
            uid = int(line.split()[1])
        elif line.startswith(b"Groups:"):
            groups = frozenset(map(int, line.split()[1:]))
            break
    return Credentials(uid, groups, is_stopped)


def credentials() -> Mapping[str, Credentials]:
    """The credentials of all processes. Blocking: some 20 µs for each."""
    found = {}
    for name in os.listdir(_PROC):
        if name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found[name] = credentials_of(name)
    return found
