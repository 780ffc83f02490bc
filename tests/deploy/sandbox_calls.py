"""The calls that bubblewrap makes when it builds a sandbox, as strace sees them, and those that a unit lets it make."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.deploy.files import UNITS, unit
from tests.deploy.tools import needed, said

BUILD: Final = (
    "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc "
    "--dev /dev --perms 1777 --size 1048576 --tmpfs /tmp --remount-ro / --unshare-all --unshare-user --disable-userns "
    "--die-with-parent --new-session --as-pid-1 --cap-drop ALL -- /bin/true"
)


def refused_by_unit(analyze: str) -> set[str]:
    """The calls that the unit of executors refuses. `analyze`: the program `systemd-analyze`. Raises `NotHere`."""
    strace, bwrap = needed("strace", "strace"), needed("bwrap", "bubblewrap")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        subprocess.run([strace, "-f", "-qq", "-o", str(trace), bwrap, *BUILD.split()], check=True, timeout=60)
        made = set(re.findall(r"^\d+\s+(\w+)\(", trace.read_text(), re.MULTILINE))
    lines = unit(UNITS / "tickwise-executor.service")["SystemCallFilter"]
    return made - {call for line in lines for word in line.split() for call in _calls(analyze, word)}


def _calls(analyze: str, word: str) -> set[str]:
    """Those of a group, `@…`, with the groups in it; or the call itself."""
    if not word.startswith("@"):
        return {word}
    lines = [line.strip() for line in said([analyze, "syscall-filter", word]).splitlines()[1:]]
    return {call for line in lines if line and not line.startswith("#") for call in _calls(analyze, line)}
