"""Peers that run on Node.js: their packages as `package-lock.json` pins them, and a pinned Node.js to run them.

Each has a folder with `package.json`, `package-lock.json` and `driver.mjs`. All of it is copied below `INSTALLED`,
because Node.js looks for packages beside the program that asks for them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

from bench.peers.peer import INSTALLED
from bench.peers.program import Program

_HERE = Path(__file__).parent
_NODE = INSTALLED / "node" / "node_modules" / "node" / "bin" / "node"


def version(folder: Path, package: str) -> str:
    """What the lock file pins."""
    lock = json.loads((folder / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{package}"]["version"])


def install(folder: Path) -> None:
    """The packages of a peer, the driver, and Node.js."""
    _install(_HERE / "node", scripts=True)
    _install(folder, scripts=False)
    for source in (_HERE / "node" / "program.mjs", folder / "driver.mjs"):
        shutil.copy(source, INSTALLED / folder.name)


def _install(folder: Path, *, scripts: bool) -> None:
    """As the lock file says, unless it was done for the same one before. Only Node.js itself needs a script.

    Raises CalledProcessError; npm has said what is wrong.
    """
    place = INSTALLED / folder.name
    stamp, lock = place / "installed.json", (folder / "package-lock.json").read_text()
    if stamp.exists() and stamp.read_text() == lock:
        return
    place.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(folder / name, place)
    command = ["npm", "ci", "--no-audit", "--no-fund", *([] if scripts else ["--ignore-scripts"])]
    subprocess.run(command, cwd=place, stdout=subprocess.DEVNULL, check=True)
    stamp.write_text(lock)


def program(
    folder: Path, left: str | tuple[tuple[str, ...], ...], settings: str, *, jobs: int = 100_000, workers: int = 1
) -> Program:
    """The driver of a folder."""
    return Program(
        command=(os.fspath(_NODE), "driver.mjs"),
        folder=INSTALLED / folder.name,
        left=left,
        settings=settings,
        jobs=jobs,
        workers=workers,
    )


def installer(folder: Path) -> partial[None]:
    """`install` of this folder, as a Peer wants it."""
    return partial(install, folder)
