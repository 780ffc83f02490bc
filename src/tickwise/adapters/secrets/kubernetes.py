"""Secrets of the Kubernetes cluster that the executor runs in, asked for with the service account of its pod.

    secrets_kubernetes = billing=team-billing
    `secret:kubernetes:db#password` of billing ──► GET /api/v1/namespaces/team-billing/secrets/db ──► data.password

The account needs the right to `get` secrets in those namespaces, and nothing more. Its token is read for each question,
because Kubernetes replaces it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickwise.adapters.secrets.asking import BUSY, Away, KeptAnswers, SecretServer
from tickwise.adapters.secrets.bindings import EACH, check_apart, read_bindings
from tickwise.adapters.secrets.paths import SecretPath, read_path
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.secrets import SecretFault, WantedSecret

SETTING: Final = "secrets_kubernetes"
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


class KubernetesSettings(NamedTuple):
    """The settings of this provider."""

    namespaces: tuple[str, ...]
    account: Path
    """The folder with `token` and `ca.crt`."""
    url: str | None = None
    """None: as each pod is told."""
    seconds: float = 5.0
    kept_seconds: float = 15.0


class KubernetesSecrets:
    """`SecretProvider` of the port."""

    name = "kubernetes"

    def __init__(self, settings: KubernetesSettings, clock: Clock) -> None:
        """Raises `Misconfigured`."""
        self._namespaces = read_bindings(
            settings.namespaces, SETTING, "NAMESPACE=KUBERNETES_NAMESPACE, such as billing=team-billing"
        )
        for namespace, there in self._namespaces.items():
            if namespace == EACH or _NAMESPACE.fullmatch(there) is None:
                raise Misconfigured(f"{SETTING} binds each namespace by its name to one of Kubernetes, such as billing")
        check_apart(self._namespaces, SETTING, "/")
        self._account = settings.account
        authority = settings.account / "ca.crt"
        url = settings.url or _url_of_pod()
        self._server = SecretServer(
            "Kubernetes", url, seconds=settings.seconds, authority=authority if authority.exists() else None
        )
        self._kept: KeptAnswers[tuple[str, str], Mapping[str, Any]] = KeptAnswers(clock, settings.kept_seconds)

    async def values(self, wanted: Sequence[WantedSecret]) -> Mapping[WantedSecret, bytes | SecretFault]:
        """See the port."""
        names = list(dict.fromkeys(wanted))
        return dict(zip(names, await asyncio.gather(*map(self._value, names)), strict=True))

    async def _value(self, wanted: WantedSecret) -> bytes | SecretFault:
        there = self._namespaces.get(wanted.namespace)
        if there is None:
            return SecretFault(
                f"the namespace {wanted.namespace!r} has no secrets in Kubernetes: {SETTING} binds one of Kubernetes' "
                "namespaces to it",
                is_passing=False,
            )
        path = read_path(wanted.name, parts_most=1)
        if path is None:
            return SecretFault("write the name of a secret in Kubernetes as SECRET#KEY: db#password", is_passing=False)
        name = path.parts[0]
        found = await self._kept.of((there, name), lambda: self._asked(there, name))
        return found if isinstance(found, SecretFault) else _picked(found, path)

    async def _asked(self, there: str, name: str) -> Mapping[str, Any] | SecretFault:
        try:
            token = (await asyncio.to_thread((self._account / "token").read_text)).strip()
        except OSError as error:
            return SecretFault(f"the token of the pod's service account cannot be read: {error.strerror}", True)
        if not token.isascii() or not token.isprintable() or not token:
            return SecretFault("the token of the pod's service account is no text of a token", True)
        try:
            status, body = await self._server.ask(
                "GET", f"/api/v1/namespaces/{there}/secrets/{name}", {"Authorization": f"Bearer {token}"}
            )
        except Away as away:
            return SecretFault(str(away), is_passing=True)
        if status == 200 and isinstance(data := body.get("data", {}), dict):
            return data
        if status == 404:
            return SecretFault(f"Kubernetes has no secret {name!r} in its namespace {there!r}", is_passing=False)
        if status in (401, 403):
            return SecretFault(
                f"Kubernetes refuses the secret {name!r} to the service account of this executor: give it the right to "
                f"get secrets in the namespace {there!r}",
                is_passing=False,
            )
        return SecretFault(f"Kubernetes answered {status} for the secret {name!r}", is_passing=status in BUSY)

    async def close(self) -> None:
        """See the port."""
        await self._server.close()


def _picked(data: Mapping[str, Any], path: SecretPath) -> bytes | SecretFault:
    name, key = path.parts[0], path.field
    if key is None:
        if len(data) != 1:
            return SecretFault(
                f"the secret {name!r} of Kubernetes has {len(data)} keys; name one: {name}#KEY", is_passing=False
            )
        key = next(iter(data))
    value = data.get(key)
    if not isinstance(value, str):
        return SecretFault(f"the secret {name!r} of Kubernetes has no key {key!r}", is_passing=False)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return SecretFault(f"the key {key!r} of the secret {name!r} of Kubernetes is no base64", is_passing=False)


def _url_of_pod() -> str:
    """Raises `Misconfigured`."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise Misconfigured(
            f"{SETTING} is set, and this executor runs in no pod of Kubernetes: set TICKWISE_SECRETS_KUBERNETES_URL "
            "and TICKWISE_SECRETS_KUBERNETES_ACCOUNT"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
