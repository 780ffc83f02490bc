"""Makes a tree of files read-only, although a process of its owner may work in it meanwhile; and removes such a tree.

    root seals   each folder and file becomes root's, then nobody but root may write it
    others seal  their own tree loses the right to be written: a guard against accidents, not against its owner

Each file is opened by its name in an open folder, without following links, and changed through its descriptor. So a
name that is exchanged under way leads to no file elsewhere. A file of a stranger in the tree, such as a hard link, is
refused.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class ForeignFile(Exception):
    """The tree holds a file of another user, or one that is neither file, folder nor link."""


def seal(tree: Path, owner: int) -> int:
    """Make the tree read-only for all but root; its size in bytes on the disk.

    `owner`: the number of the user that its files belong to. Raises `ForeignFile`, `OSError`.
    """
    place = os.open(tree, _FOLDER_FLAGS)
    try:
        return _seal_folder(place, owner)
    finally:
        os.close(place)


def _seal_folder(place: int, owner: int) -> int:
    found = os.fstat(place)
    _check_owner(found, owner)
    if os.geteuid() == 0:
        # First the folder: then no name in it is exchanged any more.
        os.fchown(place, 0, 0)
        os.fchmod(place, 0o755)
    with os.scandir(place) as entries:
        names = [entry.name for entry in entries]
    size = sum(_seal_name(place, name, owner) for name in names)
    os.fchmod(place, 0o555)
    return size + found.st_blocks * 512


def _seal_name(place: int, name: str, owner: int) -> int:
    kind = stat.S_IFMT(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
    if kind == stat.S_IFLNK:  # cannot be changed, only exchanged, for which its folder would have to be written
        return 0
    if kind not in (stat.S_IFDIR, stat.S_IFREG):
        raise ForeignFile(name)
    descriptor = os.open(name, _FOLDER_FLAGS if kind == stat.S_IFDIR else _FILE_FLAGS, dir_fd=place)
    try:
        if kind == stat.S_IFDIR:
            return _seal_folder(descriptor, owner)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ForeignFile(name)
        _check_owner(found, owner)
        if os.geteuid() == 0:
            os.fchown(descriptor, 0, 0)
        os.fchmod(descriptor, 0o555 if found.st_mode & 0o111 else 0o444)
        return found.st_blocks * 512
    finally:
        os.close(descriptor)


def _check_owner(found: os.stat_result, owner: int) -> None:
    if found.st_uid not in (owner, os.geteuid()):
        raise ForeignFile(f"a file of the user {found.st_uid}")


def remove_tree(tree: Path) -> None:
    """Remove a tree, sealed or not. What cannot be removed stays."""
    if os.geteuid() != 0:
        for folder, _, _ in os.walk(tree):
            with suppress(OSError):
                os.chmod(folder, 0o700)
    shutil.rmtree(tree, ignore_errors=True)


def size_of(tree: Path) -> int:
    """Bytes on the disk, of what is there: others may write in it meanwhile."""
    size = 0
    for folder, _, names in os.walk(tree):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return size
