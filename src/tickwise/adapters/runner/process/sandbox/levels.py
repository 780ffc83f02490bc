"""The check that this host gives the isolation level `sandbox`, by building one; if not, the reason and the way out.

bwrap in PATH? ──► new enough? ──► seccomp in the kernel, a filter for the machine? ──► one sandbox is built, as a
                                                                                       user of tasks, and looks around
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.process.sandbox.bubblewrap import NEEDED_OPTIONS, PROGRAM, command, options
from tickwise.adapters.runner.process.sandbox.etc_folder import EtcFolders, Person
from tickwise.adapters.runner.process.sandbox.landlock import SCOPES_SINCE, landlock_abi
from tickwise.adapters.runner.process.sandbox.plan import SandboxPlan
from tickwise.adapters.runner.process.sandbox.scoped_thread import scoped
from tickwise.adapters.runner.process.sandbox.syscalls import machine, seccomp_filter
from tickwise.adapters.runner.process.task_users import TRIAL_SECONDS, TaskUser

HOME: Final = "/task"
"""Of each task in a sandbox."""
TRIAL: Final = (
    "test -r /proc/self/status && test ! -e /etc/shadow && test ! -w /usr && test ! -w /etc && test ! -w / "
    "&& : >/tmp/written && : >/dev/shm/written && echo >/dev/null && echo built"
)
STANDARD_FOLDERS: Final = "/usr/bin:/bin:/usr/local/bin"
INSTALL: Final = (
    "install it: apt install bubblewrap (dnf install bubblewrap, apk add bubblewrap); then start the executor again"
)
CONTAINER_SIGNS: Final = ("/.dockerenv", "/run/.containerenv")
NUMBERS: Final = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap with `userns,`",
    ),
}
"""Settings of the kernel that forbid user namespaces: the value that does, and the way out."""


class SandboxLevel(NamedTuple):
    """The answer for one host and one user of tasks."""

    program: str = PROGRAM
    """The path of bubblewrap."""
    lack: str | None = None
    """The reason that there is no sandbox; None: there is one."""
    cure: str = ""
    landlock: int = 0
    """The ABI of Landlock; 0: none. A sandbox goes without."""

    @property
    def is_there(self) -> bool:
        return self.lack is None

    @property
    def hides_abstract_sockets(self) -> bool:
        """Check whether a task with the executor's network cannot reach the abstract sockets in it."""
        return self.landlock >= SCOPES_SINCE


def sandbox_level(user: TaskUser | None) -> SandboxLevel:
    """Look at this host. `user`: that of tasks; None: our own. Blocking: a tenth of a second. Raises nothing."""
    program = shutil.which(PROGRAM, path=os.pathsep.join((os.environ.get("PATH", ""), STANDARD_FOLDERS)))
    if program is None:
        return SandboxLevel(lack="bubblewrap (bwrap) is not installed", cure=INSTALL)
    lack = _old(program) or _no_filter()
    if lack is not None:
        return SandboxLevel(program, *lack)
    lack = _trial(program, user)
    return SandboxLevel(program, *lack) if lack is not None else SandboxLevel(program, landlock=landlock_abi())


def _old(program: str) -> tuple[str, str] | None:
    try:
        said = subprocess.run([program, "--help"], capture_output=True, env={}, timeout=TRIAL_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} cannot be run: {error}", INSTALL
    missing = [each for each in NEEDED_OPTIONS if each.encode() not in said.stdout + said.stderr]
    if missing:
        return f"{program} is too old: it lacks {', '.join(missing)}", "install bubblewrap 0.8 or newer"
    return None


def _no_filter() -> tuple[str, str] | None:
    if machine() is None:
        return f"there is no seccomp filter for {os.uname().machine}", "run executors on x86_64 or aarch64"
    with suppress(OSError):
        if b"\nSeccomp:" not in Path("/proc/self/status").read_bytes():
            return "this kernel has no seccomp", "run a kernel with CONFIG_SECCOMP_FILTER"
    return None


def _trial(program: str, user: TaskUser | None) -> tuple[str, str] | None:
    """Build one sandbox; None: it was built and holds."""
    with tempfile.TemporaryDirectory(prefix="tickwise-sandbox-") as place:
        folder = Path(place)
        folder.chmod(0o711)
        uid, gid = (os.geteuid(), os.getegid()) if user is None else (user.uid, user.gid)
        try:
            etc = EtcFolders(folder).of(Person(uid, gid, "task", HOME))
            plan = SandboxPlan(work="/tmp", home=HOME, etc=etc)  # its own
            done = _built(program, plan, user)
        except (OSError, subprocess.SubprocessError) as error:
            return (
                f"a sandbox cannot be started: {error}",
                "look at the error, and at `tickwise doctor` once it is mended",
            )
    if done.returncode == 0 and done.stdout.strip() == b"built":
        return None
    said = (done.stderr or done.stdout).decode(errors="replace").strip()[:300] or f"exit status {done.returncode}"
    return f"a sandbox cannot be built here: {said}", _cure()


def _built(program: str, plan: SandboxPlan, user: TaskUser | None) -> subprocess.CompletedProcess[bytes]:
    with tempfile.TemporaryFile() as filter_file, tempfile.TemporaryFile() as options_file:
        filter_file.write(seccomp_filter())
        options_file.write(options(plan, {}, filter_file.fileno()))
        for file in (filter_file, options_file):
            file.flush()
            file.seek(0)
        arguments: Sequence[str] = command(program, options_file.fileno(), ["/bin/sh", "-c", TRIAL])
        return scoped(
            lambda: subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd="/",
                env={},
                pass_fds=(filter_file.fileno(), options_file.fileno()),
                timeout=TRIAL_SECONDS,
                check=False,
                start_new_session=True,
                **({} if user is None else user.arguments()),
            )
        )


def _cure() -> str:
    for path, (forbids, way) in NUMBERS.items():
        with suppress(OSError):
            if Path(path).read_text().strip() == forbids:
                return f"{path} is {forbids}, which forbids user namespaces: {way}"
    if any(map(os.path.exists, CONTAINER_SIGNS)) or "container" in os.environ:
        return (
            "this is a container that allows no user namespaces or no new /proc: allow them (docker run --security-opt "
            "seccomp=unconfined --security-opt systempaths=unconfined), or run executors outside"
        )
    return "allow user namespaces for the user of tasks, or run these jobs with isolation process"
