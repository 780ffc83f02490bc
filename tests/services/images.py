"""Images without a registry: archives of files of this machine, for a container engine to import.

busy      busybox as /bin/sh and its friends
python    the same, and the Python that runs the tests, with its standard library
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.services.packages import program

APPLETS: Final = (
    "sh", "sleep", "echo", "cat", "ls", "id", "env", "kill", "date", "true", "false", "seq", "dd", "nc", "wget", "ps",
    "touch", "wc", "chmod", "mkdir", "printf", "head", "tail", "yes", "od", "ip",
)  # fmt: skip
FOLDERS: Final = ("bin", "tmp", "etc", "proc", "dev", "sys", "usr/local/bin", "usr/local/lib", "lib64", "usr/lib")
UNUSED: Final = re.compile(r"(test|tests|idlelib|tkinter|turtledemo|ensurepip|site-packages|config-.*|lib2to3)")
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")


def busy() -> bytes:
    """An image of busybox, of 2 MB."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        _basis(archive)
    return made.getvalue()


def python() -> bytes:
    """An image of this Python, of some 70 MB."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        _basis(archive)
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        interpreter = Path(sys.base_prefix) / "bin" / name
        if not interpreter.exists():
            interpreter = Path(os.path.realpath(sys.executable))
        standard = Path(sysconfig.get_path("stdlib"))
        archive.add(interpreter, f"usr/local/bin/{name}")
        for link in ("python3", "python"):
            _link(archive, f"usr/local/bin/{link}", name)
        archive.add(standard, f"usr/local/lib/{name}", filter=_wanted)
        extensions = standard / "lib-dynload"
        for library in sorted(_libraries([interpreter, *extensions.glob("*.so")])):
            place = library.lstrip("/") if "ld-linux" in library else f"usr/lib/{Path(library).name}"
            archive.add(os.path.realpath(library), place)
    return made.getvalue()


def _basis(archive: tarfile.TarFile) -> None:
    for folder in FOLDERS:
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
        archive.addfile(entry)
    archive.add(os.path.realpath(program("busybox")), "bin/busybox")
    for applet in APPLETS:
        _link(archive, f"bin/{applet}", "busybox")
    for name, text, mode in (
        ("etc/passwd", "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\napp:x:1000:1000::/:/bin/sh\n", 0o644),
        ("etc/group", "root:x:0:\nnogroup:x:65534:\napp:x:1000:\n", 0o644),
        ("bin/not-executable", "#!/bin/sh\n", 0o644),
    ):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(text), mode
        archive.addfile(entry, io.BytesIO(text.encode()))


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = entry.name.split("/")[4:]
    is_spare = entry.name.endswith((".opt-1.pyc", ".opt-2.pyc", ".a"))
    return None if is_spare or any(UNUSED.fullmatch(part) for part in parts) else entry


def _libraries(programs: Iterable[Path]) -> set[str]:
    said = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    return set(_LIBRARY.findall(said))
