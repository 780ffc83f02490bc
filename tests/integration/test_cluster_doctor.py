"""`doctor` and the role of the how-to, on a real Kubernetes API server with RBAC."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest_asyncio
import yaml

from tests.services.kubelet import Kubelet
from tests.services.kubernetes import kubeconfig
from tests.support.clusters import ClusterSite, busy
from tests.support.local_up import ROOT
from tests.support.waiting import eventually
from tickwise.config import Settings
from tickwise.ports.runner import Verdict
from tickwise.wiring.containers.policy import container_finding
from tickwise.wiring.findings import DoctorFinding

GUEST = "guest"
"""The token and the user of somebody who may do nothing."""
PATHS = {
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
}


class Site:
    """A namespace of Kubernetes for the guest."""

    def __init__(self, site: ClusterSite) -> None:
        self.cluster = site
        self.namespace = f"n-{uuid4().hex[:12]}"

    def settings(self, **changes: Any) -> Settings:
        """Those of an executor that is the guest."""
        said = {"container_images": ("localhost/*",), "kubernetes_config": self.cluster.config, **changes}
        return Settings(container_engine="kubernetes://", **said)

    async def finding(self, **changes: Any) -> DoctorFinding:
        """What `doctor` says."""
        return await container_finding(self.settings(**changes))

    async def apply(self) -> None:
        """The manifests of the how-to, for the guest."""
        text = (ROOT / "docs/how-to/kubernetes-containers.md").read_text()
        manifests = re.findall(r"```yaml\n(apiVersion.*?)```", text, re.DOTALL)[0]
        for manifest in yaml.safe_load_all(manifests):
            if manifest["kind"] == "RoleBinding":
                subject = {"kind": "User", "name": GUEST, "apiGroup": "rbac.authorization.k8s.io"}
                manifest["subjects"] = [subject]
            await self.cluster.node.ask("POST", PATHS[manifest["kind"]].format(self.namespace), manifest)


@pytest_asyncio.fixture
async def site(tmp_path: Path, kubernetes_port: int) -> AsyncIterator[Site]:
    async with Kubelet(kubernetes_port) as node:
        cluster = ClusterSite(tmp_path, node, kubernetes_port)
        cluster.write()
        made = Site(cluster)
        cluster.config.write_text(kubeconfig(kubernetes_port, made.namespace, GUEST))
        await node.ask("POST", "/api/v1/namespaces", {"metadata": {"name": made.namespace}})
        yield made
        await cluster.close()


async def test_it_names_each_permission_that_lacks(site: Site) -> None:
    """By what the API server says of these credentials, not by a guess."""
    found = await site.finding()
    assert "error" == found.level, found
    for lack in ("create jobs", "watch pods", "get pods/log", "create secrets", "list events", "get networkpolicies"):
        assert f"{lack} in {site.namespace}" in found.detail


async def test_the_role_of_the_how_to_is_enough_and_no_more(site: Site) -> None:
    """A run from begin to end with it, and a cancelled one; it may not read Secrets, nor run commands in pods."""
    await site.apply()
    await eventually(lambda: _is_ok(site), within_seconds=90, what="doctor finds nothing to say")
    found = await site.finding()
    assert f"pods in {site.namespace}; images: localhost/*" in found.detail
    assert re.search(r"Kubernetes v1\.\d+", found.detail)
    stage = await site.cluster.stage()
    task = busy(command='echo "$A"; echo 3 >"$TICKWISE_RESULT_FILE"', env={"A": "secret:a"})
    ending, log = await site.cluster.run(stage, task, secrets={"secret:a": b"hidden-value"})
    assert (Verdict.OK, "3") == (ending.verdict, ending.result), (ending, log)
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    stage.runner.stop(given.run_id, grace_seconds=0.1)
    assert Verdict.CANCELLED is await stage.verdict_of(given)
    for resource, part, verb in (("secrets", "", "get"), ("secrets", "", "list"), ("pods", "exec", "create")):
        asked = {"namespace": site.namespace, "verb": verb, "resource": resource, "subresource": part}
        review = {"spec": {"user": GUEST, "resourceAttributes": asked}}
        answer = await site.cluster.node.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert answer["status"]["allowed"] is False, asked


async def _is_ok(site: Site) -> bool:
    return (await site.finding()).level == "ok"


async def test_it_warns_of_full_quotas_and_of_open_networks(site: Site) -> None:
    """Before a run waits for them."""
    await site.apply()
    node, name = site.cluster.node, site.namespace
    await node.ask("DELETE", f"{PATHS['NetworkPolicy'].format(name)}/tickwise-no-network")

    async def is_open() -> bool:
        found = await site.finding()
        return found.level == "warning" and "tickwise-no-network" in found.detail

    await eventually(is_open, within_seconds=90, what="the missing policy is named")
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    await node.ask("POST", f"/api/v1/namespaces/{name}/resourcequotas", quota)

    async def is_full() -> bool:
        return "pods of the quota small" in (await site.finding()).detail

    await eventually(is_full, within_seconds=90, what="the full quota is named")


async def test_it_says_what_is_wrong_with_the_settings(site: Site, tmp_path: Path) -> None:
    """A rule, a template, a kubeconfig that is none, a cluster that does not answer."""
    assert "acme=batch" in (await site.finding(kubernetes_namespaces=("acme",))).detail
    template = tmp_path / "wrong.yaml"
    template.write_text("kind: Pod")
    assert "wrong.yaml" in (await site.finding(kubernetes_pod_template=template)).detail
    assert "error" == (await site.finding(kubernetes_config=tmp_path / "none")).level
    away = tmp_path / "away"
    away.write_text(kubeconfig(1))
    assert "does not answer" in (await site.finding(kubernetes_config=away)).detail
