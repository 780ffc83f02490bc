"""The files of an attempt on their way into its container, and its result on the way out: archives.

    /tickwise/                  a volume of the container's own, which goes with it
        start/task.py, task.sh  the script; with files that travel along, work/task.py
        start/launcher.py       notes the exception that ends a python task, if its job asks for that
        start/payload.json      a payload too large for a variable
        start/begun             a start that was said to a shell has arrived
        start/identity_token    the identity token of the attempt
        start/secrets/0, 1, …   secrets that are files
        work/                   the task's own folder
        out/result.json         what the task writes as its result

Nothing of a task is in an argument. All may be read in the container, for the task is its only user.

A folder that nobody wrote in has the time `UNTOUCHED`, so a look at it tells that there is nothing to fetch.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.container.kind import OWN_FOLDER
from tickwise.adapters.runner.identity_file import TOKEN_FILE
from tickwise.adapters.runner.process import python_launcher

WORK: Final = f"{OWN_FOLDER}/work"
OUT: Final = f"{OWN_FOLDER}/out"
RESULT: Final = f"{OUT}/result.json"
SYMPTOMS: Final = f"{OUT}/symptoms"
START: Final = f"{OWN_FOLDER}/start"
LAUNCHER: Final = f"{START}/launcher.py"
PAYLOAD: Final = f"{START}/payload.json"
BEGUN: Final = f"{START}/begun"
"""Made by a start that is said to a shell, before all else."""
IDENTITY: Final = f"{START}/{TOKEN_FILE}"
FOLDERS: Final = ("work", "out", "start")
UNTOUCHED: Final = 86_400
"""The time of folders that are as they were made, in seconds since 1970."""
UNTOUCHED_TEXT: Final = "1970-01-02T00:00:00Z"
"""As engines write it."""
ARCHIVE_BYTES: Final = 4 << 10
"""More than the headers of an archive with one file."""
_OPEN: Final = 0o777
_READ: Final = 0o755


class LeftFile(NamedTuple):
    """A file that a task has written."""

    content: bytes
    is_whole: bool
    """False: it has more than was asked for."""


def packed(files: Mapping[str, bytes]) -> bytes:
    """The archive of these files, by their whole paths in the container, with the folders of every task. For
    `OWN_FOLDER`."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folders = set(FOLDERS)
        for name in files:
            parts = name.removeprefix(f"{OWN_FOLDER}/").split("/")[:-1]
            folders.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        _add_folders(archive, sorted(folders))
        for name, content in files.items():
            own = name.startswith(f"{WORK}/")
            _add_file(archive, name.removeprefix(f"{OWN_FOLDER}/"), content, mode=_OPEN if own else _READ)
    return made.getvalue()


def packed_folders() -> bytes:
    """The archive of the folders of every task, for the root of an image."""
    made = io.BytesIO()
    own = OWN_FOLDER.strip("/")
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo(own)
        entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, _READ, UNTOUCHED
        archive.addfile(entry)
        _add_folders(archive, [f"{own}/{name}" for name in FOLDERS])
    return made.getvalue()


def packed_token(token: str, number: int) -> bytes:
    """The archive that puts another identity token into the place of the one before, for `START`: a file of its own,
    and a link to it. A reader finds one of the two, or for an instant none, and never a part."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        name = f".{TOKEN_FILE}-{number}"
        _add_file(archive, name, token.encode())
        link = tarfile.TarInfo(TOKEN_FILE)
        link.type, link.linkname = tarfile.SYMTYPE, name
        archive.addfile(link)
    return made.getvalue()


def _add_folders(archive: tarfile.TarFile, names: Sequence[str]) -> None:
    for name in names:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, _OPEN, UNTOUCHED
        archive.addfile(entry)


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = _READ) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def unpacked(archive: bytes, most: int) -> LeftFile | None:
    """The plain file in an archive, up to `most` bytes. A link, or anything else, is no file of the task."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
            entry = opened.next()
            if entry is None or not entry.isreg():
                return None
            if entry.size > most:
                return LeftFile(b"", is_whole=False)
            file = opened.extractfile(entry)
            return None if file is None else LeftFile(file.read(most), is_whole=True)
    except (tarfile.TarError, EOFError):
        return None


def launcher_source() -> bytes:
    """The program that notes the exception of a script."""
    return Path(str(python_launcher.__file__)).read_bytes()
