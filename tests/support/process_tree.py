"""The processes that came from a process, as the kernel knows them."""

from __future__ import annotations

from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and those that came from it, the parents first."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def named(pids: list[int], name: str) -> list[int]:
    """Of these, the ones that run a program of this name."""
    found = []
    for pid in pids:
        try:
            program = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        if program == name:
            found.append(pid)
    return found
