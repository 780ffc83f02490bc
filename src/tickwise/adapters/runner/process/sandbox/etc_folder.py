"""The folder that sandboxes have as /etc: copies of the few files that programs need, made once for each user of tasks.

    <executor's folder>/etc-<uid>-<n>/     passwd, group: root, nobody and the task's user
                                           hosts, resolv.conf, ssl/certs: places for the machine's own, with a network
                                           ld.so.cache, nsswitch.conf, localtime, alternatives, …: copies

It is made anew when a file of the machine has changed. One folder is one mount, where each file would be another.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.process.sandbox.plan import NETWORK_FILES

COPIED: Final = (
    "alternatives", "debian_version", "host.conf", "inputrc", "ld.so.cache", "ld.so.conf", "localtime", "locale.alias",
    "mime.types", "nsswitch.conf", "os-release", "protocols", "services", "timezone", "ssl/openssl.cnf",
)  # fmt: skip
ETC: Final = Path("/etc")
HOSTS: Final = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
SHELL: Final = "/bin/sh"


class Person(NamedTuple):
    """A user as its own sandbox knows it."""

    uid: int
    gid: int
    name: str
    home: str


class EtcFolders:
    """The folders of one executor, below `parent`, which users of tasks can pass to. For threads."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._made: dict[Person, tuple[tuple[int, ...], Path]] = {}
        self._count = 0

    def of(self, person: Person) -> Path:
        """The folder for this user. Blocking: 50 µs; the first time some milliseconds. Raises `OSError`."""
        facts = _facts()
        with self._lock:
            known, folder = self._made.get(person, ((), self._parent))
            if known != facts or not folder.is_dir():
                self._count += 1
                folder = self._parent / f"etc-{person.uid}-{self._count}"
                _make(folder, person)
                self._made[person] = (facts, folder)
            return folder


def _facts() -> tuple[int, ...]:
    """Other ones as soon as a file of the machine is another one."""
    found = []
    for name in COPIED:
        try:
            found.append(os.lstat(ETC / name).st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)


def _make(folder: Path, person: Person) -> None:
    folder.mkdir(mode=0o755)
    for name in COPIED:
        source, target = ETC / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # it is not there, or not for all to read
            if source.is_symlink() and os.readlink(source).startswith("/usr/"):
                target.symlink_to(os.readlink(source))
            elif source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copyfile(source, target)
    for name in NETWORK_FILES:
        target = folder / Path(name).relative_to(ETC)
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(name):
            target.mkdir(exist_ok=True)
        else:
            target.touch()
    (folder / "hosts").write_text(HOSTS)
    people = {0: ("root", 0, "/nonexistent"), 65_534: ("nobody", 65_534, "/nonexistent")}
    people[person.uid] = (person.name, person.gid, person.home)
    rows = [f"{name}:x:{uid}:{gid}::{home}:{SHELL}\n" for uid, (name, gid, home) in people.items()]
    (folder / "passwd").write_text("".join(rows))
    groups = {0: "root", 65_534: "nogroup"} | {person.gid: person.name if person.gid else "root"}
    (folder / "group").write_text("".join(f"{name}:x:{gid}:\n" for gid, name in groups.items()))
    for path, folders, names in os.walk(folder):
        os.chmod(path, 0o755)
        for name in names:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o644)
        del folders
