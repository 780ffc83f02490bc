"""Reads the processor time and the memory of the host, or of the control group that bounds this process.

    groups from our own up to the mount ──► the one with the least limit ──► its usage beside its limit
                                       └──► none has a limit ──► those of the machine

A container that may use two of 64 cores is full when it uses two. Processor and memory are looked at apart, because a
service may have a limit of one and not of the other. The groups are found once: a limit that is changed later is read,
and one that is set later on another group is not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from tickwise.adapters.runner.process.cgroups import SELF, group_folder, mounts_of, own_groups
from tickwise.observability.host import HostUsage

UNLIMITED_BYTES: Final = 1 << 60
"""Version 1 says "no limit" by a number near the largest that there is."""
_CPU_WORK: Final = ("user", "nice", "system", "irq", "softirq", "steal")
"""Times of the machine that are no waiting. Those of guests are part of `user`."""


class _Group(NamedTuple):
    version: int
    folder: Path


class HostMeter:
    """Reads the usage of one place."""

    def __init__(self, process: Path = SELF) -> None:
        """Finds the groups that bound `process`, a folder as /proc/self is."""
        self._cpu = _least(_groups(process, "cpu"), _cores_of)
        self._memory = _least(_groups(process, "memory"), _limit_of)
        # Version 1 may count processor time in a hierarchy of its own, where our group has the same path.
        self._time = _time_group(process, self._cpu)

    def read(self) -> HostUsage:
        """The usage now. Raises `OSError` if a group is gone, as at the end of a container."""
        machine = psutil.virtual_memory()
        cores = None if self._cpu is None else _cores_of(self._cpu)
        limit = None if self._memory is None else _limit_of(self._memory)
        seconds = _machine_seconds() if cores is None or self._time is None else _seconds_of(self._time)
        return HostUsage(
            cpu_seconds=seconds,
            cpu_cores=float(_machine_cores()) if cores is None else min(cores, float(_machine_cores())),
            memory_bytes=(
                machine.total - machine.available if limit is None or self._memory is None else _used_of(self._memory)
            ),
            memory_limit_bytes=machine.total if limit is None else min(limit, machine.total),
        )


def _machine_cores() -> int:
    """Cores that the kernel lets this process use, by its affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count() or 1


def _machine_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(getattr(times, name, 0.0) for name in _CPU_WORK))


def _groups(process: Path, controller: str) -> list[_Group]:
    """The groups of `process` that may have a limit for this controller, from its own upwards."""
    found: list[_Group] = []
    try:
        mounts = mounts_of((process / "mountinfo").read_text())
        own = own_groups((process / "cgroup").read_text())
    except OSError:
        return found
    for mount in mounts:
        if mount.version == 2 and "" in own:
            found += [_Group(2, folder) for folder in _upwards(group_folder(mount, own[""]), mount.point)]
        elif mount.version == 1 and controller in mount.controllers and controller in own:
            found += [_Group(1, folder) for folder in _upwards(group_folder(mount, own[controller]), mount.point)]
    return found


def _upwards(folder: Path, top: Path) -> Iterator[Path]:
    yield folder
    while folder not in (top, folder.parent):
        folder = folder.parent
        yield folder


def _least(groups: list[_Group], limit_of: Callable[[_Group], float | None]) -> _Group | None:
    """The group whose limit is met first; None: none has one."""
    limits = [(limit, place) for place, group in enumerate(groups) if (limit := limit_of(group)) is not None]
    return groups[min(limits)[1]] if limits else None


def _time_group(process: Path, group: _Group | None) -> _Group | None:
    if group is None or group.version == 2 or (group.folder / "cpuacct.usage").exists():
        return group
    # The same part of the path, below the other mount: as many steps down from its top.
    return next((each for each in _groups(process, "cpuacct") if each.folder.name == group.folder.name), None)


def _cores_of(group: _Group) -> float | None:
    """The cores that a group may use at once; None: no limit."""
    with contextlib.suppress(OSError, ValueError):
        if group.version == 2:
            quota, period = (group.folder / "cpu.max").read_text().split()
        else:
            quota = (group.folder / "cpu.cfs_quota_us").read_text()
            period = (group.folder / "cpu.cfs_period_us").read_text()
        if quota != "max" and int(quota) > 0:
            return int(quota) / int(period)
    return None


def _limit_of(group: _Group) -> int | None:
    """The most memory that a group may use, in bytes; None: no limit."""
    name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
    with contextlib.suppress(OSError, ValueError):
        limit = int((group.folder / name).read_text())
        return limit if limit < UNLIMITED_BYTES else None
    return None


def _seconds_of(group: _Group) -> float:
    """Processor time that a group has used."""
    if group.version == 1:
        return int((group.folder / "cpuacct.usage").read_text()) / 1e9
    return _line(group.folder / "cpu.stat", "usage_usec") / 1e6


def _used_of(group: _Group) -> int:
    """Memory of a group in bytes, without files that the kernel can drop at any time."""
    used, inactive = (
        ("memory.current", "inactive_file") if group.version == 2 else ("memory.usage_in_bytes", "total_inactive_file")
    )
    return max(0, int((group.folder / used).read_text()) - _line(group.folder / "memory.stat", inactive))


def _line(file: Path, name: str) -> int:
    """The number of a line `name number`; 0 if there is none."""
    for line in file.read_text().splitlines():
        word, _, number = line.partition(" ")
        if word == name:
            return int(number)
    return 0
