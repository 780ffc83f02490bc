"""What a gateway has to know: the part of the API that serves each route, as the description says, and the pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tickwise.api.endpoint import ApiService
from tickwise.api.resources import RESOURCES
from tickwise.web.assets import PREFIX as STATIC
from tickwise.web.views import PAGES as PAGES_SERVED

NGINX: Final = {
    ApiService.JOBS: "jobs", ApiService.SEARCH: "search", ApiService.USERS: "identity", ApiService.AUTH: "identity",
}  # fmt: skip
"""The names of `deploy/gateway/routes.conf`."""
PAGES: Final = "web"
"""The name of the pages in it."""
CHART: Final = {service: {"jobs": "check"}.get(name, f"check-{name}") for service, name in NGINX.items()}
"""The names of the chart's Services, of a release that is called `check`."""
CHART_PAGES: Final = "check-web"
_LOCATION = re.compile(r"location [^{]*\{([^{}]*)\}")
_TELLS_THE_CLIENT = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
PLAIN: Final = ("/livez", "/readyz", "/healthz", "/openapi.json")
"""Served by each part."""


def requests() -> list[tuple[str, str, ApiService]]:
    """A request for each route that the API describes, with its part; each GET has its HEAD."""
    found = []
    for endpoint in RESOURCES:
        assert endpoint.service is not None, endpoint.name
        path = re.sub(r"\{\w+\}", "some-thing", endpoint.path)
        methods = (endpoint.method, "HEAD") if endpoint.method == "GET" else (endpoint.method,)
        found += [(method, path, endpoint.service) for method in methods]
    return found


def pages() -> list[tuple[str, str]]:
    """A request for each page and each form, for a static file, and for paths that look like those of the API."""
    found = []
    for page in PAGES_SERVED:
        path = re.sub(r"\{\w+\}", "some-thing", page.path)
        found += [(method, path) for method in ((page.method, "HEAD") if page.method == "GET" else (page.method,))]
    return [*found, ("GET", f"{STATIC}app.css"), ("GET", "/apis"), ("GET", "/jobs/x:preview"), ("GET", "/unknown")]


def misled(part_of: Callable[[str, str], str], names: Mapping[ApiService, str], pages_name: str) -> dict[str, str]:
    """The requests that a gateway leads to another part than the one that serves them."""
    led = {(method, path): part_of(method, path) for method, path, _ in requests()}
    wrong = {
        f"{method} {path}": led[method, path]
        for method, path, service in requests()
        if led[method, path] != names[service]
    }
    wrong |= {f"{method} {path}": part for method, path in pages() if (part := part_of(method, path)) != pages_name}
    return wrong | {path: part for path in PLAIN if (part := part_of("GET", path)) not in names.values()}


def by_http_route(route: Mapping[str, Any], method: str, path: str) -> str:
    """The backend of a request, by the rules of the Gateway API: of all matches the one with the longest path wins,
    then the one that names a method, then the first. (A regular expression is as long as its text.)"""
    found: list[tuple[int, bool, int, str]] = []
    for place, rule in enumerate(route["spec"]["rules"]):
        for match in rule.get("matches", ({},)):
            wanted = match.get("path", {"type": "PathPrefix", "value": "/"})
            kind, value = wanted["type"], wanted["value"]
            if kind == "RegularExpression":
                fits = re.fullmatch(value, path) is not None
            else:
                fits = path == value or path.startswith(value.rstrip("/") + "/")
            if fits and match.get("method", method) == method:
                found.append((len(value), "method" in match, -place, rule["backendRefs"][0]["name"]))
    return max(found)[3]


def mute_places(text: str) -> list[str]:
    """The locations of a configuration of nginx that pass requests on and do not add the address of the client to
    X-Forwarded-For. nginx then passes the header on as the client sent it, so each client chooses its address."""
    passing = [inside.strip() for inside in _LOCATION.findall(text) if "proxy_pass " in inside]
    assert len(passing) == len(re.findall(r"\bproxy_pass ", text)), "a proxy_pass stands outside of a plain location"
    return [inside for inside in passing if _TELLS_THE_CLIENT not in inside]
