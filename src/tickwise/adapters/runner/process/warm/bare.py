"""A virtual environment with nothing in it, from whose zygote the scripts of all other environments are forked.

Where tasks run as other users, an environment belongs to its namespace, and its interpreter runs code of theirs as soon
as it begins (`.pth` files, `sitecustomize`). A zygote is root's there, so it begins in this environment instead, and
the child goes on in the script's after it has become the user of the task.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

NAME = "bare"


class BarePython(NamedTuple):
    """Its interpreter."""

    program: str
    base: str
    """The interpreter that it was made from, without links."""

    def serves(self, program: str) -> bool:
        """Check whether the environment with this interpreter was made from the same one."""
        return os.path.realpath(program) == self.base


def bare_python(folder: Path, own: str) -> BarePython:
    """Make it in a folder of the executor. `own`: the interpreter that environments are made from. Blocking. Raises
    `OSError`."""
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable) if own == sys.executable else own)
    place = folder / NAME
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    (place / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(base)
    lines = [f"home = {os.path.dirname(base)}", "include-system-site-packages = false", f"version = {version}"]
    (place / "pyvenv.cfg").write_text("\n".join(lines) + "\n")
    return BarePython(str(place / "bin" / "python"), base)
