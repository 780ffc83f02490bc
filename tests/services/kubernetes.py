"""A Kubernetes control plane: etcd, the API server, the controllers of Jobs, the scheduler. No node: see `kubelet`.

Invariant: the API server may be killed and started as often as one likes; what it stores is etcd's, which stays. It
asks nothing of the machine but its programs (`kubernetes_programs`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.services.kubernetes_programs import build, folder
from tests.services.packages import program
from tests.services.server import Server, free_port

TOKEN: Final = "admin-of-tests"
CONTROLLERS: Final = (
    "job-controller,garbage-collector-controller,ttl-after-finished-controller,namespace-controller,"
    "pod-garbage-collector-controller,resourcequota-controller"
)
_KUBECONFIG: Final = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u, namespace: {namespace}}}}}]
current-context: x
"""


def kubeconfig(port: int, namespace: str = "default", token: str = TOKEN) -> str:
    """The text of one, for the API server at a port."""
    return _KUBECONFIG.format(port=port, namespace=namespace, token=token)


def is_healthy(port: int, path: str, token: str = TOKEN) -> bool:
    """Whether an HTTPS server of this machine says that it is well. Raises OSError."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    asked = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=5, context=context) as answer:
        return bool(answer.status == 200)


class Etcd(Server):
    """The store of a cluster."""

    name = "etcd"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def prepare(self) -> Sequence[str]:
        peer = f"http://127.0.0.1:{free_port()}"
        return [
            str(folder() / "etcd"), "--data-dir", str(self.folder / "data"), "--unsafe-no-fsync",
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        ]  # fmt: skip

    def answers(self) -> bool:
        with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
            return bool(answer.status == 200)


class Controller(Server):
    """One of the programs that work on what the API server stores: `kube-scheduler`, `kube-controller-manager`."""

    def __init__(self, name: str, config: Path, options: Sequence[str]) -> None:
        self.name = name
        super().__init__()
        self._config = config
        self._options = options

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    async def prepare(self) -> Sequence[str]:
        return [
            str(folder() / self.name), f"--kubeconfig={self._config}", "--bind-address=127.0.0.1",
            f"--secure-port={self.port}", "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000",
            f"--cert-dir={self.folder}/certs", *self._options,
        ]  # fmt: skip

    def answers(self) -> bool:
        return is_healthy(self.port, "/healthz")


class Kubernetes(Server):
    """The control plane; its own process is the API server's."""

    name = "kubernetes"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int | None = None,
        seconds_of_history: int = 300,
        controllers: str = CONTROLLERS,
    ) -> None:
        """`seconds_of_history`: how often etcd forgets old versions, so that a watch from one is answered 410."""
        super().__init__(folder, port=port)
        self.token = TOKEN
        self._controllers = controllers
        self._history = seconds_of_history
        self._etcd = Etcd()
        self._others: list[Controller] = []

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    @property
    def config(self) -> Path:
        """A kubeconfig of its administrator."""
        return self.folder / "kubeconfig"

    async def prepare(self) -> Sequence[str]:
        home = await asyncio.to_thread(build)
        if not self._etcd.runs:
            await self._etcd.start()
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        if not key.exists():
            openssl = await asyncio.to_thread(program, "openssl")
            for command in (
                ["genrsa", "-out", str(key), "2048"],
                ["rsa", "-in", str(key), "-pubout", "-out", str(public)],
            ):
                subprocess.run([openssl, *command], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\nguest,guest,guest\n')
        self.config.write_text(kubeconfig(self.port, token=self.token))
        return [
            str(home / "kube-apiserver"), f"--etcd-servers={self._etcd.url}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self.port}", f"--cert-dir={self.folder}/certs",
            f"--service-account-key-file={public}", f"--service-account-signing-key-file={key}",
            "--service-account-issuer=tests", "--api-audiences=tests", f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
            # No controller makes service accounts here, and none looks after the taints of nodes.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--etcd-compaction-interval={self._history}s", "--shutdown-delay-duration=0s",
        ]  # fmt: skip

    def answers(self) -> bool:
        return is_healthy(self.port, "/readyz", self.token)

    async def start(self) -> Kubernetes:
        await super().start()
        if not self._others:
            config = self.config
            options = [f"--service-account-private-key-file={self.folder}/sa.key", f"--controllers={self._controllers}"]
            self._others = [
                Controller("kube-controller-manager", config, options),
                Controller("kube-scheduler", config, []),
            ]
            await asyncio.gather(*(each.start() for each in self._others))
        return self

    async def remove(self) -> None:
        for each in (*self._others, self._etcd):
            with contextlib.suppress(OSError):
                await each.remove()
        await super().remove()
