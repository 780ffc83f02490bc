"""The gateways lead each route that the API describes to the part that serves it."""

from __future__ import annotations

import re
from typing import Final

import httpx2

from tests.deploy import gateway
from tests.deploy.files import CHART, COMPOSE, DEPLOY, UNITS, load
from tests.services.nginx import Nginx
from tickwise.api.endpoint import ApiService

ROUTES: Final = DEPLOY / "gateway" / "routes.conf"
ODD: Final = {
    ("GET", "/api/v1/usersfoo"): "search",
    ("GET", "/api/v1/jobs/users"): "search",
    ("DELETE", "/api/v1/jobs/auth"): "jobs",
    ("POST", "/api/v1/users/:preview"): "identity",
    ("POST", "/api/v1/jobs/../users/register"): "identity",
    ("GET", "/api/v1//users"): "identity",
    ("POST", "/api/v1/jobs/x?next=/api/v1/users"): "jobs",
    ("OPTIONS", "/api/v1/jobs"): "jobs",
}
"""Requests that look like those of another part; whoever gets one that it does not serve answers 404 or 421."""


async def test_nginx_leads_each_route_to_the_part_that_serves_it() -> None:
    """A real nginx with the shipped rules says to which part it would pass each request, odd ones too."""
    server = "server { listen 127.0.0.1:{port}; location / { add_header Part $tickwise_service; return 204; } }"
    async with Nginx(ROUTES.read_text() + server) as nginx, httpx2.AsyncClient(trust_env=False, verify=False) as client:
        led: dict[tuple[str, str], str] = {}
        asked = [(method, path) for method, path, _ in gateway.requests()]
        for method, path in [*asked, *(("GET", path) for path in gateway.PLAIN), *ODD]:
            answer = await client.request(method, nginx.url, extensions={"target": path.encode()})
            led[method, path] = answer.headers["Part"]
    assert {} == gateway.misled(lambda method, path: led[method, path], gateway.NGINX)
    assert {place: led[place] for place in ODD} == ODD


def test_both_gateways_of_nginx_know_the_parts_by_these_rules() -> None:
    """Each part that the rules name has a place behind it, in the compose file and on a machine of systemd."""
    parts = set(re.findall(r"\s(\w+);", ROUTES.read_text()))
    assert set(gateway.NGINX.values()) == parts
    compose = (DEPLOY / "compose" / "nginx.conf").read_text()
    hosts = dict(re.findall(r"^ {8}(\w+)\s+(\w+);$", compose.partition("map $tickwise_service")[2], re.MULTILINE))
    hosts = {part: host for part, host in hosts.items() if part in parts}
    services = load(COMPOSE)["services"]
    served = {part: services[host]["command"][-1] for part, host in hosts.items()}
    assert {"jobs": "jobs", "search": "search", "identity": "users,auth"} == served
    assert "include tickwise-routes.conf;" in compose
    machine = (UNITS / "apart" / "nginx.conf").read_text()
    ports = dict(re.findall(r"^upstream tickwise-(\w+)\s+\{ server 127\.0\.0\.1:(\d+); \}$", machine, re.MULTILINE))
    assert parts == ports.keys()
    for part, unit in (("search", "search"), ("identity", "identity")):
        assert f"--port {ports[part]}\n" in (UNITS / f"tickwise-{unit}.service").read_text()
    assert "8470" == ports["jobs"]


def test_the_chart_knows_what_belongs_to_identity() -> None:
    """The prefixes that its Ingress and its HTTPRoute lead there. `make deploy-check CHECKS=chart` judges the whole."""
    text = (CHART / "templates" / "network.yaml").read_text()
    (named,) = re.findall(r"\$identity := list (.*) }}", text)
    prefixes = tuple(re.findall(r'"([^"]+)"', named))
    for _, path, service in gateway.requests():
        theirs = any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)
        assert (service in (ApiService.USERS, ApiService.AUTH)) == theirs, path
