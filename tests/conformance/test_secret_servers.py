"""Vault and Kubernetes as providers: sign-ins, leases, policies, and servers that are away, slow or of another mind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.services.server import free_port
from tests.support.kubernetes_secrets import KubernetesDouble
from tests.support.vault import ROOT, VaultDouble
from tickwise.adapters.identity.issuer import IssuerSettings, JwtIssuer
from tickwise.adapters.secrets.files import FileSecrets
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.kubernetes import KubernetesSecrets, KubernetesSettings
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.adapters.secrets.vault import VaultSecrets, VaultSettings
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.domain.accounts.identity_tokens import TokenAlgorithm
from tickwise.domain.errors import Misconfigured
from tickwise.ports.secrets import SecretFault, SecretProvider, WantedSecret
from tickwise.testing.clock import ShiftedClock

ALPHA, BETA = WantedSecret("alpha", "db#password"), WantedSecret("beta", "db#password")
PATHS = ("alpha=secret/alpha", "beta=secret/beta")


@asynccontextmanager
async def served(application: web.Application, **options: Any) -> AsyncIterator[str]:
    """The address of this application."""
    server = TestServer(application, **options)
    await server.start_server()
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


@asynccontextmanager
async def closing(provider: SecretProvider) -> AsyncIterator[SecretProvider]:
    """The provider, closed at the end."""
    try:
        yield provider
    finally:
        await provider.close()


def vault() -> VaultDouble:
    """One with a secret of each of two namespaces."""
    entries: dict[str, Mapping[str, Any]] = {
        f"secret/{name}/db": {"password": f"of {name}"} for name in ("alpha", "beta", "tickwise/gamma")
    }
    return VaultDouble(entries=entries)


async def value(provider: SecretProvider, wanted: WantedSecret) -> bytes | SecretFault:
    return (await provider.values([wanted]))[wanted]


async def test_an_approle_signs_in_once_for_many_and_again_before_its_lease_ends(tmp_path: Path) -> None:
    double, clock = vault(), ShiftedClock()
    (tmp_path / "id").write_text(double.secret_id)
    async with served(double.application()) as url:
        settings = VaultSettings(
            url, PATHS, auth="approle", role=double.role_id, secret_id_file=tmp_path / "id", kept_seconds=0.0
        )
        async with closing(VaultSecrets(settings, clock)) as provider:
            found = await asyncio.gather(*(value(provider, wanted) for wanted in (ALPHA, BETA) * 5))
            assert [b"of alpha", b"of beta"] * 5 == found
            assert 1 == double.made
            clock.shift(double.lease_seconds * 0.9)
            assert b"of alpha" == await value(provider, ALPHA)
            assert 2 == double.made


async def test_a_token_that_was_revoked_is_replaced_at_once(tmp_path: Path) -> None:
    """Once: a policy that refuses is told as such."""
    double = vault()
    (tmp_path / "id").write_text(double.secret_id)
    async with served(double.application()) as url:
        settings = VaultSettings(
            url, PATHS, auth="approle", role=double.role_id, secret_id_file=tmp_path / "id", kept_seconds=0.0
        )
        async with closing(VaultSecrets(settings, ShiftedClock())) as provider:
            assert b"of alpha" == await value(provider, ALPHA)
            double.tokens.clear()
            assert b"of alpha" == await value(provider, ALPHA)
            assert 2 == double.made
            double.secret_id = "another"
            double.tokens.clear()
            fault = await value(provider, ALPHA)
            assert isinstance(fault, SecretFault)
            assert "400" in fault.detail


async def test_with_an_identity_token_each_namespace_has_a_session_and_a_policy_of_its_own() -> None:
    """The other side checks the token by the documents that are published, and a namespace that its policy leaves out
    gets nothing, under any settings."""
    clock, port = ShiftedClock(), free_port()
    store, address = MemoryStore(clock), f"http://127.0.0.1:{port}"
    issuer = JwtIssuer(
        IssuerSettings(address),
        store=store.identity_keys,
        sealer=EnvelopeSealing([LocalKey(bytes(32))], clock),
        clock=clock,
    )
    await issuer.make_ready(TokenAlgorithm.RS256)
    documents = web.Application()

    async def discovery(_request: web.Request) -> web.Response:
        algorithms = [each.value for each in TokenAlgorithm]
        document = {"jwks_uri": f"{address}/keys", "id_token_signing_alg_values_supported": algorithms}
        return web.json_response({"issuer": address, **document})

    async def keys(_request: web.Request) -> web.Response:
        return web.json_response(dict(await issuer.key_set()))

    documents.router.add_get("/.well-known/openid-configuration", discovery)
    documents.router.add_get("/keys", keys)
    double = vault()
    double.issuer, double.policies = address, {"alpha": ("secret/data/alpha/",)}
    async with served(documents, port=port), served(double.application()) as url:
        settings = VaultSettings(url, PATHS, auth="identity", role="tickwise", kept_seconds=0.0)
        async with closing(VaultSecrets(settings, clock, issuer)) as provider:
            found = await provider.values([ALPHA, BETA])
            assert b"of alpha" == found[ALPHA]
            assert isinstance(fault := found[BETA], SecretFault)
            assert "refuses" in fault.detail
        double.audience = "another"
        async with closing(VaultSecrets(settings, clock, issuer)) as provider:
            assert isinstance(fault := await value(provider, ALPHA), SecretFault)
            assert "eyJ" not in fault.detail


async def test_a_path_for_each_namespace_holds_its_name(tmp_path: Path) -> None:
    double = vault()
    (tmp_path / "token").write_text(ROOT)
    async with served(double.application()) as url:
        settings = VaultSettings(url, ("alpha=secret/alpha", "*=secret/tickwise"), token_file=tmp_path / "token")
        async with closing(VaultSecrets(settings, ShiftedClock())) as provider:
            assert b"of tickwise/gamma" == await value(provider, WantedSecret("gamma", "db#password"))
            assert b"of alpha" == await value(provider, ALPHA)
            for namespace in ("../alpha", "..", "gamma/../../alpha", ""):
                assert isinstance(await value(provider, WantedSecret(namespace, "db#password")), SecretFault)
    assert all(".." not in path for _, path in double.requests), double.requests


async def test_a_value_is_kept_for_a_while_and_asked_for_once(tmp_path: Path) -> None:
    """Also by many at once; a fault is asked for again."""
    double, clock = vault(), ShiftedClock()
    (tmp_path / "token").write_text(ROOT)
    async with served(double.application()) as url:
        settings = VaultSettings(url, PATHS, token_file=tmp_path / "token", kept_seconds=15.0)
        async with closing(VaultSecrets(settings, clock)) as provider:
            await asyncio.gather(*(value(provider, ALPHA) for _ in range(20)))
            assert 1 == len(double.requests)
            double.entries["secret/alpha/db"] = {"password": "another"}
            assert b"of alpha" == await value(provider, ALPHA)
            clock.shift(16)
            assert b"another" == await value(provider, ALPHA)
            double.status = 503
            clock.shift(16)
            assert isinstance(await value(provider, ALPHA), SecretFault)
            double.status = None
            assert b"another" == await value(provider, ALPHA)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_in_trouble_may_answer_later(tmp_path: Path, status: int) -> None:
    vault_double, cluster = vault(), KubernetesDouble(status=status)
    vault_double.status = status
    (tmp_path / "token").write_text(ROOT)
    async with served(vault_double.application()) as url, served(cluster.application()) as kube:
        of_vault = VaultSettings(url, PATHS, token_file=tmp_path / "token")
        of_cluster = KubernetesSettings(("alpha=team-alpha",), tmp_path, kube)
        for provider in (VaultSecrets(of_vault, ShiftedClock()), KubernetesSecrets(of_cluster, ShiftedClock())):
            async with closing(provider):
                fault = await value(provider, ALPHA)
                assert isinstance(fault, SecretFault)
                assert fault.is_passing, fault


async def test_a_server_that_is_away_slow_or_endless_holds_nobody_up(tmp_path: Path) -> None:
    """The time limit is that of the settings, and the answer is bounded."""
    (tmp_path / "token").write_text(ROOT)
    endless, slow = web.Application(), web.Application()
    gate = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * (1 << 16))

    async def wait(_request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response()

    endless.router.add_route("*", "/{path:.*}", stream)
    slow.router.add_route("*", "/{path:.*}", wait)
    async with served(endless) as first, served(slow) as second:
        for url, words in (
            (first, "more than"),
            (second, "within 0.3 s"),
            (f"http://127.0.0.1:{free_port()}", "no answer"),
            ("http://nowhere.invalid", "no answer"),
        ):
            settings = VaultSettings(url, PATHS, token_file=tmp_path / "token", seconds=0.3 if url == second else 60.0)
            async with closing(VaultSecrets(settings, ShiftedClock())) as provider:
                fault = await value(provider, ALPHA)
                assert isinstance(fault, SecretFault)
                assert fault.is_passing
                assert words in fault.detail or url.endswith("invalid"), fault
        gate.set()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"data": 1}', b'{"data": {"data": []}}', b"[" * 100_000, b"null"])
async def test_an_answer_of_another_shape_is_a_fault(tmp_path: Path, body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    (tmp_path / "token").write_text(ROOT)
    async with served(app) as url:
        of_vault = VaultSettings(url, PATHS, token_file=tmp_path / "token")
        of_cluster = KubernetesSettings(("alpha=team-alpha",), tmp_path, url)
        for provider in (VaultSecrets(of_vault, ShiftedClock()), KubernetesSecrets(of_cluster, ShiftedClock())):
            async with closing(provider):
                assert isinstance(await value(provider, ALPHA), SecretFault)


async def test_the_token_of_a_service_account_is_read_for_each_question(tmp_path: Path) -> None:
    """Kubernetes replaces it; a refusal says what right is missing."""
    double = KubernetesDouble(secrets={("team-alpha", "db"): {"password": b"of alpha"}})
    (tmp_path / "token").write_text("token-of-before")
    async with served(double.application()) as url:
        settings = KubernetesSettings(("alpha=team-alpha", "beta=closed"), tmp_path, url, kept_seconds=0.0)
        async with closing(KubernetesSecrets(settings, ShiftedClock())) as provider:
            assert isinstance(fault := await value(provider, ALPHA), SecretFault)
            assert "service account" in fault.detail
            (tmp_path / "token").write_text(f"{double.token}\n")
            assert b"of alpha" == await value(provider, ALPHA)
            assert isinstance(fault := await value(provider, BETA), SecretFault)
            assert "'closed'" in fault.detail


@pytest.mark.parametrize(
    ("namespace", "target"),
    [("alpha", "../beta/token"), ("alpha", "/etc/hostname"), ("alpha", "loop"), ("alpha", "pipe"), ("alpha", "folder")],
)
async def test_a_link_that_leads_out_of_the_folder_of_its_namespace_is_refused(
    tmp_path: Path, namespace: str, target: str
) -> None:
    """Nor is anything read that is no file, or a link in a circle."""
    for name in ("alpha", "beta"):
        (tmp_path / name / "folder").mkdir(parents=True)
    (tmp_path / "beta" / "token").write_text("of beta")
    (tmp_path / "alpha" / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "alpha" / "pipe")
    (tmp_path / "alpha" / "token").symlink_to(target)
    fault = await value(FileSecrets(tmp_path), WantedSecret(namespace, "token"))
    assert isinstance(fault, SecretFault)
    assert not fault.is_passing


async def test_a_namespace_whose_folder_is_a_link_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "beta").mkdir()
    (tmp_path / "beta" / "token").write_text("of beta")
    (tmp_path / "alpha").symlink_to("beta")
    assert isinstance(await value(FileSecrets(tmp_path), WantedSecret("alpha", "token")), SecretFault)


@pytest.mark.parametrize(
    "paths",
    [
        ("alpha=secret/a", "beta=secret/a"),
        ("alpha=secret/a", "beta=secret/a/b"),
        ("*=secret", "beta=secret/b"),
        ("alpha=secret", "beta=other/b"),
        ("alpha",),
        ("alpha=",),
        ("=secret/a",),
        ("alpha=secret/../b",),
        ("alpha=secret/a#b",),
        ("alpha=secret/a", "alpha=secret/b"),
    ],
)
def test_paths_that_lie_within_each_other_are_no_setting(tmp_path: Path, paths: tuple[str, ...]) -> None:
    """One namespace would read the secrets of another one."""
    with pytest.raises(Misconfigured):
        VaultSecrets(VaultSettings("http://vault:8200", paths, token_file=tmp_path), ShiftedClock())
    VaultSecrets(
        VaultSettings("http://vault:8200", ("alpha=secret/a", "beta=secret/ab"), token_file=tmp_path), ShiftedClock()
    )


@pytest.mark.parametrize(
    "entries",
    [["alpha=A_", "beta=A_B_"], ["alpha=TICKWISE_"], ["alpha=T"], ["*=A_"], ["alpha=A-B"], ["alpha"], ["alpha=A_"] * 2],
)
def test_prefixes_that_begin_with_each_other_are_no_setting(entries: list[str]) -> None:
    """Nor is one that reads the settings of Tickwise."""
    from tickwise.adapters.secrets.environment import EnvironmentSecrets

    with pytest.raises(Misconfigured):
        EnvironmentSecrets(entries)


@pytest.mark.parametrize("auth", ["token", "approle", "identity"])
def test_a_sign_in_without_its_settings_is_told_at_the_start(auth: str) -> None:
    with pytest.raises(Misconfigured, match=auth):
        VaultSecrets(VaultSettings("http://vault:8200", PATHS, auth=auth), ShiftedClock())
