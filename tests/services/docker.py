"""A Docker Engine on a private socket, with two images: one of busybox, one of this Python.

Invariant: what it leaves behind is removed with it: containers, mounts, files. It needs root, and neither a bridge nor
iptables.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from tests.services import images
from tests.services.packages import Missing, program
from tests.services.server import Server
from tests.support.runners import gone
from tests.support.waiting import eventually

SOCKET_SECONDS: Final = 100.0
"""An image of 70 MB is written to a disk that may be busy."""


class Docker(Server):
    """`survives_restarts`: its containers go on while it is down (live-restore)."""

    name = "docker"

    def __init__(self, folder: Path | None = None, *, port: int | None = None, survives_restarts: bool = True) -> None:
        super().__init__(folder, port=port)
        self._survives_restarts = survives_restarts
        self.socket = self.folder / "docker.sock"

    @property
    def url(self) -> str:
        """As `TICKWISE_CONTAINER_ENGINE` takes it."""
        return f"unix://{self.socket}"

    async def prepare(self) -> Sequence[str]:
        if os.geteuid():
            raise Missing("a Docker Engine needs root")
        dockerd = await asyncio.to_thread(program, "dockerd")
        await asyncio.to_thread(program, "busybox")
        await self._forget_killed()
        return [
            dockerd, "-H", self.url, "--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec"),
            "-p", str(self.folder / "docker.pid"), "--bridge=none", "--iptables=false", "--ip6tables=false",
            "--exec-opt", "native.cgroupdriver=cgroupfs", *(["--live-restore"] if self._survives_restarts else []),
        ]  # fmt: skip

    async def _forget_killed(self) -> None:
        """Remove the numbers of processes that are gone: it would take a zombie of containerd for one that runs."""
        file = self.folder / "exec/containerd/containerd.pid"
        if file.exists():
            number = int(file.read_text() or "0")
            await eventually(lambda: gone(number), within_seconds=SOCKET_SECONDS, what="its containerd is gone")
        file.unlink(missing_ok=True)
        (self.folder / "docker.pid").unlink(missing_ok=True)

    def answers(self) -> bool:
        return self.said_to(b"GET /_ping HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200")

    def said_to(self, request: bytes) -> bytes:
        """The whole answer to a request, past any client library. Raises OSError."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SOCKET_SECONDS)
            connection.connect(str(self.socket))
            connection.sendall(request)
            answer = bytearray()
            while piece := connection.recv(65_536):
                answer += piece
            return bytes(answer)

    def load(self, name: str, tag: str, archive: bytes) -> None:
        """Make an image of an archive of files."""
        head = f"POST /images/create?fromSrc=-&repo={name}&tag={tag} HTTP/1.0\r\nContent-Type: application/x-tar\r\n"
        answer = self.said_to(f"{head}Content-Length: {len(archive)}\r\n\r\n".encode() + archive)
        assert b"sha256:" in answer, answer.decode(errors="replace")

    async def load_images(self) -> None:
        """The images of tests: `localhost/busy:1` and `localhost/python:1`."""
        await asyncio.to_thread(self.load, "localhost/busy", "1", await asyncio.to_thread(images.busy))
        await asyncio.to_thread(self.load, "localhost/python", "1", await asyncio.to_thread(images.python))

    async def remove(self) -> None:
        """End it and all of its containers."""
        with contextlib.suppress(AssertionError):
            await self.stop()
        await asyncio.to_thread(self._leave_nothing)
        await super().remove()

    def _leave_nothing(self) -> None:
        """The processes that a killed engine leaves, and its mounts."""
        mark = str(self.folder)
        for process in psutil.process_iter(["cmdline"]):
            if any(mark in word for word in process.info["cmdline"] or ()) and process.pid != os.getpid():
                with contextlib.suppress(psutil.NoSuchProcess):
                    ours = [process, *process.children(recursive=True)]
                    for each in ours:
                        with contextlib.suppress(psutil.NoSuchProcess):
                            each.send_signal(signal.SIGKILL)
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        for mount in reversed([line.split()[1] for line in mounts]):
            if mount.startswith(mark):
                subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
