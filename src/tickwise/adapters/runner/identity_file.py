"""The file of an attempt that has its identity token: `TICKWISE_IDENTITY_TOKEN_FILE` names it.

The file belongs to the user of the task, who alone may read it. A renewed token takes the place of the one before by a
rename, so a reader has one of the two and never a part.

Invariant: a renewal follows no link and opens nothing that the task made. It makes a new file in the attempt's own
folder, whose parent no task can write, and fails if the task has taken its name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from tickwise.ports.runner import Assignment

TOKEN_FILE: Final = "identity_token"
VARIABLE: Final = "TICKWISE_IDENTITY_TOKEN_FILE"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_numbers: Final = count()
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def hidden_texts(assignment: Assignment) -> Sequence[bytes]:
    """The texts of an attempt's identity that its output must not show."""
    return () if assignment.identity_token is None else (assignment.identity_token.encode(),)


def write_token(folder: Path, token: str) -> Path:
    """Write the first token into an attempt's new folder, which is still ours. Blocking. Raises `OSError`."""
    path = folder / TOKEN_FILE
    descriptor = os.open(path, _NEW, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(token.encode())
    return path


def replace_token(folder: Path, token: str, owner: tuple[int, int] | None) -> bool:
    """Put another token into the place of the first; False: the folder is gone, with its task. `owner`: user and group
    of the task; None: our own. Blocking. Raises `OSError`."""
    try:
        place = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return False
    name = f".{TOKEN_FILE}-{next(_numbers)}"
    try:
        descriptor = os.open(name, _NEW, 0o400, dir_fd=place)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(token.encode())
                file.flush()
                if owner is not None:
                    os.fchown(file.fileno(), *owner)
            os.rename(name, TOKEN_FILE, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place)
            raise
    except FileNotFoundError:
        return False
    finally:
        os.close(place)
    return True
