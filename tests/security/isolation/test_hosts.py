"""Hosts without sandboxes, or with less than usual: an executor says why, and no task gets less than its job says."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import pytest

from tests.security.isolation.report import NAMESPACES, missing, report
from tests.security.probes import probe
from tests.services.packages import program
from tests.support.local_up import ROOT, environment
from tickwise.domain.rules.confinement import SANDBOX_LABEL, Isolation

START_SECONDS: Final = 90
OWN_USERS: Final = ("unshare", "--user", "--map-root-user", "--mount", "--")
pytestmark = [pytest.mark.skipif(missing() is not None, reason=missing() or ""), pytest.mark.takes_up_to(300)]


class Lacking(NamedTuple):
    """A host."""

    inside: Sequence[str]
    """The command that makes it of this one, before another command."""
    lack: str
    """A part of the reason that is given."""
    cure: str
    """A part of the way out that is named."""


LACKING: Final = {
    "without user namespaces": Lacking(
        (*OWN_USERS, "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"),
        "Creating new namespace failed",
        "sysctl -w user.max_user_namespaces=",
    ),
    "a container that covers parts of /proc": Lacking(
        ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private", "--", "sh", "-c",
         'mount --bind /dev/null /proc/kmsg && exec "$@"', "sh", *OWN_USERS),
        "mount proc",
        ", or run ",
    ),
    "in a sandbox of bubblewrap": Lacking(
        ("bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--disable-userns",
         "--uid", "0", "--gid", "0", "--die-with-parent", "--"),
        "Creating new namespace failed",
        "run executors outside",
    ),
    "without bubblewrap": Lacking(
        ("unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
         'place="$(command -v bwrap)" && mount --bind /dev/null "$place" && exec "$@"', "sh"),
        "bubblewrap (bwrap) is not installed",
        "apt install bubblewrap",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def bubblewrap() -> None:
    """Installed, so that a host lacks what its case takes away and nothing else."""
    program("bwrap")


cases = pytest.mark.parametrize("host", LACKING.values(), ids=LACKING)


def _command(host: Lacking, data_dir: Path) -> list[str]:
    up = ["up", "--database", "memory://", "--port", "0", "--data-dir", str(data_dir)]
    return [*host.inside, sys.executable, "-m", "tickwise", *up]


# Root of a user namespace with one number has no users for tasks.
def _environment(**more: str) -> dict[str, str]:
    return environment(**{"TICKWISE_RUN_TASKS_AS": "root", "TICKWISE_ISOLATION": "auto", **more})


@probe(13, stopped_by="an executor with `TICKWISE_ISOLATION=sandbox` does not start where there is none, and says why")
@cases
def test_an_executor_that_must_give_a_sandbox_does_not_start_without(host: Lacking, tmp_path: Path) -> None:
    """A host without user namespaces, a container that covers /proc, a sandbox in a sandbox, no bubblewrap."""
    done = subprocess.run(
        _command(host, tmp_path), env=_environment(TICKWISE_ISOLATION="sandbox"), cwd=ROOT, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=START_SECONDS, check=False,
    )  # fmt: skip
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error:")]
    assert done.returncode != 0
    assert "TICKWISE_ISOLATION is sandbox, and this host gives none" in error
    assert host.lack in error
    assert host.cure in error


@contextlib.contextmanager
def _up(host: Lacking, data_dir: Path) -> Iterator[httpx2.Client]:
    log = data_dir / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(host, data_dir),
            env=_environment(),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        found = _client_file(process, data_dir, log)
        headers = {"Authorization": f"Bearer {found['key']}"}
        with httpx2.Client(base_url=f"{found['url']}/api/v1", headers=headers, timeout=30) as client:
            yield client
    finally:
        process.terminate()
        process.wait(60)


def _client_file(process: subprocess.Popen[bytes], data_dir: Path, log: Path) -> Any:
    looked = threading.Event()
    for _ in range(START_SECONDS * 10):
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError, ValueError, httpx2.HTTPError):
            found = json.loads((data_dir / "client.json").read_text())
            if httpx2.get(f"{found['url']}/readyz").status_code == 200:
                return found
        looked.wait(0.1)
    raise AssertionError(log.read_text())


@probe(
    13, stopped_by="such an executor offers none, so no job that says sandbox reaches it; the run waits, and says why"
)
def test_a_job_that_says_sandbox_waits_where_there_is_none(tmp_path: Path) -> None:
    """A job with `isolation: sandbox`, and one that says nothing, on a host without user namespaces."""
    task = {"kind": "shell", "command": "touch ran"}
    body = {"name": "a", "schedule_type": "IMMEDIATE", "task": task}
    with _up(LACKING["without user namespaces"], tmp_path) as client:
        (executor,) = client.get("/executors").json()
        assert [Isolation.PROCESS] == executor["isolation"]
        usual = client.post("/jobs", json=body).json()
        assert "no active executor of the queue 'default' offers the isolation sandbox" in str(usual["warnings"])
        assert "process" == client.get(f"/jobs/{usual['job_id']}").json()["isolation"]
        asked = client.post("/jobs", json={**body, "isolation": Isolation.SANDBOX}).json()
        # The usual one was submitted first and has ended: there is an executor with nothing else to do.
        _ended(client, usual["job_id"])
        (run,) = client.get(f"/jobs/{asked['job_id']}/runs").json()
        assert "QUEUED" == run["status"]
        assert SANDBOX_LABEL in str(client.get(f"/runs/{run['run_id']}/explain").json())


def _ended(client: httpx2.Client, job_id: str) -> None:
    looked = threading.Event()
    for _ in range(900):
        runs = client.get(f"/jobs/{job_id}/runs").json()
        if runs and runs[0]["status"] == "SUCCESS":
            return
        looked.wait(0.1)
    raise AssertionError(runs)


# Half a minute: of `make security`, not of `make test`.
if os.environ.get("ATTACKS") == "all":

    @probe(
        13,
        stopped_by="limits are counted in /proc; in a sandbox the kernel itself refuses one process too many, while a "
        "burst of a plain process between two looks is refused at 128 above the limit",
    )
    def test_limits_hold_on_a_host_without_control_groups() -> None:
        """Too many processes, and too much memory, on a host without control groups, at both levels."""
        cover = ("sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh")
        names = ["many_processes", "much_memory", "own_session", "service_on_loopback", "user_namespace"]
        found = report("root", [*Isolation], names, more=["--without-database"], inside=[*NAMESPACES, *cover])
        if Isolation.SANDBOX not in found.levels:
            pytest.skip("this machine gives no sandbox")
        reached = {(level, name) for (level, name), outcome in found.outcomes.items() if outcome.reached is not False}
        process = Isolation.PROCESS
        assert {(process, "service_on_loopback"), (process, "user_namespace")} >= reached
        assert (process, "service_on_loopback") in reached
