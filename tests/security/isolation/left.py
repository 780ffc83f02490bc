"""Attacks that stay: processes that outlive their task, and what is laid down for the next one."""

from __future__ import annotations

import builtins
import os
import resource
import signal
import site
import subprocess
import sys

from tests.security.isolation.attacks import LEFT, Look, attack, depends, reached, stopped
from tests.security.isolation.toolkit import Host, Refused, call, ignore, lasting, libc

FOUND = stopped("a task ends with all that it started, found by groups and marks that it cannot shed")
WITH_ITS_FIRST = stopped("all processes of a sandbox end with its first one")


def _lives(look: Look) -> object:
    return look.processes()


@attack(LEFT, process=FOUND, sandbox=WITH_ITS_FIRST, after=_lives, is_shown=False)
def own_session(host: Host) -> object:
    """Leave a process behind, in a session of its own (`setsid`)."""
    if os.fork() == 0:
        os.setsid()
        lasting(host.token)
    return None


@attack(LEFT, process=FOUND, sandbox=WITH_ITS_FIRST, after=_lives, is_shown=False)
def daemon(host: Host) -> object:
    """Leave a process behind as daemons are made: two forks, a session, no descriptor, another folder."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.closerange(0, 1024)
            lasting(host.token)
        os._exit(0)
    return None


@attack(LEFT, process=FOUND, sandbox=WITH_ITS_FIRST, after=_lives, is_shown=False)
def deaf_to_hangups(host: Host) -> object:
    """Leave a process behind that ignores its signals (`nohup`, `trap`, `&`)."""
    if os.fork() == 0:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGPIPE):
            ignore(number)
        lasting(host.token)
    return None


@attack(
    LEFT,
    process=FOUND,
    ordinary=reached("a program that sets out to shed its marks can, where all are one user"),
    sandbox=WITH_ITS_FIRST,
    after=_lives,
    is_shown=False,
    quick=True,
)
def without_marks(host: Host) -> object:
    """Leave a process behind that has shed its marks: its environment, its limits, its session, its parent."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            for limit in range(16):
                _, hard = resource.getrlimit(limit)
                if limit in (resource.RLIMIT_CORE, 10):
                    resource.setrlimit(limit, (0, hard))
            os.closerange(0, 1024)
            os.execve("/bin/sleep", [host.token, "300"], {})
        os._exit(0)
    return None


@attack(
    LEFT,
    process=depends("whether the machine has such programs, and lets this user have them start something"),
    sandbox=stopped("neither the folders nor the sockets of cron, at or systemd are there"),
    is_shown=False,
)
def task_for_later(host: Host) -> object:
    """Have another program of the machine start something later (`crontab`, `at`, `systemd-run`)."""
    commands = (["crontab", "-"], ["at", "now"], ["systemd-run", "--user", "--no-block", "sleep", "1"])
    for command in commands:
        try:
            done = subprocess.run(command, input=b"", capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0 and command[0] != "crontab":
            return command[0]
    raise Refused("none of them took it")


# --------------------------------------------------------------------------------------------- for the next task


def _in_tmp(host: Host) -> object:
    return os.path.exists(f"/tmp/{host.token}") and f"/tmp/{host.token}"


@attack(
    LEFT,
    process=reached("/tmp is everybody's"),
    sandbox=stopped("each task has a /tmp of its own"),
    then=_in_tmp,
    is_shown=False,
    quick=True,
)
def file_in_tmp(host: Host) -> object:
    """Leave a file in `/tmp` for the next task of the namespace."""
    with open(f"/tmp/{host.token}", "w"):
        return "left"


def _in_shared_memory(host: Host) -> object:
    return os.path.exists(f"/dev/shm/{host.token}") and f"/dev/shm/{host.token}"


@attack(
    LEFT,
    process=reached("/dev/shm is everybody's"),
    sandbox=stopped("each task has a /dev/shm of its own"),
    then=_in_shared_memory,
    is_shown=False,
)
def file_in_shared_memory(host: Host) -> object:
    """Leave a file in `/dev/shm` for the next task of the namespace."""
    with open(f"/dev/shm/{host.token}", "w"):
        return "left"


def _segment(host: Host) -> object:
    identity = call("shmget", int(host.token[-6:], 16) + 1, 0, 0)
    return libc.shmctl(identity, 0, None) == 0 and identity


@attack(
    LEFT,
    process=reached("messages between processes belong to the user"),
    sandbox=stopped("its own such messages (IPC)"),
    then=_segment,
    is_shown=False,
)
def shared_memory(host: Host) -> object:
    """Leave a piece of shared memory (System V) for the next task of the namespace."""
    return call("shmget", int(host.token[-6:], 16) + 1, 4096, 0o1600)


def _is_imported(host: Host) -> object:
    return getattr(builtins, "planted", None) or os.environ.get("PLANTED")


@attack(
    LEFT,
    process=stopped("each task is a fork of an interpreter that has run no script"),
    sandbox=stopped("each task is a fork of an interpreter that has run no script"),
    then=_is_imported,
    is_shown=False,
)
def changed_interpreter(host: Host) -> object:
    """Change a module, a variable and the path of the warm interpreter that scripts are forked from."""
    builtins.planted = host.token  # type: ignore[attr-defined]  # what an attack plants
    os.environ["PLANTED"] = host.token
    os.environ["LD_PRELOAD"] = "/tmp/planted.so"
    sys.path.insert(0, "/tmp/planted")
    sys.modules["json"].planted = host.token  # type: ignore[attr-defined]  # what an attack plants
    return "changed"


def _is_at_home(host: Host) -> object:
    places = (os.path.expanduser("~"), site.getusersitepackages())
    found = [f"{place}/planted-{host.token}" for place in places if os.path.exists(f"{place}/planted-{host.token}")]
    for place in found:
        os.unlink(place)
    return found


@attack(
    LEFT,
    process=reached("the home of a namespace is kept, with what Python or a shell reads at its start"),
    sandbox=stopped("each task has a home of its own"),
    then=_is_at_home,
    is_shown=False,
)
def file_at_home(host: Host) -> object:
    """Leave a file in its home, such as a module that each Python imports at its start or `.profile`."""
    os.makedirs(site.getusersitepackages(), exist_ok=True)
    for place in (os.path.expanduser("~"), site.getusersitepackages()):
        with open(f"{place}/planted-{host.token}", "w"):
            pass
    return "left"


def _key(host: Host) -> object:
    return call("keyctl", 10, -4, b"user", host.token.encode(), 0)


@attack(
    LEFT,
    process=reached("the keyring of a user is that of all its processes"),
    sandbox=stopped("`add_key` is refused"),
    then=_key,
    is_shown=False,
)
def key_in_the_kernel(host: Host) -> object:
    """Leave a key in the keyring of its user for the next task of the namespace."""
    return call("add_key", b"user", host.token.encode(), b"secret", 6, -4)
