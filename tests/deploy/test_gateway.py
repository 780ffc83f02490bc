"""The gateways lead each route that the API describes to the part that serves it, and each page to the pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests.deploy import gateway
from tests.deploy.files import CHART, COMPOSE, DEPLOY, ROOT, UNITS, load
from tests.services.nginx import Nginx
from tickwise.api.clients.address import ClientAddresses
from tickwise.api.endpoint import ApiService

ROUTES: Final = DEPLOY / "gateway" / "routes.conf"
WITH_NGINX: Final = sorted(
    file
    for file in (*DEPLOY.rglob("*.conf"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md")
    if "proxy_pass " in file.read_text(encoding="utf-8")
)
ODD: Final = {
    ("GET", "/api/v1/usersfoo"): "search",
    ("GET", "/api/v1/jobs/users"): "search",
    ("DELETE", "/api/v1/jobs/auth"): "jobs",
    ("POST", "/api/v1/users/:preview"): "identity",
    ("POST", "/api/v1/jobs/../users/register"): "identity",
    ("GET", "/api/v1//users"): "identity",
    ("POST", "/api/v1/jobs/x?next=/api/v1/users"): "jobs",
    ("OPTIONS", "/api/v1/jobs"): "jobs",
    ("GET", "/api/v1/jobs/a%20b"): "search",
    ("GET", "/api"): "web",
    ("GET", "/livez/"): "search",
    ("POST", "/api/v1/../../jobs/x/pause"): "web",
    ("GET", "/jobs?next=/api/v1/jobs"): "web",
}
"""Requests that look like those of another part; whoever gets one that it does not serve answers 404 or 421."""


async def test_nginx_leads_each_route_to_the_part_that_serves_it() -> None:
    """A real nginx with the shipped rules says to which part it would pass each request, odd ones too."""
    server = "server { listen 127.0.0.1:{port}; location / { add_header Part $tickwise_service; return 204; } }"
    async with Nginx(ROUTES.read_text() + server) as nginx, httpx2.AsyncClient(trust_env=False, verify=False) as client:
        led: dict[tuple[str, str], str] = {}
        asked = [*((method, path) for method, path, _ in gateway.requests()), *gateway.pages()]
        for method, path in [*asked, *(("GET", path) for path in gateway.PLAIN), *ODD]:
            answer = await client.request(method, nginx.url, extensions={"target": path.encode()})
            led[method, path] = answer.headers["Part"]
    assert {} == gateway.misled(lambda method, path: led[method, path], gateway.NGINX, gateway.PAGES)
    assert {place: led[place] for place in ODD} == ODD


def test_both_gateways_of_nginx_know_the_parts_by_these_rules() -> None:
    """Each part that the rules name has a place behind it, in the compose file and on a machine of systemd."""
    parts = set(re.findall(r"\s(\w+);", ROUTES.read_text()))
    assert {*gateway.NGINX.values(), gateway.PAGES} == parts
    compose = (DEPLOY / "compose" / "nginx.conf").read_text()
    hosts = dict(re.findall(r"^ {8}(\w+)\s+(\w+);$", compose.partition("map $tickwise_service")[2], re.MULTILINE))
    hosts = {part: host for part, host in hosts.items() if part in parts}
    services = load(COMPOSE)["services"]
    served = {part: services[host]["command"][-1] for part, host in hosts.items()}
    assert {"jobs": "jobs", "search": "search", "identity": "users,auth", "web": "web"} == served
    assert "include tickwise-routes.conf;" in compose
    machine = (UNITS / "apart" / "nginx.conf").read_text()
    ports = dict(re.findall(r"^upstream tickwise-(\w+)\s+\{ server 127\.0\.0\.1:(\d+); \}$", machine, re.MULTILINE))
    assert parts == ports.keys()
    for part, unit in (("search", "search"), ("identity", "identity"), ("web", "web")):
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


@pytest.mark.parametrize("file", WITH_NGINX, ids=lambda file: str(file.relative_to(ROOT)))
def test_each_nginx_adds_the_address_of_the_client(file: Path) -> None:
    """The shipped ones, and each example of the documentation: the API believes this header of a trusted proxy."""
    assert [] == gateway.mute_places(file.read_text())


def test_the_nginx_files_and_examples_are_found() -> None:
    """Two are shipped, and the documentation has one more at least. One without the header is told."""
    assert {"deploy", "docs"} == {file.relative_to(ROOT).parts[0] for file in WITH_NGINX}
    assert {COMPOSE.parent / "nginx.conf", UNITS / "apart" / "nginx.conf"} < set(WITH_NGINX)
    assert ["proxy_pass http://a;"] == gateway.mute_places("location / { proxy_pass http://a; }")


async def test_a_client_cannot_choose_its_address_behind_the_gateway_of_one_machine() -> None:
    """A real nginx with the shipped location: what the client wrote stands left of the address that nginx saw."""
    machine = (UNITS / "apart" / "nginx.conf").read_text()
    (place,) = (inside for inside in re.findall(r"location / \{[^{}]*\}", machine))
    place = place.replace("http://tickwise-$tickwise_service", "http://127.0.0.1:{port}/echo/")
    echo = 'location /echo/ { add_header Said "$http_x_forwarded_for"; return 204; }'
    async with (
        Nginx(f"server {{ listen 127.0.0.1:{{port}}; {echo} {place} }}") as nginx,
        httpx2.AsyncClient(trust_env=False, verify=False) as client,
    ):
        answer = await client.get(f"{nginx.url}/", headers={"X-Forwarded-For": "203.0.113.9"})
    assert "203.0.113.9, 127.0.0.1" == answer.headers["Said"]
    addresses = ClientAddresses(["127.0.0.0/31"])
    scope = {"client": ("127.0.0.1", 1), "headers": [(b"x-forwarded-for", b"203.0.113.9, 192.0.2.7")]}
    assert "192.0.2.7" == addresses.of(scope)
