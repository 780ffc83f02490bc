"""The description of the API, OpenAPI 3.1, made from the declarations of the endpoints and the types of their bodies.

The types are those that decode the bodies and encode the answers, so the description cannot say anything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tickwise import __version__
from tickwise.api.endpoint import Answer, Call, Endpoint
from tickwise.api.ingest import LINES_TYPES
from tickwise.api.problems import MEDIA_TYPE, TITLES, Problem
from tickwise.api.wire import encode

_REF: Final = "#/components/schemas/{name}"
_TAGS: Final = r'^(\*|(W/)?"[!#-~]*"([ \t]*,[ \t]*(W/)?"[!#-~]*")*)$'
"""`*`, or a list of entity tags."""
_PATH_VALUE = re.compile(r"\{(\w+)\}")
_SECURITY: Final[list[dict[str, list[str]]]] = [{"key": []}]
_DESCRIPTION: Final = (
    "Hand in jobs, say when each shall run, ask what became of them. Every route but /livez and /readyz needs a key: "
    "`Authorization: Bearer KEY`. Every POST takes an `Idempotency-Key`. Errors are RFC 9457 problems with a stable "
    "`code`. Times are RFC 3339, in UTC."
)
_EVERYWHERE: Final = (401, 403, 503)
_PATH_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "job_id": {"type": "string", "format": "uuid"},
    "run_id": {"type": "string", "format": "uuid"},
    "backfill_id": {"type": "string", "format": "uuid"},
    "operation_id": {"type": "string", "format": "uuid"},
}


def operation(endpoint: Endpoint) -> dict[str, Any]:
    """What is said of one endpoint beside its summary."""
    found: dict[str, Any] = {
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint), *_header_parameters(endpoint)],
        "responses": _responses(endpoint),
        "security": _SECURITY if endpoint.scope else [],
    }
    if endpoint.service is not None:
        found["x-service"] = endpoint.service.value
    if endpoint.scope:
        found["x-scope"] = " or ".join((endpoint.scope, *endpoint.or_scopes))
    if endpoint.body is not None:
        schema = {"$ref": _REF.format(name=endpoint.body.__name__)}
        content: dict[str, Any] = {}
        for media in sorted(endpoint.media):
            content[media.decode()] = {"schema": {"type": "string"} if media in LINES_TYPES else schema}
        if endpoint.name == "createJobs":
            array = {"type": "array", "items": {"$ref": _REF.format(name="JobBody")}, "minItems": 1, "maxItems": 10_000}
            content["application/json"] = {"schema": {"anyOf": [array, schema]}}
        found["requestBody"] = {"required": not endpoint.optional_body, "content": content}
    return found


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_SCHEMAS.get(name, {"type": "string", "minLength": 1, "maxLength": 200}),
        }
        for name in _PATH_VALUE.findall(endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    (schema,), components = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
    own = components[endpoint.query.__name__] if "$ref" in schema else schema
    return [
        {"name": name, "in": "query", "required": False, "schema": said} for name, said in own["properties"].items()
    ]


def _header_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = [
        *endpoint.headers,
        *(["If-Match", "If-None-Match"] if endpoint.conditional else []),
        *(["Idempotency-Key"] if endpoint.method == "POST" else []),
    ]
    schemas: dict[str, dict[str, Any]] = {
        "Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        "If-Match": {"type": "string", "pattern": _TAGS},
        "If-None-Match": {"type": "string", "pattern": _TAGS},
        "Accept": {"type": "string"},
    }
    return [
        {"name": name, "in": "header", "required": False, "schema": schemas[name]} for name in names if name != "Accept"
    ]


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for media in endpoint.answer_media:
        schema: dict[str, Any] = {"type": "string"}
        if media == "application/json":
            schemas = [_schema(kind) for kind in endpoint.answers]
            schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else {"type": "object"}
        content[media] = {"schema": schema}
    found = {
        str(status): {"description": "Done.", "content": content} for status in (endpoint.status, *endpoint.further)
    }
    if endpoint.pending:
        schemas = [_schema(kind) for kind in endpoint.pending]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        content = {"application/json": {"schema": schema}}
        found["202"] = {"description": "Accepted, and not applied yet; ask again.", "content": content}
    if endpoint.conditional and endpoint.method == "GET":
        found["304"] = {"description": "The client has it already, by `If-None-Match`."}
    refusals = (
        set(endpoint.refuses)
        | ({400, 412} if endpoint.conditional else set())
        | ({*_EVERYWHERE} if endpoint.scope else set())
        | {422}
    )
    if endpoint.method in ("POST", "PUT"):
        refusals |= {400, 413, 415}
    if endpoint.method == "POST":
        refusals |= {409, 429}
    if endpoint.method == "PUT":
        refusals |= {429}
    if endpoint.service is not None:
        refusals |= {421}
    problem = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}
    for status in sorted(refusals):
        found[str(status)] = {"description": TITLES[status], "content": problem}
    return found


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REF)
    return schema


def describe(framework: FastAPI, endpoints: Sequence[Endpoint]) -> Endpoint:
    """The endpoint that gives the description; it is made once, when somebody asks for it."""
    made: list[bytes] = []

    async def description(_call: Call) -> Answer:
        if not made:
            made.append(encode(document(framework, endpoints)))
        return Answer(200, made[0])

    return Endpoint(
        method="GET", path="/openapi.json", scope="docs:read", name="describe", tag="docs",
        summary="This description.", handler=description, everywhere=True,
    )  # fmt: skip


def document(framework: FastAPI, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole description."""
    found: dict[str, Any] = get_openapi(
        title="Tickwise",
        version=__version__,
        openapi_version="3.1.0",
        description=_DESCRIPTION,
        routes=framework.routes,
    )
    kinds: list[Any] = [Problem]
    for endpoint in endpoints:
        kinds += endpoint.answers if endpoint.body is None else (endpoint.body, *endpoint.answers)
        kinds += endpoint.pending
    _, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    found["components"] = {
        "schemas": components,
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of this server."}},
    }
    return found
