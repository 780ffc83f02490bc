"""The programs of a Kubernetes control plane, built once: `python -m tests.services.kubernetes_programs`.

They come from Go modules: no registry of images is asked, no binary is downloaded. The build takes 10 minutes of two
cores and 3 GB of Go's cache; the programs, 370 MB, stay in the cache of the tests. Invariant: a program is there whole
or not at all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.services.packages import Missing, cache, locked, program

KUBERNETES_VERSION: Final = "1.36.3"
ETCD_VERSION: Final = "3.6.16"
"""Debian's 3.4 answers a list and watch with 504 "Too large resource version" now and then."""
CONTROL_PLANE: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS: Final = (*CONTROL_PLANE, "kubectl")
LOCAL_MODULE: Final = re.compile(r"^\s*(k8s\.io/[a-z-]+) => \./staging/src/", re.MULTILINE)


def folder() -> Path:
    """Where the programs of these versions are kept."""
    return cache() / f"kubernetes-{KUBERNETES_VERSION}"


def built() -> bool:
    """Whether a control plane can be started at once."""
    return all((folder() / name).exists() for name in CONTROL_PLANE)


def build() -> Path:
    """The folder of the programs; what is absent is built first. Raises `Missing`."""
    home = folder()
    home.mkdir(exist_ok=True)
    with locked(home / "lock"), tempfile.TemporaryDirectory() as work:
        wanted = [name for name in PROGRAMS if not (home / name).exists()]
        if "etcd" in wanted:
            _begin(Path(work) / "etcd", f"go.etcd.io/etcd/server/v3@v{ETCD_VERSION}")
            _program(Path(work) / "etcd", home / "etcd", "go.etcd.io/etcd/server/v3", "-s -w")
        others = [name for name in wanted if name != "etcd"]
        if others:
            _kubernetes(Path(work) / "kubernetes", home, others)
    return home


def _kubernetes(work: Path, home: Path, names: list[str]) -> None:
    """Kubernetes' own go.mod replaces its k8s.io/* modules by folders of its repository. An empty module of ours points
    them to the published versions: 1.36.3 is 0.36.3 there."""
    work.mkdir()
    _go(work, "mod", "init", "programs")
    source = _go(work, "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES_VERSION}")
    (declared,) = re.findall(r'"GoMod": "(.+?)"', source)
    staged = sorted(set(LOCAL_MODULE.findall(Path(declared).read_text())))
    version = f"v0.{KUBERNETES_VERSION.removeprefix('1.')}"
    replaces = [f"-replace={module}={module}@{version}" for module in staged]
    _go(work, "mod", "edit", f"-require=k8s.io/kubernetes@v{KUBERNETES_VERSION}", *replaces)
    package = "k8s.io/component-base/version"
    major, minor, _ = KUBERNETES_VERSION.split(".")
    said = f"-X {package}.gitVersion=v{KUBERNETES_VERSION} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    for name in names:
        _program(work, home / name, f"k8s.io/kubernetes/cmd/{name}", f"-s -w {said}")


def _begin(work: Path, requirement: str) -> None:
    work.mkdir()
    _go(work, "mod", "init", "programs")
    _go(work, "get", requirement)


def _program(work: Path, target: Path, package: str, link: str) -> None:
    part = target.with_suffix(".part")
    _go(work, "build", "-trimpath", "-o", str(part), "-ldflags", link, package)
    part.rename(target)
    print(f"built {target.name}", flush=True)  # noqa: T201  # whoever waits for ten minutes sees it go on


def _go(work: Path, *arguments: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [program("go"), *arguments], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Missing(f"go {' '.join(arguments[:2])} failed in {work}:\n{done.stderr[-2_000:]}")
    return done.stdout


def main() -> int:
    """The command."""
    try:
        print(build())  # noqa: T201  # a command prints
    except Missing as why:
        print(why, file=sys.stderr)  # noqa: T201  # a command prints
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
