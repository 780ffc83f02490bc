"""The request of an attempt: its task, filled with the values of the run, and signed.

A redirect to the same origin gets it again; another origin gets a bare one: no headers, no body, no certificate of the
client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urljoin

import msgspec
from yarl import URL

from tickwise.adapters.outgoing.access import AddressRefused, HttpAccess, plain_host
from tickwise.adapters.outgoing.exchange import Request
from tickwise.adapters.outgoing.webhook_signature import signature_headers
from tickwise.adapters.runner.calls.addresses import check_url
from tickwise.adapters.runner.calls.answer_limits import limits_of
from tickwise.adapters.runner.calls.credentials import SIGN, SIGNATURE_HEADERS
from tickwise.adapters.runner.calls.rendering import TemplateValueError, Values
from tickwise.adapters.runner.calls.templated import FORM_TYPE, TEMPLATES
from tickwise.adapters.runner.context import context_headers, rfc3339
from tickwise.domain.hosts import host_of
from tickwise.ports.runner import Assignment

SENT_WITH_PAYLOAD = ("POST", "PUT", "PATCH")


def first_request(assignment: Assignment, access: HttpAccess, *, now: float) -> Request:
    """The request to the task's own address. `now`: Unix seconds, for the signature. Raises `AddressRefused`,
    `TemplateValueError`."""
    task = assignment.task
    values = Values(
        assignment.payload,
        _facts(assignment),
        templates=bool(task.get(TEMPLATES)),
        secrets=assignment.secrets,
        identity_token=assignment.identity_token,
    )
    url = access.vet(check_url(_address(task, values)))
    assert host_of(str(url)) == host_of(str(URL(_origin_text(task["url"]))))
    if any(name.lower() == "traceparent" for name in task["headers"]):
        assignment = assignment._replace(traceparent=None)  # a trace that the task names itself stands
    own = {name: values.header(name, value) for name, value in task["headers"].items()}
    headers = {**own, **context_headers(assignment)}
    body, media_type = _body(assignment, values)
    if media_type is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = media_type
    if SIGN in task:
        secrets = task[SIGN]["secrets"]
        headers |= signature_headers(secrets, assignment.idempotency_key, int(now), body or b"")
    limits = limits_of(task)
    return Request(
        task["method"],
        url,
        headers,
        body,
        connect_seconds=limits.connect_seconds,
        first_byte_seconds=limits.first_byte_seconds,
    )


def _facts(assignment: Assignment) -> Mapping[str, str | int]:
    """The values of `RUN_FACTS`."""
    return {
        "id": str(assignment.run_id),
        "due": rfc3339(assignment.due),
        "nominal": rfc3339(assignment.nominal),
        "attempt": assignment.attempt,
        "idempotency_key": assignment.idempotency_key,
        "fencing_token": assignment.token,
        "job_id": str(assignment.job_id),
        "namespace": assignment.namespace,
    }


def _address(task: Mapping[str, object], values: Values) -> str:
    url = values.address(str(task["url"]))
    query = task.get("query")
    if not isinstance(query, Mapping) or not (added := values.parameters(query)):
        return url
    return f"{url}{'&' if '?' in url else '?'}{added}"


def _origin_text(url: str) -> str:
    """Scheme, host and port of an address with templates."""
    scheme, _, rest = url.partition("://")
    for sign in "/?#":
        rest = rest.partition(sign)[0]
    return f"{scheme}://{rest}/"


def _body(assignment: Assignment, values: Values) -> tuple[bytes | None, str | None]:
    """The body, and the type that it has unless a header says another one."""
    task = assignment.task
    if task.get("form") is not None:
        return values.parameters(task["form"]).encode(), FORM_TYPE
    said = task.get("body")
    if isinstance(said, str):
        return values.plain(said, "the body").encode(), None
    if said is not None:
        try:
            filled = values.json(said) if task.get(TEMPLATES) or assignment.secrets else said
            return msgspec.json.encode(filled), "application/json"
        except RecursionError:
            raise TemplateValueError("the body is nested too deeply") from None
    if task["method"] in SENT_WITH_PAYLOAD:
        return assignment.payload, "application/json"
    return None, None


def redirected(request: Request, status: int, target: str, access: HttpAccess) -> Request:
    """The request to the new address, as RFC 9110 section 15.4 says. The task's headers and body stay with its origin:
    another one gets a bare request, and also what leads back from there."""
    url = access.vet(check_url(urljoin(str(request.url), target)))
    if request.url.scheme == "https" and url.scheme == "http":
        raise AddressRefused(
            f"a redirect leads from https to http, to {host_of(str(url))}; call the address that is meant"
        )
    method, headers, body = request.method, dict(request.headers), request.body
    if status == 303 or (status in (301, 302) and method == "POST"):
        method = "HEAD" if method == "HEAD" else "GET"
        # Without its body, neither its type nor its signature says anything.
        gone = {"content-type", *SIGNATURE_HEADERS}
        headers = {name: value for name, value in headers.items() if name.lower() not in gone}
        body = None
    if _origin(url) != _origin(request.url):
        return replace(request, method=method, url=url, headers={}, body=None, tls=request.tls_elsewhere)
    return replace(request, method=method, url=url, headers=headers, body=body)


def _origin(url: URL) -> tuple[str, str, int | None]:
    return url.scheme, plain_host(url), url.port
