"""A Docker Engine for the check of the image, and an image to build on: what is there, else made from packages.

docker info answers ─────────────► that engine
root, and Debian's docker.io ────► one of our own: a private socket, no bridge, gone afterwards
BASE is given, or can be pulled ─► that image;  else debootstrap ─► Debian with its Python
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tests.deploy.tools import CACHE, NotHere, found, needed, said
from tests.support.waiting import eventually

USUAL_BASE: Final = "python:3.13-slim-trixie"
OWN_BASE: Final = "localhost/tickwise-base:trixie"
DEBIAN: Final = ("trixie", "http://deb.debian.org/debian")
"""Of the same release as `USUAL_BASE`. Packages are signed, so the way to them need not be."""
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
PIP: Final = Path("/etc/pip.conf")
CLEAN: Final = """
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
APT::Update::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
"""


class Docker:
    """The command line of one engine."""

    def __init__(self, program: str, host: str | None) -> None:
        # The classic builder: it is part of the engine, while BuildKit's command line is a plug-in that may be absent.
        self.environment = {**os.environ, "DOCKER_BUILDKIT": "0"} | ({"DOCKER_HOST": host} if host else {})
        self.command: Final = (program,)
        """How its command lines begin, for a caller that joins several by pipes."""

    def __call__(self, *words: str | Path, seconds: float = 120) -> str:
        """What it says. Raises AssertionError if it fails."""
        return said([*self.command, *words], environment=self.environment, seconds=seconds)

    def answers(self) -> bool:
        """Whether the engine is there."""
        try:
            self("info", seconds=20)
        except (AssertionError, subprocess.TimeoutExpired):
            return False
        return True

    def has(self, image: str) -> bool:
        """Whether it has an image of that name."""
        try:
            self("image", "inspect", image)
        except AssertionError:
            return False
        return True


@contextlib.asynccontextmanager
async def _own_engine(program: str) -> AsyncIterator[Docker]:
    if os.geteuid() != 0:
        raise NotHere("no Docker Engine answers, and only root can start one")
    daemon = needed("dockerd", "Debian's docker.io")
    # On a real disk: an overlay on a file system in memory is refused.
    with tempfile.TemporaryDirectory(prefix="tickwise-docker-") as name:
        folder = Path(name)
        host = f"unix://{folder}/docker.sock"
        command = [
            daemon, "-H", host, "--data-root", str(CACHE / "docker"), "--exec-root", str(folder / "exec"),
            "-p", str(folder / "docker.pid"), "--bridge=none", "--iptables=false", "--ip6tables=false",
            "--exec-opt", "native.cgroupdriver=cgroupfs",
        ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            docker = Docker(program, host)
            await eventually(docker.answers, within_seconds=60, what="the Docker Engine answers")
            yield docker
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            # What it mounted in its own folders it leaves behind. (`Path.is_mount` knows no mounted files.)
            for place in (folder / "exec" / "netns" / "default", CACHE / "docker"):
                if os.path.ismount(place):
                    said(["umount", place])


@contextlib.asynccontextmanager
async def engine() -> AsyncIterator[Docker]:
    """One that answers. Raises `NotHere`."""
    program = needed("docker", "Debian's docker.io, or Docker's own packages")
    there = Docker(program, None)
    if there.answers():
        yield there
        return
    async with _own_engine(program) as docker:
        yield docker


def base(docker: Docker) -> str:
    """An image to build on. Raises `NotHere`."""
    given = os.environ.get("BASE")
    if given:
        return given
    for image in (USUAL_BASE, OWN_BASE):
        if docker.has(image):
            return image
    with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
        docker("pull", USUAL_BASE, seconds=300)
        return USUAL_BASE
    if os.geteuid() != 0 or found("debootstrap") is None:
        raise NotHere(f"{USUAL_BASE} cannot be pulled, and only root with Debian's debootstrap can make another base")
    _bootstrap(docker)
    return OWN_BASE


def _bootstrap(docker: Docker) -> None:
    """Debian with its Python and its venv module, from packages; what this machine trusts, it trusts too."""
    release, mirror = DEBIAN
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="base-", dir=CACHE) as name:
        root = Path(name) / "root"
        include = "--include=python3,python3-venv,ca-certificates"
        said(["debootstrap", "--variant=minbase", include, release, root, mirror], seconds=900)
        (root / "usr/bin/python").symlink_to("python3")
        # As the usual base says it: what apt keeps would be in each layer that installs something.
        (root / "etc/apt/apt.conf.d/clean").write_text(CLEAN)
        for file in (CERTIFICATES, PIP):
            if file.exists():
                (root / file.relative_to("/")).write_bytes(file.read_bytes())
        archive = Path(name) / "root.tar"
        said(["tar", "-C", root, "--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "-cf", archive, "."])
        docker("import", archive, OWN_BASE, seconds=300)
