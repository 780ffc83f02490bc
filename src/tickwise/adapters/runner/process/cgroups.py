"""Control groups for tasks whose limits need the kernel, where this executor may make them.

            version 2 (delegated)            version 1
    memory  memory.max, memory.events        memory.limit_in_bytes, memory.oom_control
    pids    pids.max, pids.events            pids.max, pids.events
    cpu     cpu.stat (needs no controller)   cpuacct.usage

Each resource is looked for by itself, because many machines mount both versions and each controller lives in one. What
is found stands for as long as the executor runs; what is not found is watched from outside (`limits`).

Groups are made beside the tasks of the executor's own group: `tickwise-<executor>-<attempt>`. In version 2 a group with
processes of its own cannot divide its memory among groups below, so there the executor must have been started in a
group below one that was delegated to it (systemd: `Delegate=yes` and `DelegateSubgroup=executor`).

Invariant: nothing outside of groups with our own name is ever changed but one: the list of controllers that a group
passes on (`cgroup.subtree_control`) gets the two that we need, if it lets us.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.ports.runner import TaskLimits

PREFIX: Final = "tickwise-"
SELF: Final = Path("/proc/self")
DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""The attributes by which systemd says that a group is its service's to divide."""


class Resource(StrEnum):
    """The resources that a group can count or limit; the names of the controllers of version 2."""

    MEMORY = "memory"
    PIDS = "pids"
    CPU = "cpu"


SWAP_BYTES: Final = 1 << 20
"""The memory of a task that may go to swap in version 1. With zero, this limit would be met first and not be counted as
met (Linux 6.15 and later count only those of memory itself)."""
_VERSION_1: Final = {Resource.MEMORY: "memory", Resource.PIDS: "pids", Resource.CPU: "cpuacct"}


class GroupFolder(NamedTuple):
    """The folder in which groups for a resource are made."""

    version: int
    folder: Path


Places = Mapping[Resource, GroupFolder]


class Usage(NamedTuple):
    """The counts of a group. None: the group does not count that."""

    cpu_seconds: float | None = None
    memory_exceeded: bool | None = None
    """The kernel killed one of it because the group had no memory left."""
    processes_exceeded: bool | None = None
    """A fork was refused because the group had too many."""
    memory_bytes: int | None = None
    """The peak."""


class GroupMount(NamedTuple):
    version: int
    controllers: frozenset[str]
    root: str
    """The part of the hierarchy that is seen here."""
    point: Path


# ------------------------------------------------------------------------------------------ looking for places


def find_places(name: str, *, process: Path = SELF) -> Places:
    """Find the folders in which groups of this `name` can be made, by trying. Blocking, a few milliseconds."""
    found: dict[Resource, GroupFolder] = {}
    for resource, place in candidates(process):
        if resource not in found and _can_make(place, resource, f"{PREFIX}{name}-probe"):
            found[resource] = place
    return found


def candidates(process: Path) -> Iterator[tuple[Resource, GroupFolder]]:
    """Places that may do, version 2 first."""
    try:
        mounts = mounts_of((process / "mountinfo").read_text())
        own = own_groups((process / "cgroup").read_text())
    except OSError:
        return
    for mount in mounts:
        if mount.version == 2 and "" in own:
            folder = group_folder(mount, own[""])
            yield Resource.CPU, GroupFolder(2, folder)
            for base in (folder, *([folder.parent] if _is_delegated(folder.parent) else [])):
                for resource in passed_on(base):
                    yield resource, GroupFolder(2, base)
    for mount in mounts:
        for resource, controller in _VERSION_1.items():
            if mount.version == 1 and controller in mount.controllers and controller in own:
                yield resource, GroupFolder(1, group_folder(mount, own[controller]))


def mounts_of(text: str) -> Sequence[GroupMount]:
    found = []
    for line in text.splitlines():
        fields = line.split()
        kind, _, options = fields[fields.index("-") + 1 :][:3]
        if kind in ("cgroup", "cgroup2"):
            version = 2 if kind == "cgroup2" else 1
            found.append(GroupMount(version, frozenset(options.split(",")), fields[3], Path(fields[4])))
    return found


def own_groups(text: str) -> Mapping[str, str]:
    """The path of our group by controller; that of version 2 under the empty name."""
    return {
        controller: path
        for _, controllers, path in (line.split(":", 2) for line in text.splitlines())
        for controller in controllers.split(",")
    }


def group_folder(mount: GroupMount, path: str) -> Path:
    """The folder of a group. In a container without a namespace for groups the mount shows only its part."""
    below = path[len(mount.root) :] if mount.root != "/" and path.startswith(mount.root) else path
    return mount.point / below.lstrip("/")


def _is_delegated(folder: Path) -> bool:
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def passed_on(base: Path) -> Sequence[Resource]:
    """The controllers that a group of version 2 passes on to groups below it, after asking it to."""
    try:
        wanted = [one for one in (Resource.MEMORY, Resource.PIDS) if one in _words(base / "cgroup.controllers")]
        for one in wanted:
            if one not in _words(base / "cgroup.subtree_control"):
                with contextlib.suppress(OSError):  # it has processes of its own, or is not ours
                    _write(base / "cgroup.subtree_control", f"+{one}")
        passed = _words(base / "cgroup.subtree_control")
    except OSError:
        return ()
    return [one for one in wanted if one in passed]


def _can_make(place: GroupFolder, resource: Resource, name: str) -> bool:
    try:
        (place.folder / name).mkdir()
    except OSError:
        return False
    try:
        return all((place.folder / name / file).exists() for file in ("cgroup.procs", _FILES[place.version][resource]))
    finally:
        with contextlib.suppress(OSError):
            (place.folder / name).rmdir()


