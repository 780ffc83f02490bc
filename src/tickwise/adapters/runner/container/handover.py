"""The files of an attempt on their way into its container, and its result on the way out: archives.

    /tickwise/                  a volume of the container's own, which goes with it
        task.py, task.sh        the script; with files that travel along, work/task.py
        launcher.py             notes the exception that ends a python task, if its job asks for that
        payload.json            a payload too large for a variable
        work/                   the task's own folder
        out/result.json         what the task writes as its result

Nothing of a task is in an argument. All may be read in the container, for the task is its only user.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.container.kind import OWN_FOLDER
from tickwise.adapters.runner.process import python_launcher

WORK: Final = f"{OWN_FOLDER}/work"
OUT: Final = f"{OWN_FOLDER}/out"
RESULT: Final = f"{OUT}/result.json"
SYMPTOMS: Final = f"{OUT}/symptoms"
LAUNCHER: Final = f"{OWN_FOLDER}/launcher.py"
PAYLOAD: Final = f"{OWN_FOLDER}/payload.json"
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
    """The archive of these files, by their whole paths in the container, with the folders of every task."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folders = {"work", "out"}
        for name in files:
            parts = name.removeprefix(f"{OWN_FOLDER}/").split("/")[:-1]
            folders.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        for folder in sorted(folders):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, _OPEN
            archive.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name.removeprefix(f"{OWN_FOLDER}/"))
            entry.size, entry.mode = len(content), _READ
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


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
