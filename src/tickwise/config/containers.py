"""The settings of containers. `Settings` has them as its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tickwise.config.facts import declared_field
from tickwise.domain.errors import Invalid

MAX_WARM: Final = 100
"""Warm containers of one image."""
_WARM: Final = re.compile(r"([^\s=]{1,500})=([0-9]{1,3})")


def read_warm(texts: Iterable[str]) -> dict[str, int]:
    """`python:3.12-slim=2` as the number of warm containers by image. Raises `Invalid`."""
    found: dict[str, int] = {}
    for text in texts:
        match = _WARM.fullmatch(text.strip())
        if match is None or not 1 <= int(match[2]) <= MAX_WARM:
            raise Invalid(f"{text[:80]!r}: write IMAGE=N, such as python:3.12-slim=2; N is from 1 to {MAX_WARM}")
        if match[1] in found:
            raise Invalid(f"{match[1]!r} stands there twice; name each image once")
        found[match[1]] = int(match[2])
    return found


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `ContainerSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class ContainerSettings:
    """The engine of containers, and what tasks may have of it."""

    container_engine: str | None = _setting(
        None,
        "The container engine of this executor: `unix:///var/run/docker.sock`, or the same of podman. "
        "`kubernetes://`: the cluster that this executor is a pod of, else that of kubeconfig's current context; "
        "`kubernetes://NAME`: that of another context. A caller with the engine's socket owns the machine, so tasks "
        "never get it. Unset: this executor runs no tasks in containers.",
        schemes=("unix", "tcp", "kubernetes"),
    )
    container_images: tuple[str, ...] = _setting(
        (),
        "Images that tasks may name: `python`, `ghcr.io/acme/*`, `*.example.com/*:stable`; `*`: each one. Empty: none.",
    )
    container_digests: str = _setting(
        "optional",
        "Whether an image must be named with its digest, `image@sha256:…`: `required`, or `optional`.",
        choices=("optional", "required"),
    )
    container_mounts: tuple[str, ...] = _setting(
        (),
        "Folders of the engine's machine that tasks of the kind container may mount, each exactly as it is written "
        "here; with `:ro` behind it to be read alone. Empty: none.",
    )
    container_network: str = _setting(
        "bridge", "The engine's network of containers whose job says `allow_network`. All others have none."
    )
    container_registry_file: Path | None = _setting(
        None,
        "A file with the credentials of registries, in the form of Docker's `config.json`. It is read at each pull. "
        "Unset: images are pulled without.",
    )
    container_pull_seconds: float = _setting(
        600.0,
        "The longest that the pull of one image may take; then the attempt fails with the reason `image_pull_failed`.",
        least=1,
        most=86_400,
    )
    container_warm: tuple[str, ...] = _setting(
        (),
        "Containers that are made before a task needs one, by image: `python:3.12-slim=2,ghcr.io/acme/etl:1=4`. Write "
        "each image as its tasks do. The image needs a `/bin/sh`.",
        check=read_warm,
        form=f"IMAGE=N, N from 1 to {MAX_WARM}",
    )
    container_processes: int = _setting(
        512, "Most processes and threads of a container whose job sets no limit of its own.", least=1, most=1_000_000
    )
    kubernetes_config: Path | None = _setting(
        None,
        "A kubeconfig, for `container_engine` with `kubernetes://`. Unset: the service account of the executor's pod, "
        "or `KUBECONFIG`, or `~/.kube/config`.",
    )
    kubernetes_namespaces: tuple[str, ...] = _setting(
        (),
        "The namespaces of Kubernetes that pods run in, by the namespace of their jobs, each with a service account if "
        "it has one: `acme=acme-jobs/runner`, `*=batch`. A job of a namespace that is not named is refused. Unset: all "
        "in the namespace of the credentials.",
    )
    kubernetes_pod_template: Path | None = _setting(
        None,
        "A YAML file with `metadata` and `spec` of pods: node selectors, tolerations, pull secrets, volumes, sidecars. "
        "It is laid over the defaults, and what a task says over it; lists of named things are merged by their names.",
    )
    kubernetes_pending_seconds: float = _setting(
        300.0,
        "How long a pod may wait for a node; then its run is given back with the reason `pod_pending`, for another "
        "executor or another try.",
        least=1,
        most=86_400,
    )
    kubernetes_plain_tasks: str = _setting(
        "refused",
        "Whether an executor with `kubernetes://` starts `python` and `shell` tasks as plain processes. They have its "
        "user, and can read its token of the cluster. `refused`: they go back unstarted with the reason "
        "`isolation_missing`, for another executor; those in sandboxes and containers run. `allowed`: they run.",
        choices=("refused", "allowed"),
    )
