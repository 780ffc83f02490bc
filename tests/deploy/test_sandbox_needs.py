"""What `deploy/` opens for the sandboxes of tasks is what they need, and no more."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Final

import pytest

from tests.deploy.container_filter import BUILDING, PLACE, written
from tests.deploy.files import COMPOSE, DEPLOY, UNITS, VALUES, load, unit
from tests.deploy.test_settings import ROLES
from tests.services.packages import program

NEW_PROC: Final = "mount -t proc -o nosuid,nodev,noexec{more} proc /proc"
READ_ONLY: Final = "mount --bind {place} {place} && mount -o remount,bind,ro {place}"
BUILD: Final = (
    "exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "
    "bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc "
    "--dev /dev --tmpfs /tmp --unshare-all --unshare-user --disable-userns --die-with-parent --cap-drop ALL -- "
    "/bin/sh -c 'echo built'"
)
COVERS: Final[Mapping[str, str]] = {
    "ProtectKernelTunables": READ_ONLY.format(place="/proc/sys"),
    "ProtectKernelLogs": "mount --bind /dev/null /proc/kmsg",
    "ProtectHostname": READ_ONLY.format(place="/proc/sys/kernel/hostname"),
    "ProcSubset": f"umount /proc && {NEW_PROC.format(more=',subset=pid')}",
}
"""Options of a unit that cover parts of /proc, and what each of them does."""
HARMLESS: Final[Mapping[str, str]] = {
    "ProtectSystem": "mount -o remount,bind,ro /",
    "ProtectProc": f"umount /proc && {NEW_PROC.format(more=',hidepid=invisible')}",
    "ProtectControlGroups": READ_ONLY.format(place="/sys/fs/cgroup"),
}
"""Others that change mounts."""
needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts")


def _built(command: str) -> bool:
    """Check whether an ordinary user without capabilities can build a sandbox after this."""
    program("bwrap")
    script = f"{NEW_PROC.format(more='')} && {command} && {BUILD}"
    inside = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private", "--", "sh", "-c", script]
    done = subprocess.run(inside, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0 and "built" in done.stdout


@needs_mounts
@pytest.mark.parametrize("option", COVERS)
def test_the_unit_of_executors_covers_nothing_of_proc(option: str) -> None:
    """The kernel would give a sandbox no /proc of its own. All other units have these options."""
    assert not _built(COVERS[option])
    assert option not in unit(UNITS / "tickwise-executor.service")
    assert unit(UNITS / "tickwise-api.service")[option] in (["yes"], ["pid"])


def test_the_unit_of_executors_lets_bubblewrap_open_folders() -> None:
    """RestrictSUIDSGID= takes openat2 away, which a bubblewrap from 0.12 on calls. All other units have it."""
    assert "RestrictSUIDSGID" not in unit(UNITS / "tickwise-executor.service")
    assert ["yes"] == unit(UNITS / "tickwise-api.service")["RestrictSUIDSGID"]


@needs_mounts
@pytest.mark.parametrize("option", HARMLESS)
def test_the_unit_of_executors_keeps_what_a_sandbox_can_bear(option: str) -> None:
    """And a sandbox is built under it."""
    assert _built(HARMLESS[option])
    assert option in unit(UNITS / "tickwise-executor.service")


@pytest.mark.parametrize("role", [*ROLES, "migrations"])
def test_executors_alone_may_make_namespaces(role: str) -> None:
    """That of time is nobody's."""
    said = unit(UNITS / f"tickwise-{role}.service")
    namespaces = ["user mnt pid net ipc uts cgroup"] if role == "executor" else ["yes"]
    assert namespaces == said["RestrictNamespaces"]
    families = {each for line in said["RestrictAddressFamilies"] for each in line.split()}
    assert (role == "executor") == ("AF_NETLINK" in families)
    calls = {each for line in said["SystemCallFilter"] for each in line.split()}
    more = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} | BUILDING - {
        "unshare",
        "setns",
    }  # of @system-service
    assert {"@system-service"} | (more if role == "executor" else set()) == calls


def test_a_container_may_call_what_builds_a_sandbox_and_no_more() -> None:
    """The file is written from the deny list of sandboxes: run `python -m tests.deploy.container_filter`."""
    assert written() == PLACE.read_text(encoding="utf-8")


def test_executors_of_the_compose_file_alone_may_build_sandboxes() -> None:
    """By a filter of their own; nobody gains a right."""
    services = load(COMPOSE)["services"]
    plain = ["no-new-privileges:true"]
    more = ["seccomp:../sandbox/seccomp.json", "systempaths=unconfined", "apparmor=unconfined"]
    found = {name: service.get("security_opt") for name, service in services.items()}
    assert dict.fromkeys(found, plain) | {"executor": plain + more} == found
    assert (COMPOSE.parent / "../sandbox/seccomp.json").exists()


def test_the_chart_opens_nothing_unless_it_is_asked_to() -> None:
    """The usual pods keep the restricted profile."""
    (pool,) = load(VALUES)["executors"].values()
    assert pool["sandbox"]["enabled"] is False


def test_the_image_has_bubblewrap() -> None:
    """Each image of Debian's family has it under this name."""
    text = (DEPLOY / "Dockerfile").read_text()
    (_, last) = text.rsplit("\nFROM ", 1)
    assert "apt-get install --yes --no-install-recommends bubblewrap" in last
