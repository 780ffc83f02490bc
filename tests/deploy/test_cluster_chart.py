"""The chart on a real API server with the controllers of Kubernetes: installed, upgraded, used, gone.

No program of Tickwise runs in it: the pods of the roles wait for a node for ever, and a test says in place of a kubelet
that the migrations have ended. Kinds of others (KEDA, gateways, Prometheus) are judged by `make deploy-check`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from tests.deploy.checks import SERVICES, rendered
from tests.deploy.cluster import Cluster
from tests.deploy.files import CHART
from tests.deploy.tools import BUILD_SECONDS, from_go, said
from tests.services.kubelet import Kubelet
from tests.services.kubernetes import CONTROLLERS, Kubernetes, kubeconfig
from tests.services.kubernetes_programs import folder
from tests.support.alarm import more_time
from tests.support.clusters import ClusterSite, busy
from tests.support.waiting import eventually
from tickwise.config import Settings
from tickwise.ports.runner import Verdict
from tickwise.wiring.containers.cluster import cluster_finding

HOME: Final = "tickwise"
"""The namespace of the release, and its name."""
TENANT: Final = "batch"
ELSEWHERE: Final = "kube-system"
KEPT: Final = ("PersistentVolumeClaim", HOME, "tickwise-blobs")
"""What an uninstall leaves, as the chart says: scripts of jobs that are still planned."""
PASSING: Final = frozenset({"events", "leases", "endpoints", "componentstatuses"})
"""Kinds that come and go by themselves, and two that are an older way to look at others."""
NOWHERE: Final = {"tickwise.tests/nowhere": "yes"}
BEFORE: Final[Mapping[str, Any]] = {
    "secrets": {"database_url": "postgresql://tickwise:p@db/tickwise", "bootstrap_key": "k" * 40},
    "secretsOf": {name: {"database_url": f"postgresql://tickwise_{name}:p@db/tickwise"} for name in SERVICES},
    "api": {"nodeSelector": NOWHERE}, "scheduler": {"nodeSelector": NOWHERE},
    "executors": {"default": {"nodeSelector": NOWHERE}},
    "networkPolicy": {"data": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
}  # fmt: skip
"""The values of a release that asks the cluster for nothing."""
PODS: Final[Mapping[str, Any]] = {
    **BEFORE,
    "settings": {"container_images": ["localhost/*"]},
    "api": {"nodeSelector": NOWHERE, "autoscaling": {"enabled": True}},
    "executors": {
        "default": {
            "nodeSelector": NOWHERE,
            "pods": {
                "enabled": True, "namespaces": {"*": TENANT, "acme": f"{TENANT}/runner"},
                "template": {"metadata": {"annotations": {"cost-centre": "etl"}}},
            },
        },
    },
}  # fmt: skip
"""The same release, whose tasks run in pods from then on."""
MAY: Final = {
    *((verb, "batch", "jobs") for verb in ("create", "get", "list", "patch", "delete")),
    *((verb, "", "pods") for verb in ("get", "list", "watch", "patch", "delete")),
    ("get", "", "pods/log"), ("create", "", "secrets"), ("patch", "", "secrets"), ("list", "", "events"),
    ("list", "", "resourcequotas"), ("get", "networking.k8s.io", "networkpolicies"),
}  # fmt: skip


class Release:
    """Helm and kubectl for one release."""

    def __init__(self, server: Kubernetes, scratch: Path) -> None:
        self.server = server
        self.scratch = scratch
        self.kubectl = Cluster(str(folder() / "kubectl"), server.config)
        self.kubectl.unknown = frozenset()
        self.helm = from_go("helm")

    def command(self, *words: str, values: Mapping[str, Any] | None = None, chart: Path = CHART) -> str:
        """What helm says. Raises AssertionError with that if it fails."""
        here = [self.helm, *words, HOME, *([str(chart)] if values is not None else [])]
        options = [f"--kubeconfig={self.server.config}", f"--namespace={HOME}", "--timeout=90s"]
        return said([*here, *options, *(["--values=-"] if values is not None else [])],
                    given=None if values is None else yaml.safe_dump(dict(values)))  # fmt: skip

    def objects(self) -> set[tuple[str, str, str]]:
        """Everything of the whole cluster: its kind, namespace and name."""
        kinds = self.kubectl("api-resources", "--verbs=list", "--output=name").split()
        wanted = ",".join(kind for kind in kinds if kind.partition(".")[0] not in PASSING)
        answer = self.kubectl("get", wanted, "--all-namespaces", "--output=json", "--ignore-not-found")
        items = json.loads(answer)["items"] if answer.strip() else []
        return {
            (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in items
        }  # fmt: skip

    def found(self, kind: str, *, namespace: str = HOME) -> list[dict[str, Any]]:
        """The objects of a kind in a namespace."""
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, f"--namespace={namespace}", "-o", "json"))[
            "items"
        ]
        return items

    def names(self, kind: str, namespace: str) -> list[str]:
        """The names of the objects of a kind."""
        return [each["metadata"]["name"] for each in self.found(kind, namespace=namespace)]

    def rights(self, account: str, namespace: str) -> set[tuple[str, str, str]]:
        """Verb, group and resource of all that the API server lets a service account do in a namespace."""
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
                  "spec": {"namespace": namespace}}  # fmt: skip
        groups = [f"--as-group=system:serviceaccounts{end}" for end in ("", f":{HOME}")]
        words = ("create", "--validate=false", "--output=json", f"--as=system:serviceaccount:{HOME}:{account}", *groups,
                 "--as-group=system:authenticated", "--filename=-")  # fmt: skip
        status = json.loads(self.kubectl(*words, given=json.dumps(review)))["status"]
        assert not status["incomplete"], status
        return {
            (verb, group, resource)
            for rule in status["resourceRules"]
            for verb in rule["verbs"] for group in rule["apiGroups"] for resource in rule["resources"]
        }  # fmt: skip

    async def migrate(self) -> None:
        """Say of each pod of the migrations that it has ended well, as a kubelet would."""
        select = "--selector=app.kubernetes.io/component=migrations"
        ended = json.dumps({"status": {"phase": "Succeeded"}})
        while True:
            names = await asyncio.to_thread(
                self.kubectl, "get", "pods", f"--namespace={HOME}", select,
                "--field-selector=status.phase=Pending", "--output=name",
            )  # fmt: skip
            for name in names.split():
                words = ("patch", name, f"--namespace={HOME}", "--subresource=status", "--type=merge", "--patch", ended)
                await asyncio.to_thread(self.kubectl, *words)
            await asyncio.sleep(0.3)  # noqa: TID251  # a kubelet looks again, too

    async def change(self, *words: str, values: Mapping[str, Any] | None = None, chart: Path = CHART) -> str:
        """The same as `command`, with somebody who carries out the migrations."""
        migrating = asyncio.get_running_loop().create_task(self.migrate())
        try:
            return await asyncio.to_thread(self.command, *words, values=values, chart=chart)
        finally:
            migrating.cancel()
            await asyncio.gather(migrating, return_exceptions=True)

    async def everywhere(self, namespaces: Mapping[str, str]) -> None:
        """Make namespaces with a level of Pod Security."""
        for name, level in namespaces.items():
            labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            await asyncio.to_thread(self.kubectl, "apply", "--filename=-", given=json.dumps(made))


@pytest_asyncio.fixture
async def release(tmp_path: Path) -> AsyncIterator[Release]:
    with more_time(BUILD_SECONDS):
        await asyncio.to_thread(from_go, "helm")
    controllers = f"{CONTROLLERS},deployment-controller,replicaset-controller,disruption-controller"
    async with Kubernetes(controllers=controllers) as server:
        made = Release(server, tmp_path)
        # Both levels are the strictest: the roles of Tickwise and the pods of tasks run under it.
        await made.everywhere({HOME: "restricted", TENANT: "restricted"})
        yield made


async def test_a_release_is_installed_upgraded_and_gone_without_a_trace(release: Release) -> None:
    """Install with the values of before, upgrade to pods, back again, uninstall: only the volume of scripts is left.
    The controllers make the pods of every role under the restricted profile, and budgets count them."""
    before = await asyncio.to_thread(release.objects)
    await release.change("install", values=BEFORE)
    await _has_pods(release, {"api": 2, "scheduler": 2, "executor-default": 2})
    assert [] == release.names("roles", TENANT)
    assert {False} == {pod["spec"]["automountServiceAccountToken"] for pod in release.found("pods")}

    await release.change("upgrade", values=PODS)
    assert ["tickwise-executor-default"] == release.names("roles", TENANT)
    assert ["tickwise-no-network"] == release.names("networkpolicies", TENANT)
    assert ["tickwise-api"] == release.names("hpa", HOME)
    await eventually(lambda: _mounts(release), within_seconds=60, what="the new executors have a token of the cluster")

    await release.change("rollback")
    assert [] == release.names("roles", TENANT)
    await asyncio.to_thread(release.command, "uninstall")

    def left() -> set[tuple[str, str, str]]:
        return release.objects() - before

    await eventually(lambda: left() == {KEPT}, within_seconds=60, what="all but the volume is gone")


async def _has_pods(release: Release, wanted: Mapping[str, int]) -> None:
    """The pods were admitted, and the budget of each role counts them."""

    def budgets() -> dict[str, int]:
        found = release.found("pdb")
        return {
            each["metadata"]["labels"]["app.kubernetes.io/component"]: each.get("status", {}).get("expectedPods", 0)
            for each in found
        }  # fmt: skip

    await eventually(lambda: budgets() == wanted, within_seconds=60, what="budgets count pods")


def _mounts(release: Release) -> bool:
    pods = [each["spec"] for each in release.found("pods") if each["spec"]["automountServiceAccountToken"]]
    return {"tickwise-executor-default"} == {each["serviceAccountName"] for each in pods}


async def test_the_role_of_a_pool_is_enough_and_no_more(release: Release, tmp_path: Path) -> None:
    """With the token of its service account alone an executor runs a task of a job without network under the restricted
    profile, and stops one. The API server lets the account do these things in this namespace, and nothing elsewhere."""
    await release.change("install", values=PODS)
    account = "tickwise-executor-default"
    everybody = await asyncio.to_thread(release.rights, "nobody", TENANT)
    assert MAY == await asyncio.to_thread(release.rights, account, TENANT) - everybody
    for namespace in (HOME, ELSEWHERE, "default"):
        assert set() == await asyncio.to_thread(release.rights, account, namespace) - everybody, namespace
    assert set() == await asyncio.to_thread(release.rights, HOME, TENANT) - everybody, "the account of the other roles"

    token = (await asyncio.to_thread(release.kubectl, "create", "token", account, f"--namespace={HOME}")).strip()
    [deployment] = [each for each in release.found("deployments") if each["metadata"]["name"] == account]
    told = {each["name"]: each.get("value") for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    places = tuple(told["TICKWISE_KUBERNETES_NAMESPACES"].split(","))
    async with Kubelet(release.server.port) as node:
        site = ClusterSite(tmp_path, node, release.server.port)
        site.write()
        site.config.write_text(kubeconfig(release.server.port, HOME, token))
        settings = Settings(
            container_engine=told["TICKWISE_CONTAINER_ENGINE"], container_images=("localhost/*",),
            kubernetes_config=site.config, kubernetes_namespaces=places,
        )  # fmt: skip
        found = await cluster_finding(settings)
        assert "ok" == found.level, found
        stage = await site.stage(places=places)
        task = busy(command='echo "$A"; echo 3 >"$TICKWISE_RESULT_FILE"', env={"A": "secret:a"})
        ending, log = await site.run(stage, task, secrets={"secret:a": b"hidden-value"})
        assert (Verdict.OK, "3") == (ending.verdict, ending.result), (ending, log)
        [given] = stage.launch(stage.lasting)
        await stage.until_lives(given)
        stage.runner.stop(given.run_id, grace_seconds=0.1)
        assert Verdict.CANCELLED is await stage.verdict_of(given)
        await site.close()


@pytest.mark.parametrize(("level", "takes"), [("privileged", True), ("baseline", False), ("restricted", False)])
async def test_a_pool_with_sandboxes_needs_a_privileged_namespace(release: Release, level: str, takes: bool) -> None:
    """As the values say: the pods of all other roles are taken at each level."""
    await release.everywhere({HOME: level})
    pool = {**BEFORE, "executors": {"default": {"nodeSelector": NOWHERE, "sandbox": {"enabled": True}}}}
    await release.change("install", values=pool)

    def admitted() -> dict[str, int]:
        found = release.found("deployments")
        return {each["metadata"]["name"]: each.get("status", {}).get("replicas", 0) for each in found}

    def refused() -> bool:
        conditions = [
            condition["message"]
            for each in release.found("replicasets") for condition in each.get("status", {}).get("conditions", ())
        ]  # fmt: skip
        return any("violates PodSecurity" in each for each in conditions)

    wanted = {"tickwise-api": 2, "tickwise-scheduler": 2, "tickwise-executor-default": 2 if takes else 0}
    await eventually(lambda: admitted() == wanted and refused() is not takes, within_seconds=60, what=f"{wanted}")


async def test_every_object_is_valid_to_the_letter(release: Release) -> None:
    """No field that the API server does not know, and no warning, with pods and without."""
    for values in (BEFORE, PODS):
        text = await asyncio.to_thread(rendered, release.helm, values)
        for each in yaml.safe_load_all(text):
            if each:
                place = each["metadata"].get("namespace", HOME)
                words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", f"--namespace={place}")
                answer = await asyncio.to_thread(release.kubectl, *words, "--filename=-", given=yaml.safe_dump(each))
                assert "Warning" not in answer, answer


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ({"enabled": True}, "names no namespace"),
        ({"enabled": True, "namespaces": {"*": HOME}}, "the namespace of this release"),
        ({"enabled": True, "namespaces": {"*": "Batch"}}, "namespaces"),
    ],
)  # fmt: skip
def test_places_of_pods_that_would_be_wrong_are_refused(pods: Mapping[str, Any], words: str) -> None:
    """Beside the release a pod could mount the Secrets of Tickwise."""
    values = {**BEFORE, "executors": {"default": {"pods": pods}}}
    helm = from_go("helm")
    with pytest.raises(AssertionError, match=words):
        said([helm, "template", HOME, str(CHART), "--namespace", HOME, "--values=-"], given=yaml.safe_dump(values))


def test_a_release_from_before_pods_keeps_its_values() -> None:
    """`helm upgrade --reuse-values` brings values without what is new: they mean that it is off."""
    values = {**BEFORE, "executors": {"default": {**BEFORE["executors"]["default"], "pods": None}}}
    text = rendered(from_go("helm"), values)
    assert "automountServiceAccountToken: true" not in text
    assert "rbac.authorization.k8s.io" not in text
