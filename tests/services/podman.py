"""podman's API that speaks Docker's words, on a private socket, with the two images of tests.

Invariant: what it leaves behind is removed with it: containers, mounts, files. It needs root, and no network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from tests.services.docker import Docker
from tests.services.packages import Missing, program

# `netns` and `cgroup_manager`: it needs neither a bridge nor systemd. Equal limits: podman 4.3 swaps soft and hard
# ones. Debian's crun refuses a host with both versions of control groups.
COMMAND_SECONDS: Final = 120.0
CONTAINERS: Final = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "none"
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
hooks_dir = ["{folder}/hooks"]
"""
HOOK: Final = """\
{{"version": "1.0.0", "stages": ["precreate"], "when": {{"always": true}},
 "hook": {{"path": "{sed}", "args": ["sed", "s/:1048576/:4096/g"]}}}}
"""
"""podman asks for 1048576 open files as soon as a container names another limit, which a host without CAP_SYS_RESOURCE
refuses."""
STORAGE: Final = """\
[storage]
driver = "vfs"
graphroot = "{folder}/root"
runroot = "{folder}/run"
"""


class Podman(Docker):
    """As `Docker`: both answer the same calls."""

    name = "podman"

    async def prepare(self) -> Sequence[str]:
        if os.geteuid():
            raise Missing("podman needs root here")
        found = await asyncio.to_thread(program, "podman")
        for needed in ("runc", "catatonit", "busybox"):
            await asyncio.to_thread(program, needed)
        (self.folder / "hooks").mkdir(exist_ok=True)
        files = {"containers.conf": CONTAINERS, "storage.conf": STORAGE, "hooks/limits.json": HOOK}
        for name, text in files.items():
            (self.folder / name).write_text(text.format(folder=self.folder, sed=shutil.which("sed")))
        return [found, "system", "service", "--time=0", self.url]

    def environment(self) -> Mapping[str, str]:
        """Its own settings and store, also for its command line."""
        return {
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
        }

    def load(self, name: str, tag: str, archive: bytes) -> None:
        """Make an image of an archive of files. By the command line: the API would put `docker.io/` before its name."""
        self._podman("import", "-", f"{name}:{tag}", content=archive)

    def _podman(self, *arguments: str, content: bytes = b"") -> None:
        environment = {**os.environ, **self.environment()}
        command = [program("podman"), *arguments]
        done = subprocess.run(
            command, env=environment, input=content, capture_output=True, check=False, timeout=COMMAND_SECONDS
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    async def remove(self) -> None:
        """End its containers, whose processes are no children of its own, and then it."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            await asyncio.to_thread(self._podman, "rm", "--all", "--force", "--time", "0")
        await super().remove()
