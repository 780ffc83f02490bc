"""What the servers need on a machine: looked for, and fetched or installed where it is absent.

Invariant: what several processes may want at once is made by one of them, under a file lock, and appears complete or
not at all. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import platformdirs

from tests.support.local_up import ROOT

KAFKA_VERSION: Final = "4.4.0"
CASSANDRA_VERSION: Final = "5.0.9"
ATTEMPTS: Final = 3
"""A mirror may be away for a moment."""
ATTEMPT_SECONDS: Final = 100.0
"""The longest that one may take: Kafka's 65 MiB took 36 to 60 s, and Maven goes on where it was."""
PROGRAMS: Final = {
    "java": "openjdk-17-jre-headless",
    "openssl": "openssl",
    "mvn": "maven",
    "redis-server": "redis-server",
    "nginx": "nginx-light",
    "pgbouncer": "pgbouncer",
    "chromium": "chromium",
    "promtool": "prometheus",
    "bwrap": "bubblewrap",
    "node": "nodejs",
    "npm": "npm",
    "busybox": "busybox-static",
    "dockerd": "docker.io",
    "podman": "podman",
    "runc": "runc",
    "catatonit": "catatonit",
    "go": "golang-go",
    "cc": "gcc libc6-dev",
    "setpriv": "util-linux",
    "pg_ctlcluster": "postgresql",
}
"""Debian's packages of each program."""
SYSTEM_PATH: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where Debian puts servers: not in everybody's PATH."""


class Missing(Exception):
    """Something is not on this machine and could not be put there. The text says what to do."""


def cache() -> Path:
    """A folder of this user's that outlives a test run."""
    folder = Path(platformdirs.user_cache_dir("tickwise-tests", appauthor=False))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Alone, among all processes that ask for this file; the kernel frees it when its holder dies."""
    with file.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def program(name: str) -> str:
    """The path of one of `PROGRAMS`, installed if it is absent and we may. Raises `Missing`."""
    found = _find(name)
    if found is None:
        with locked(cache() / "apt.lock"):
            found = _find(name) or _install(name)
    return found


def _find(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PATH]))


def _install(name: str) -> str:
    packages = PROGRAMS[name]
    by_hand = f"{name} is not on this machine. Install it (apt-get install {packages})"
    if os.geteuid() or shutil.which("apt-get") is None:
        raise Missing(f"{by_hand}, or run the tests as root on a Debian, where they do it themselves.")
    # Level 1: the packages' scripts start none of the services that they bring.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    options = ["-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3"]
    install = ["apt-get", *options, "install", "-y", "-qq", "--no-install-recommends", *packages.split()]
    # The lists of a fresh machine are old or absent: they are read anew once an attempt has failed.
    said = attempted([install], environment, before_again=[["apt-get", *options, "update", "-qq"]])
    found = _find(name)
    if found is None:
        raise Missing(f"{by_hand}: it was tried, and this came of it:\n{said[-2_000:]}")
    return found


def attempted(
    commands: Sequence[Sequence[str]],
    environment: dict[str, str],
    *,
    before_again: Sequence[Sequence[str]],
    seconds: float = ATTEMPT_SECONDS,
) -> str:
    """Run the commands until they all succeed, each for so many seconds, at most `ATTEMPTS` times. What the last one
    said."""
    said = ""
    for attempt in range(ATTEMPTS):
        good = True
        for command in [*(before_again if attempt else ()), *commands]:
            try:
                done = subprocess.run(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False,
                )  # fmt: skip
                said, good = done.stdout, done.returncode == 0
            except subprocess.TimeoutExpired as late:
                said, good = f"{' '.join(command)}: no end within {late.timeout:g} s", False
        if good:
            break
    return said


def kafka_home() -> Path:
    """A folder of this Kafka's: `jars`, and what a start makes to be quicker the next time. Raises `Missing`."""
    home = cache() / f"kafka-{KAFKA_VERSION}"
    fetched_jars(home, Path(__file__).with_name("pom.xml"), "kafka.version", KAFKA_VERSION)
    return home


def cassandra_home() -> Path:
    """The same of Cassandra. Raises `Missing`."""
    home = cache() / f"cassandra-{CASSANDRA_VERSION}"
    fetched_jars(home, Path(__file__).with_name("cassandra.xml"), "cassandra.version", CASSANDRA_VERSION)
    return home


def fetched_jars(home: Path, pom: Path, named: str, version: str) -> Path:
    """The folder of the jars of a shopping list, fetched if it is absent. `named`: the property of the list that the
    version is the value of. Raises `Missing`."""
    jars = home / "jars"
    if not jars.exists():
        home.mkdir(exist_ok=True)
        with locked(home / "lock"):
            if not jars.exists():
                _fetch(jars, pom, f"-D{named}={version}")
    return jars


def _fetch(jars: Path, pom: Path, version: str) -> None:
    """All jars of the shopping list, by Maven with the settings that this machine has."""
    part = jars.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    command = [
        program("mvn"), "--batch-mode", "--quiet", "--file", str(pom), version, "-DincludeScope=runtime",
        f"-DoutputDirectory={part}",
        "dependency:copy-dependencies",
    ]  # fmt: skip
    program("java")
    said = attempted([command], dict(os.environ), before_again=[])
    if not any(part.glob("*.jar")):
        raise Missing(
            f"The jars of {pom.name} could not be fetched through Maven. Try it by hand: {' '.join(command)}\n"
            f"or name a server that runs (tests/services/shared.py). Maven said:\n{said[-2_000:]}"
        )
    part.rename(jars)


def prefetch() -> None:
    """Begin to install in the background what is absent; whoever needs it meanwhile waits at its lock."""
    fetched = [cache() / f"kafka-{KAFKA_VERSION}" / "jars", cache() / f"cassandra-{CASSANDRA_VERSION}" / "jars"]
    if all(_find(name) for name in PROGRAMS) and all(jars.exists() for jars in fetched):
        return
    with (cache() / "prefetch.log").open("ab") as log:
        begun = subprocess.Popen(
            [sys.executable, "-m", "tests.services", "install"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    # Nobody waits for it. Told so, or its handle would warn of that.
    begun.returncode = 0