# ------------------------------------------------------------------------------------------ groups

_FILES: Final[Mapping[int, Mapping[Resource, str]]] = {
    1: {Resource.MEMORY: "memory.limit_in_bytes", Resource.PIDS: "pids.max", Resource.CPU: "cpuacct.usage"},
    2: {Resource.MEMORY: "memory.max", Resource.PIDS: "pids.max", Resource.CPU: "cpu.stat"},
}


_PEAKS: Final = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of one attempt: one folder for each hierarchy that it needs. Blocking calls."""

    places: Places
    """The folder for each resource that is counted here."""

    @property
    def folders(self) -> frozenset[Path]:
        return frozenset(place.folder for place in self.places.values())

    def add(self, pid: int) -> bool:
        """Move a process in; what it starts from then on is in it too. False if the kernel does not let it in.

        Waits for up to some 10 ms, because the kernel waits for all processors.
        """
        for folder in self.folders:
            try:
                _write(folder / "cgroup.procs", str(pid))
            except ProcessLookupError:
                continue  # it has ended
            except OSError:
                return False
        return True

    def members(self) -> set[int]:
        """The numbers of the processes in it."""
        found: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        return found

    def kill(self) -> None:
        """KILL all at once, where the kernel can (version 2, Linux 5.14)."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                _write(folder / "cgroup.kill", "1")

    def usage(self) -> Usage:
        """Its counts up to now."""
        return Usage(self._cpu_seconds(), self._memory_exceeded(), self._processes_exceeded(), self._memory_peak())

    def _cpu_seconds(self) -> float | None:
        place = self.places.get(Resource.CPU)
        if place is None:
            return None
        with contextlib.suppress(OSError):
            if place.version == 1:
                return int((place.folder / "cpuacct.usage").read_text()) / 1e9
            return _counts(place.folder / "cpu.stat").get("usage_usec", 0) / 1e6
        return None

    def _memory_exceeded(self) -> bool | None:
        """Only if the group's own limit was met: the kernel also kills for want of memory on the whole machine."""
        place = self.places.get(Resource.MEMORY)
        if place is None:
            return None
        with contextlib.suppress(OSError):
            if place.version == 1:
                met = int((place.folder / "memory.failcnt").read_text())
                return met > 0 and _counts(place.folder / "memory.oom_control").get("oom_kill", 0) > 0
            events = _counts(place.folder / "memory.events")
            return events.get("oom", 0) > 0 and events.get("oom_kill", 0) > 0
        return None

    def _memory_peak(self) -> int | None:
        place = self.places.get(Resource.MEMORY)
        if place is None:
            return None
        with contextlib.suppress(OSError, ValueError):  # before Linux 5.19 there is none in version 2
            return int((place.folder / _PEAKS[place.version]).read_text())
        return None

    def _processes_exceeded(self) -> bool | None:
        place = self.places.get(Resource.PIDS)
        if place is None:
            return None
        with contextlib.suppress(OSError):
            return _counts(place.folder / "pids.events").get("max", 0) > 0
        return None

    def remove(self) -> bool:
        """Remove it; False if something still lives in it."""
        removed = [_removed(folder) for folder in self.folders]
        return all(removed)


def make_group(places: Places, name: str, limits: TaskLimits) -> Group | None:
    """A group for these limits, as far as there are places; None if that makes none. Blocking."""
    wanted = {
        Resource.MEMORY: limits.memory_bytes is not None,
        Resource.PIDS: limits.processes is not None,
        Resource.CPU: limits.cpu_seconds is not None,
    }
    made: dict[Resource, GroupFolder] = {}
    for resource, place in places.items():
        if wanted[resource]:
            folder = place.folder / f"{PREFIX}{name}"
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                _limit(GroupFolder(place.version, folder), resource, limits)
                made[resource] = GroupFolder(place.version, folder)
    return Group(made) if made else None


def _limit(place: GroupFolder, resource: Resource, limits: TaskLimits) -> None:
    """Raises `OSError` if the limit cannot be set."""
    if resource is Resource.PIDS:
        _write(place.folder / "pids.max", str(limits.processes))
    elif resource is Resource.MEMORY and place.version == 2:
        _write(place.folder / "memory.max", str(limits.memory_bytes))
        _write_if_there(place.folder / "memory.swap.max", "0")
        _write_if_there(place.folder / "memory.oom.group", "1")
    elif resource is Resource.MEMORY:
        _write(place.folder / "memory.limit_in_bytes", str(limits.memory_bytes))
        # With swap, or what does not fit would only go there.
        _write_if_there(place.folder / "memory.memsw.limit_in_bytes", str((limits.memory_bytes or 0) + SWAP_BYTES))


def left_behind(places: Places, name: str) -> Iterable[Group]:
    """The groups that an executor of this name has made and not removed."""
    for resource, place in places.items():
        for folder in place.folder.glob(f"{PREFIX}{name}-*"):
            yield Group({resource: GroupFolder(place.version, folder)})


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _write(file: Path, text: str) -> None:
    """In one piece, as the kernel wants it; never makes a file."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _write_if_there(file: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        _write(file, text)


def _words(file: Path) -> Sequence[str]:
    return file.read_text().split()


def _counts(file: Path) -> Mapping[str, int]:
    """Lines of a name and a number."""
    return {name: int(count) for name, _, count in (line.partition(" ") for line in file.read_text().splitlines())}
