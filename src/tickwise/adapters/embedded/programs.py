"""Runs PostgreSQL's programs as the right user, with an environment of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tickwise.domain.errors import Misconfigured, TickwiseError

# Making a cluster takes half a second; on a slow network disk it was never seen to take a minute.
PROGRAM_TIMEOUT_SECONDS = 300

# Nothing else is handed down: PG* variables would change what the programs do, and ours hold keys, which the
# server's user could read in /proc.
_ENVIRONMENT_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")


@dataclass(frozen=True)
class Account:
    """The user that the server runs as, when we are root."""

    name: str
    uid: int
    gid: int


class UserArguments(TypedDict, total=False):
    """The arguments of `subprocess` that change the user of a child."""

    user: int
    group: int
    extra_groups: list[int]


def as_account(account: Account | None) -> UserArguments:
    """No change of user for None."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def environment() -> dict[str, str]:
    """English messages in any locale of the user, because this program parses them."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT_KEPT if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C"}


def server_account(data: Path) -> Account | None:
    """The user that runs the server: ourselves (None), and as root the owner of an existing cluster, `postgres` or
    `nobody`."""
    if os.geteuid() != 0:
        return None
    if data.exists():
        owner = data.stat()
        if owner.st_uid == 0:
            raise Misconfigured(
                f"{data} belongs to root, and PostgreSQL refuses to run as root. Give it back to the user that the "
                f"server ran as, for example: chown -R postgres: {data}"
            )
        return Account(name=_user_name(owner.st_uid), uid=owner.st_uid, gid=owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=user.pw_uid, gid=user.pw_gid)
    raise Misconfigured(
        "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody` to run it as. "
        "Start as an ordinary user, or add one: useradd --system postgres"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def run(
    command: list[str | Path], *, account: Account | None, standard_input: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. Its own session: a Ctrl-C in the terminal must not end a half-made cluster."""
    return subprocess.run(
        command,
        input=standard_input,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd="/",
        env=environment(),
        start_new_session=True,
        timeout=PROGRAM_TIMEOUT_SECONDS,
        check=False,
        **as_account(account),
    )


def works(command: list[str | Path], *, account: Account | None) -> bool:
    """Check by a trial that the account can run the command: modes alone do not show ACLs and missing libraries."""
    try:
        return run(command, account=account).returncode == 0
    except OSError:
        return False


def can_enter(folder: Path, account: Account) -> bool:
    """Check whether the account can enter a folder through all folders above it."""
    return works(["/bin/sh", "-c", 'cd "$1"', "sh", folder], account=account)


def failure(what: str, output: str, where: Path) -> TickwiseError:
    """Translate a program's last words for the operator."""
    if "No space left on device" in output:
        return no_space(what, where)
    if "Permission denied" in output:
        return Misconfigured(
            f"{what}: permission denied below {where}. The server must own it; start as the user that made it. "
            f"PostgreSQL said: {last_lines(output)}"
        )
    return Misconfigured(f"{what}. PostgreSQL said: {last_lines(output)}")


def no_space(what: str, where: Path) -> Misconfigured:
    """An error that names the action, and the disk of this folder, which is full."""
    free_mb = shutil.disk_usage(where).free // 1_000_000
    return Misconfigured(
        f"{what}: no space is left on the disk of {where} ({free_mb} MB free). Free some space there, or start "
        "with another --data-dir."
    )


def last_lines(output: str) -> str:
    """The end of an output, short enough for a message."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-6:]) or "(nothing)"
