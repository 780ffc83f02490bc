"""Writes `deploy/sandbox/seccomp.json`: the calls that a container which builds sandboxes may not make, for Docker and
Kubernetes: the deny list of sandboxes without the calls that build one (`python -m tests.deploy.container_filter`)."""

from __future__ import annotations

import json
from typing import Final

from tests.deploy.files import DEPLOY
from tickwise.adapters.runner.process.sandbox.syscalls import DENIED

PLACE: Final = DEPLOY / "sandbox" / "seccomp.json"
BUILDING: Final = frozenset({"mount", "pivot_root", "umount2", "unshare", "setns", "open_tree", "move_mount"})
"""The calls that a task in a sandbox must not make: of bubblewrap the first four, of a prepared sandbox for each of its
tasks `mount`, `unshare` and the last three."""


def written() -> str:
    """The content of the file."""
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [{"names": sorted(DENIED.keys() - BUILDING), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
    }
    return json.dumps(profile, indent=2) + "\n"


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(written(), encoding="utf-8")
