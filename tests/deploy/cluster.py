"""A Kubernetes API server for a dry run of the chart: with etcd alone, it judges what it is sent and starts nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.tools import found, needed, said
from tests.services.server import free_port
from tests.support.waiting import eventually

OF_OTHERS: Final = {
    "ScaledObject": ("github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases/keda.sh_scaledobjects.yaml"),
    "HTTPRoute": (
        "sigs.k8s.io/gateway-api@v1.4.1",
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    ),
    **{
        kind: (
            "github.com/prometheus-operator/prometheus-operator@v0.85.0",
            f"example/prometheus-operator-crd/monitoring.coreos.com_{kind.lower()}s.yaml",
        )
        for kind in ("PodMonitor", "PrometheusRule")
    },
}
"""Kinds that a cluster knows once somebody has brought them (KEDA, a gateway, Prometheus' operator): the module of
Go that has the definition of each, and where in it."""
RESTRICTED: Final = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


class Cluster:
    """The command line of one API server."""

    def __init__(self, kubectl: str, configuration: Path) -> None:
        self._command: Sequence[str] = (kubectl, f"--kubeconfig={configuration}")
        self.unknown: frozenset[str] = frozenset(OF_OTHERS)
        """Kinds of others that it does not know."""

    def __call__(self, *words: str, given: str | None = None) -> str:
        return said([*self._command, *words], given=given)

    def judge(self, rendered: str, namespace: str) -> tuple[int, set[str]]:
        """How many objects the server finds good, and the kinds that it does not know. Raises AssertionError with what
        it says of a bad one, warnings included."""
        documents = [each for each in yaml.safe_load_all(rendered) if each]
        known = [each for each in documents if each["kind"] not in self.unknown]
        for each in known:
            words = ("apply", "--server-side", "--dry-run=server", "--namespace", namespace, "--filename", "-")
            answer = self(*words, given=yaml.safe_dump(each))
            assert "Warning" not in answer, answer
            self._judge_pod(each, namespace)
        return len(known), {each["kind"] for each in documents} - {each["kind"] for each in known}

    def learn(self, definitions: Mapping[str, Path]) -> None:
        """Kinds of others, each by the file of its definition."""
        for file in definitions.values():
            self("apply", "--server-side", "--filename", str(file))
        for file in definitions.values():
            self("wait", "--for=condition=Established", "--timeout=60s", "--filename", str(file))
        self.unknown -= definitions.keys()

    def _judge_pod(self, document: dict[str, Any], namespace: str) -> None:
        """A pod of the template: only pods are refused by the restricted profile, their owners are warned of it."""
        template = document.get("spec", {}).get("template")
        if template is None:
            return
        name = document["metadata"]["name"]
        # The account is not there in a dry run, and says nothing about the pod.
        spec = {key: value for key, value in template["spec"].items() if key != "serviceAccountName"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        words = ("create", "--dry-run=server", "--namespace", namespace, "--filename", "-")
        self(*words, given=yaml.safe_dump(pod))


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """One that answers, with a namespace `restricted`. Raises `NotHere`."""
    given = os.environ.get("TICKWISE_TEST_KUBECONFIG")
    kubectl = needed("kubectl", "Kubernetes")
    if given:
        yield await _prepared(Cluster(kubectl, Path(given)))
        return
    server = needed("kube-apiserver", "Kubernetes; or name a cluster in TICKWISE_TEST_KUBECONFIG")
    etcd = needed("etcd", "etcd")
    with tempfile.TemporaryDirectory(prefix="tickwise-kubernetes-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        client, peer, port = free_port(), free_port(), free_port()
        stack.enter_context(_running(folder / "etcd.log", _etcd(etcd, folder, client, peer)))
        await eventually(partial(_answers, f"http://127.0.0.1:{client}/health"), within_seconds=60, what="etcd answers")
        stack.enter_context(_running(folder / "apiserver.log", _apiserver(server, folder, client, port)))
        configuration = folder / "kubeconfig"
        configuration.write_text(yaml.safe_dump(_kubeconfig(port)))
        here = Cluster(kubectl, configuration)
        await eventually(partial(_ready, here), within_seconds=120, what="the API server answers")
        # Only to a server of our own: a cluster of others has what they gave it.
        here.learn(definitions())
        yield await _prepared(here)


async def _prepared(here: Cluster) -> Cluster:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted", "labels": RESTRICTED}}
    here("apply", "--filename", "-", given=yaml.safe_dump(namespace))
    return here


def definitions() -> dict[str, Path]:
    """Where the kinds of others are defined; without Go, none."""
    go = found("go")
    if go is None:
        return {}
    return {kind: _module(go, module) / place for kind, (module, place) in OF_OTHERS.items()}


@cache
def _module(go: str, module: str) -> Path:
    told = {**os.environ, "GOFLAGS": "-mod=mod"}
    # Where no module is, so that none of ours is asked.
    answer = said([go, "mod", "download", "-json", module], environment=told, folder=Path("/"), seconds=300)
    return Path(json.loads(answer[answer.index("{") :])["Dir"])


@contextlib.contextmanager
def _running(log: Path, command: Sequence[str]) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=log.parent)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _etcd(program: str, folder: Path, client: int, peer: int) -> list[str]:
    clients, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        program, "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync",
        "--listen-client-urls", clients, "--advertise-client-urls", clients,
        "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
    ]  # fmt: skip


def _apiserver(program: str, folder: Path, client: int, port: int) -> list[str]:
    key, public = folder / "sa.key", folder / "sa.pub"
    openssl = needed("openssl", "OpenSSL")
    said([openssl, "genrsa", "-out", key, "2048"])
    said([openssl, "rsa", "-in", key, "-pubout", "-out", public])
    (folder / "tokens.csv").write_text('check,admin,admin,"system:masters"\n')
    return [
        program, f"--etcd-servers=http://127.0.0.1:{client}", "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder / 'certificates'}",
        f"--service-account-key-file={public}", f"--service-account-signing-key-file={key}",
        "--service-account-issuer=check", "--api-audiences=check", f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ]  # fmt: skip


def _kubeconfig(port: int) -> dict[str, Any]:
    server = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "check", "cluster": server}],
        "users": [{"name": "check", "user": {"token": "check"}}],
        "contexts": [{"name": "check", "context": {"cluster": "check", "user": "check"}}],
        "current-context": "check",
    }


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _ready(here: Cluster) -> bool:
    with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
        return here("get", "--raw", "/readyz").strip() == "ok"
    return False
