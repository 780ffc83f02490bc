"""A double of the part of Kubernetes' API that reads secrets: statuses and shapes as its reference says."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class KubernetesDouble:
    """One cluster, with one service account that may read some namespaces."""

    token: str = "token-of-the-pod"
    may_read: frozenset[str] = frozenset({"team-alpha", "team-beta"})
    secrets: dict[tuple[str, str], Mapping[str, bytes]] = field(default_factory=dict)
    status: int | None = None
    requests: list[str] = field(default_factory=list)

    def application(self) -> web.Application:
        """Its routes."""
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/{namespace}/secrets/{name}", self.answer)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        """The secret that is asked for."""
        self.requests.append(request.raw_path)
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if self.status is not None:
            return _status(self.status)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _status(401)
        if namespace not in self.may_read:
            return _status(403)
        found = self.secrets.get((namespace, name))
        if found is None:
            return _status(404)
        data = {key: base64.b64encode(value).decode() for key, value in found.items()}
        metadata = {"name": name, "namespace": namespace}
        return web.json_response(
            {"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "data": data, "type": "Opaque"}
        )


def _status(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}, status=code)
