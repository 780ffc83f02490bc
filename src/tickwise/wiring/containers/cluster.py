"""The finding of `doctor` on a cluster: its version, permissions of the credentials, quotas, network policy.

    POST SelfSubjectAccessReview   for each call that the runner makes, in each namespace of Kubernetes

Nothing is made by looking: a review is an answer, and leaves no object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.kubernetes.cluster import ClusterAway, ClusterRefused, JobCluster
from tickwise.adapters.runner.container.kubernetes.policy import JobPlaces, read_template
from tickwise.adapters.runner.container.kubernetes.runner import NETWORK_POLICY
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.findings import DoctorFinding

NEEDS: Final = (
    ("batch", "jobs", "", ("create", "get", "list", "patch", "delete")),
    ("", "pods", "", ("get", "list", "watch", "patch", "delete")),
    ("", "pods", "log", ("get",)),
    ("", "secrets", "", ("create", "patch")),
    ("", "events", "", ("list",)),
    ("networking.k8s.io", "networkpolicies", "", ("get",)),
)
"""Group, resource, part of it, verbs. The same as in `docs/how-to/kubernetes-containers.md`."""
OLDEST: Final = (1, 29)
"""`podReplacementPolicy` of Jobs is on from there on (beta)."""


async def cluster_finding(settings: Settings) -> DoctorFinding:
    """The cluster of an executor with these settings."""
    assert settings.container_engine is not None
    try:
        places = JobPlaces(settings.kubernetes_namespaces)
        await asyncio.to_thread(read_template, settings.kubernetes_pod_template)
        cluster = JobCluster(settings.container_engine, settings.kubernetes_config, SystemClock())
    except Misconfigured as wrong:
        return DoctorFinding("containers", "error", wrong.detail, "mend it, or unset TICKWISE_CONTAINER_ENGINE")
    try:
        version = await cluster.version()
        namespaces = places.namespaces(cluster.namespace)
        lacks = [lack for namespace in namespaces for lack in await lacking(cluster, namespace)]
        full = [words for namespace in namespaces for words in await _full_quotas(cluster, namespace)]
        open_ones = [each for each in namespaces if not await _is_shut(cluster, each)]
    except (ClusterAway, ClusterRefused) as away:
        return DoctorFinding(
            "containers", "error", f"the cluster {settings.container_engine} does not answer: {away}",
            "look at its address and credentials: kubectl version",
        )  # fmt: skip
    finally:
        await cluster.close()
    text = f"Kubernetes {version}; pods in {', '.join(namespaces)}"
    if _number(version) < OLDEST:
        return DoctorFinding("containers", "error", text, f"Kubernetes {OLDEST[0]}.{OLDEST[1]} is the oldest that does")
    if lacks:
        return DoctorFinding(
            "containers", "error", f"{text}; the credentials may not: {', '.join(lacks)}",
            "apply the role of docs/how-to/kubernetes-containers.md",
        )  # fmt: skip
    if not settings.container_images:
        return DoctorFinding(
            "containers", "warning", f"{text}; no image is allowed", "name images in TICKWISE_CONTAINER_IMAGES"
        )
    return _with_doubts(f"{text}; images: {', '.join(settings.container_images)}", full, open_ones)


def _with_doubts(text: str, full: Sequence[str], open_ones: Sequence[str]) -> DoctorFinding:
    if full:
        return DoctorFinding("containers", "warning", f"{text}; full: {', '.join(full)}", "raise the quota")
    if open_ones:
        return DoctorFinding(
            "containers", "warning",
            f"{text}; no NetworkPolicy {NETWORK_POLICY} in {', '.join(open_ones)}, so jobs without network do not run",
            "apply the policy of docs/how-to/kubernetes-containers.md",
        )  # fmt: skip
    return DoctorFinding("containers", "ok", text)


async def lacking(cluster: JobCluster, namespace: str) -> Sequence[str]:
    """The account of what the credentials may not do there, of what the runner does."""
    found = []
    for group, resource, part, verbs in NEEDS:
        for verb in verbs:
            asked: dict[str, Any] = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
            if part:
                asked["subresource"] = part
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                      "spec": {"resourceAttributes": asked}}  # fmt: skip
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            answer = msgspec.json.decode(await cluster.ask("POST", path, None, review))
            if not answer["status"].get("allowed"):
                found.append(f"{verb} {resource}{'/' + part if part else ''} in {namespace}")
    return found


async def _full_quotas(cluster: JobCluster, namespace: str) -> Sequence[str]:
    """The quotas that are used up. Credentials that may not read them know of none."""
    try:
        content = await cluster.ask("GET", f"/api/v1/namespaces/{quote(namespace)}/resourcequotas")
    except ClusterRefused:
        return ()
    full = []
    for quota in msgspec.json.decode(content)["items"]:
        status = quota.get("status", {})
        for name, most in status.get("hard", {}).items():
            if status.get("used", {}).get(name) == most:
                full.append(f"{name} of the quota {quota['metadata']['name']} in {namespace}")
    return full


async def _is_shut(cluster: JobCluster, namespace: str) -> bool:
    try:
        return await cluster.has_network_policy(namespace, NETWORK_POLICY)
    except ClusterRefused:
        return False


def _number(version: str) -> tuple[int, int]:
    parts = version.removeprefix("v").split(".")
    return int(parts[0] or 0), int("".join(filter(str.isdigit, parts[1])) or 0) if len(parts) > 1 else 0
