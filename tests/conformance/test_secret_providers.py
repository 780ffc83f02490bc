"""Every provider of secrets keeps the contract."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer

from tests.support.kubernetes_secrets import KubernetesDouble
from tests.support.vault import ROOT, VaultDouble
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.secrets.environment import EnvironmentSecrets
from tickwise.adapters.secrets.files import FileSecrets
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.kubernetes import KubernetesSecrets, KubernetesSettings
from tickwise.adapters.secrets.own import OwnSecrets
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.adapters.secrets.vault import VaultSecrets, VaultSettings
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.secrets import SecretProvider
from tickwise.ports.store.secrets import NewSecret, SecretPlace, secret_context
from tickwise.testing.contracts.secrets import SecretProviderContract


class TestOwn(SecretProviderContract):
    """Our own store, with a key."""

    async def make(self) -> SecretProvider:
        clock = SystemClock()
        self.store, self.sealer = MemoryStore(clock), EnvelopeSealing([LocalKey(bytes(32))], clock)
        for namespace in ("alpha", "beta"):
            await self.store.namespaces.add(NewNamespace(name=namespace, display_name="", created_by="ada"))
        self.versions: dict[SecretPlace, int] = {}
        return OwnSecrets(self.store.secrets, self.sealer)

    async def put(self, namespace: str, name: str, value: bytes) -> str:
        place = SecretPlace(namespace, name)
        version = self.versions[place] = self.versions.get(place, 0) + 1
        sealed = await self.sealer.seal_parts(value, secret_context(place, version))
        await self.store.secrets.put(
            NewSecret(namespace=namespace, name=name, version=version, sealed=sealed, by="ada")
        )
        return name


class TestFiles(SecretProviderContract):
    """A folder, as Docker mounts it."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.root = tmp_path / "secrets"

    async def make(self) -> SecretProvider:
        for namespace in ("alpha", "beta"):
            (self.root / namespace).mkdir(parents=True)
        return FileSecrets(self.root)

    async def put(self, namespace: str, name: str, value: bytes) -> str:
        (self.root / namespace / name).write_bytes(value)
        return name


class TestFilesOfKubernetes(TestFiles):
    """A folder whose files are links to links, as Kubernetes mounts a secret."""

    async def put(self, namespace: str, name: str, value: bytes) -> str:
        folder = self.root / namespace
        there = folder / "..2026_11_27_02_00_00.1234567"
        there.mkdir(exist_ok=True)
        (there / name).write_bytes(value)
        if not (folder / "..data").is_symlink():
            (folder / "..data").symlink_to(there.name)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
        return name


class TestEnvironment(SecretProviderContract):
    """The environment of the executor. No variable holds a zero byte."""

    keeps_bytes = False

    @pytest.fixture(autouse=True)
    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patched = monkeypatch

    async def make(self) -> SecretProvider:
        return EnvironmentSecrets(["alpha=TEAM_ALPHA_", "beta=TEAM_BETA_"])

    async def put(self, namespace: str, name: str, value: bytes) -> str:
        self.patched.setitem(os.environb, f"TEAM_{namespace.upper()}_{name}".encode(), value)
        return name


class TestVault(SecretProviderContract):
    """A double of Vault, with a token."""

    keeps_bytes = False

    @pytest_asyncio.fixture(autouse=True)
    async def server(self, tmp_path: Path) -> AsyncIterator[None]:
        self.double = VaultDouble()
        server = TestServer(self.double.application())
        await server.start_server()
        self.url = str(server.make_url("")).rstrip("/")
        self.token_file = tmp_path / "token"
        self.token_file.write_text(f"{ROOT}\n")
        yield
        await server.close()

    async def make(self) -> SecretProvider:
        paths = ("alpha=secret/alpha", "beta=secret/beta")
        return VaultSecrets(VaultSettings(self.url, paths, token_file=self.token_file, kept_seconds=0.0), SystemClock())

    async def put(self, namespace: str, name: str, value: bytes) -> str:
        self.double.entries[f"secret/{namespace}/app/{name}"] = {"value": value.decode(), "other": "x"}
        return f"app/{name}#value"


class TestKubernetes(SecretProviderContract):
    """A double of the API of a cluster."""

    @pytest_asyncio.fixture(autouse=True)
    async def server(self, tmp_path: Path) -> AsyncIterator[None]:
        self.double = KubernetesDouble()
        server = TestServer(self.double.application())
        await server.start_server()
        self.url = str(server.make_url("")).rstrip("/")
        self.account = tmp_path
        (self.account / "token").write_text(self.double.token)
        yield
        await server.close()

    async def make(self) -> SecretProvider:
        namespaces = ("alpha=team-alpha", "beta=team-beta")
        return KubernetesSecrets(
            KubernetesSettings(namespaces, self.account, self.url, kept_seconds=0.0), SystemClock()
        )

    async def put(self, namespace: str, name: str, value: bytes) -> str:
        self.double.secrets[f"team-{namespace}", name] = {"key": value, "other": b"x"}
        return f"{name}#key"
