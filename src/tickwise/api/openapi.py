"""The description of the API, OpenAPI 3.1, made from the declarations of the endpoints and the types of their bodies.

    Endpoint ──► paths: parameters, bodies, answers, refusals, headers
    types of bodies and answers, task kinds ──schemas──► components

The types are those that decode the bodies and encode the answers, so the description cannot say anything else. Programs
that make clients must read it without switches (docs/decisions/0025): `make clients` makes four and uses them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from tickwise import __version__
from tickwise.api.endpoint import NAMESPACE_CHARACTERS_MAX, Call, Endpoint, Reply
from tickwise.api.examples import EXAMPLES
from tickwise.api.ingest import JOBS_MAX, LINES_TYPES
from tickwise.api.pending import PendingView
from tickwise.api.problems import MEDIA_TYPE, TITLES, Problem
from tickwise.api.reading import SCRIPT_TYPES
from tickwise.api.schemas import Schema, components, fields_of, ref, schema_of
from tickwise.api.wire import encode
from tickwise.control.bodies import JobBody
from tickwise.domain.permissions import Permission
from tickwise.ports.runner import TaskKind

_PATH_VALUE = re.compile(r"\{(\w+)\}")
_DESCRIPTION: Final = (
    "Submit jobs, set their schedules, read their outcomes. Every route but /livez, /readyz and /healthz needs a key: "
    "`Authorization: Bearer KEY`. Every POST takes an `Idempotency-Key`. Errors are RFC 9457 problems with a stable "
    "`code`. Times are RFC 3339, in UTC."
)
_INFO: Final = {
    "title": "Tickwise",
    "version": __version__,
    "summary": "A self-hosted, distributed job scheduler.",
    "description": _DESCRIPTION,
    "contact": {"name": "The operators of this server"},
    "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
}
_SERVERS: Final = (
    {"url": "/", "description": "The server that gave this description."},
    {"url": "http://127.0.0.1:8470", "description": "The server that `tickwise up` starts on this machine."},
)
TAGS: Final[dict[str, str]] = {
    "jobs": "Definitions: the task, the schedule and the rules of each job.",
    "schedules": "Previews of a schedule, skips and snoozes of one occurrence, backfills of past ones.",
    "calendars": "Times at which jobs may not run, or may only run.",
    "windows": "Maintenance windows: times in which the jobs with some labels do not start.",
    "runs": "Runs that ended, run or wait; their attempts and logs.",
    "dead letters": "Runs that failed for good: read, redrive or discard them.",
    "errors": "Failures of attempts and runs, grouped by cause: resolve, ignore or reopen a group.",
    "operations": "Requests about many jobs or runs, carried out in the background.",
    "queues": "Counts of waiting and running runs; hold, drain and resume.",
    "status pages": "Status pages: what people without an account see of chosen jobs.",
    "channels": "Channels: the addresses that notices are sent to.",
    "notices": "Notices: each message for a channel, and what became of it.",
    "notification-rules": "Notification rules: which events of which jobs are told to which channels.",
    "alerts": "Alerts: what rules have seen of a job, until it is well again or a person closes it.",
    "secrets": "Secrets: values that tasks name and get at their start, and no answer has.",
    "saved views": "Saved views: the filters of a list of pages, under a name.",
    "stops": "Stops: for a time nothing of a namespace, of labels, of a queue or of a job starts.",
    "executors": "Processes that run tasks, and the other roles that are alive.",
    "keys": "API keys and their permissions.",
    "federations": "Trust in the tokens of other issuers, for programs without a stored key.",
    "namespaces": "Tenants: each has jobs, keys and members of its own.",
    "users": "People, their roles in namespaces, and the links that admit them once.",
    "auth": "Short-lived tokens, for a password, a refresh token, a key, a terminal or a program elsewhere.",
    "audit": "The log of who did what, when and from where.",
    "tasks": "Scripts and task definitions that many jobs share.",
    "health": "Liveness, readiness and metrics, for load balancers and Prometheus.",
    "docs": "This description.",
}
_UUID: Final[Schema] = {"type": "string", "format": "uuid"}
_PATH_SCHEMAS: Final[dict[str, Schema]] = dict.fromkeys(
    ("job_id", "run_id", "backfill_id", "operation_id", "key_id", "user_id", "stop_id"), _UUID
)
_PATH_SCHEMAS["artefact"] = {"type": "string", "minLength": 1, "maxLength": 500}
_PARAMETERS: Final[dict[str, tuple[str, Schema]]] = {
    "Idempotency-Key": (
        "The same request under the same key is done once, and answered as it was the first time.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    ),
    "Tickwise-Namespace": (
        "The namespace that the request is about. Left out: that of the key, or of the person's roles.",
        {"type": "string", "minLength": 1, "maxLength": NAMESPACE_CHARACTERS_MAX, "pattern": "^[ -~]+$"},
    ),
    "Last-Event-ID": (
        "The id of the last event that came: the stream goes on after it.",
        {"type": "string", "maxLength": 8_000},
    ),
    "If-Match": (
        "Only if its ETag is one of these, else 412; `*`: only if it is there.",
        {"type": "string"},
    ),
    "If-None-Match": (
        "Only if its ETag is none of these: else 304 to a read, 412 to a write. `*`: only create.",
        {"type": "string"},
    ),
    "Range": ("One range of bytes of the file, such as `bytes=1000-`: answered with 206.", {"type": "string"}),
    "If-Range": ("The ETag of the file that the range is of. Of another file all is sent.", {"type": "string"}),
}
HEADERS: Final[dict[str, tuple[str, Schema]]] = {
    "X-Request-Id": ("Names this request in the logs; one that is sent is taken over.", {"type": "string"}),
    "RateLimit-Policy": (
        'The paces that the request is held to, such as `"address";q=100;w=2, "key";q=200;w=2`; none: it is held to '
        "none.",
        {"type": "string"},
    ),
    "RateLimit": (
        'The requests that are left under each, such as `"address";r=60;t=1, "key";r=17;t=2`.',
        {"type": "string"},
    ),
    "Accept-Ranges": ("`bytes`: the file can be had in parts.", {"type": "string", "enum": ["bytes"]}),
    "Content-Range": (
        "The place of the part in the file, such as `bytes 1000-1999/5000`; of 416 the size, `bytes */5000`.",
        {"type": "string"},
    ),
    "Content-Disposition": ("The name of the file: of CSV, of a log and of an artefact.", {"type": "string"}),
    "Retry-After": ("Seconds after which to send the same again.", {"type": "integer", "minimum": 1}),
    "WWW-Authenticate": ("The scheme by which a key is sent.", {"type": "string"}),
    "ETag": ("The version of the resource, for `If-Match` and `If-None-Match`.", {"type": "string"}),
    "Content-Location": ("The resource that the ETag belongs to.", {"type": "string", "format": "uri-reference"}),
    "Content-Encoding": (
        "`gzip`, of more than 1 kB if Accept-Encoding allows it.",
        {"type": "string", "enum": ["gzip"]},
    ),
    "Vary": ("The request headers that decided how this is sent.", {"type": "string"}),
    "Cache-Control": (
        "`no-store`: the answer holds a secret. `no-cache, no-transform`: it is a stream.",
        {"type": "string"},
    ),
    "X-Accel-Buffering": ("`no`: a gateway passes each part on as it comes.", {"type": "string", "enum": ["no"]}),
    "Location": (
        "The address of the created resource, or of the content in the object store.",
        {"type": "string", "format": "uri-reference"},
    ),
    "Link": ('The next page, with `rel="next"`; none: this is the last.', {"type": "string"}),
    "Idempotency-Replayed": (
        "`true`: the answer to an earlier request under this Idempotency-Key.",
        {"type": "string", "enum": ["true"]},
    ),
    "Tickwise-Attempt": ("The attempt that wrote it.", {"type": "integer"}),
    "Tickwise-Next-Offset": ("The offset to go on from.", {"type": "integer"}),
    "Tickwise-Until": (
        "The end of the export: it has the entries before this time. The `since` of the next one.",
        {"type": "string", "format": "date-time"},
    ),
    "Tickwise-Complete": (
        "`true`: nothing more will be written.",
        {"type": "string", "enum": ["true", "false"]},
    ),
}
_SENT: Final = ("Content-Encoding", "Vary")
_PACE: Final = ("RateLimit-Policy", "RateLimit")
_REFUSAL_HEADERS: Final = {
    401: ("WWW-Authenticate", "Cache-Control"), 416: ("Content-Range",), 429: ("Retry-After",), 503: ("Retry-After",),
}  # fmt: skip
REFUSALS: Final[dict[int, str]] = {
    400: "Malformed", 401: "Unauthenticated", 403: "Forbidden", 404: "NotFound", 406: "NotAcceptable", 409: "Conflict",
    412: "VersionConflict", 413: "TooLarge", 415: "WrongMediaType", 416: "RangeNotSatisfiable",
    421: "NotServedHere", 422: "Invalid",
    429: "RateLimited", 503: "Unavailable",
}  # fmt: skip
"""The names of the refusals among the components."""
_ANSWERED: Final = {
    200: "Done.",
    201: "Created.",
    202: "Accepted, and not done yet.",
    206: "The part of the file.",
    307: "It is at `Location`.",
    503: "A part is failing.",
}


def describe(endpoints: Sequence[Endpoint], kinds: Collection[TaskKind]) -> Endpoint:
    """The endpoint that gives the description; the description is made once, at the first request."""
    made: list[bytes] = []

    async def description(_call: Call) -> Reply:
        if not made:
            # Half a second of work: others are served meanwhile.
            made.append(encode(await asyncio.to_thread(document, [*endpoints, found], kinds)))
        return Reply(200, made[0])

    found = Endpoint(
        method="GET", path="/openapi.json", permissions=(Permission.DOCS_READ,), name="describe", tag="docs",
        summary="This description.", handler=description, everywhere=True, answers=(dict[str, Any],),
    )  # fmt: skip
    return found


def document(endpoints: Iterable[Endpoint], kinds: Collection[TaskKind]) -> Schema:
    """The whole description."""
    known = list(endpoints)
    bodies = [each.body for each in known if each.body is not None]
    answers = [Problem, *(kind for each in known for kind in _answered_types(each))]
    schemas = components([JobBody, *bodies], answers, kinds)
    for name in EXAMPLES.keys() & schemas.keys():
        schemas[name]["examples"] = [EXAMPLES[name]]
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": list(_SERVERS),
        "tags": [{"name": name, "description": said} for name, said in TAGS.items()],
        "security": [{"key": []}],
        "paths": {
            path: {each.method.lower(): operation(each) for each in found}
            for path, found in groupby(sorted(known, key=lambda each: each.path), key=lambda each: each.path)
        },
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": {name: _refusal(status) for status, name in REFUSALS.items()},
            "headers": {name: {"description": said, "schema": schema} for name, (said, schema) in HEADERS.items()},
            "parameters": {
                name: {"name": name, "in": "header", "required": False, "description": said, "schema": schema}
                for name, (said, schema) in _PARAMETERS.items()
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of this server."}},
        },
    }


def _answered_types(endpoint: Endpoint) -> list[Any]:
    return [*endpoint.answers, *_pending(endpoint), *(kind for kinds in endpoint.also.values() for kind in kinds)]


def _pending(endpoint: Endpoint) -> tuple[Any, ...]:
    """The types of an answer about what is accepted and not applied yet; a job may be so wherever it is read."""
    is_read = endpoint.method == "GET" and "{job_id}" in endpoint.path
    return endpoint.pending or ((PendingView,) if is_read else ())


def operation(endpoint: Endpoint) -> Schema:
    """The description of one endpoint."""
    found: Schema = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": endpoint.description or endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint), *_header_parameters(endpoint)],
        "responses": _responses(endpoint),
    }
    if endpoint.is_open:
        found["security"] = []
    elif endpoint.permissions:
        found["x-scope"] = " or ".join(endpoint.permissions)
        found["x-by-labels"] = endpoint.by_labels
    if endpoint.service is not None:
        found["x-service"] = endpoint.service.value
    if endpoint.body is not None:
        found["requestBody"] = {"required": not endpoint.optional_body, "content": _body(endpoint)}
    return found


def _body(endpoint: Endpoint) -> Schema:
    schema = ref(endpoint.body.__name__) if endpoint.body is not None else {}
    if endpoint.name == "createJobs":
        array = {"type": "array", "items": ref("JobBody"), "minItems": 1, "maxItems": JOBS_MAX}
        schema = {"anyOf": [array, schema]}
    return {
        media.decode(): {"schema": {"type": "string"} if media in LINES_TYPES | SCRIPT_TYPES else schema}
        for media in sorted(endpoint.media)
    }


# ------------------------------------------------------------------------------------------ parameters


def _path_parameters(endpoint: Endpoint) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_SCHEMAS.get(name, {"type": "string", "minLength": 1, "maxLength": 200}),
        }
        for name in _PATH_VALUE.findall(endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[Schema]:
    if endpoint.query is None:
        return []
    found = []
    for name, schema, required in fields_of(endpoint.query):
        said = schema.pop("description", None)
        parameter = {"name": name, "in": "query", "required": required, "schema": schema}
        found.append(parameter if said is None else {**parameter, "description": said})
    return found


def _header_parameters(endpoint: Endpoint) -> list[Schema]:
    names = [
        *([] if endpoint.is_open else ["Tickwise-Namespace"]),
        *endpoint.headers,
        *(["If-Match", "If-None-Match"] if endpoint.conditional else []),
        *(["Idempotency-Key"] if endpoint.method == "POST" and not endpoint.secret else []),
    ]
    return [{"$ref": f"#/components/parameters/{name}"} for name in names if name in _PARAMETERS]


# ------------------------------------------------------------------------------------------ answers


def _responses(endpoint: Endpoint) -> Schema:
    found: Schema = {}
    for status in (endpoint.status, *endpoint.further):
        found[str(status)] = _success(endpoint, status, endpoint.answers)
    for status, kinds in endpoint.also.items():
        found[str(status)] = _success(endpoint, status, kinds)
    pending = _pending(endpoint)
    if pending:
        found["202"] = _success(endpoint, 202, pending)
    if endpoint.conditional and endpoint.method == "GET":
        said = "The client has it already, by `If-None-Match`."
        found["304"] = {"description": said, "headers": _headers(success_headers(endpoint))}
    for status in refusals(endpoint):
        found[str(status)] = {"$ref": f"#/components/responses/{REFUSALS[status]}"}
    return dict(sorted(found.items()))


def _success(endpoint: Endpoint, status: int, kinds: tuple[Any, ...]) -> Schema:
    schemas = [schema_of(kind) for kind in kinds] or [{"type": "object"}]
    as_json = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    content = {
        media: {"schema": as_json if media == "application/json" else {"type": "string"}}
        for media in endpoint.answer_media
    }
    return {"description": _ANSWERED[status], "headers": _headers(success_headers(endpoint)), "content": content}


def success_headers(endpoint: Endpoint) -> tuple[str, ...]:
    """The headers that an answer of success may have."""
    pages = endpoint.query is not None and "cursor" in endpoint.query.__struct_fields__
    return (
        "X-Request-Id",
        *_SENT,
        *(() if endpoint.is_open else _PACE),
        *endpoint.answer_headers,
        *(("ETag", "Content-Location") if endpoint.conditional else ()),
        *(("Link",) if pages else ()),
        *(("Idempotency-Replayed",) if endpoint.method == "POST" and not endpoint.secret else ()),
        *(("Location", "Retry-After") if _pending(endpoint) and "Location" not in endpoint.answer_headers else ()),
    )


def refusals(endpoint: Endpoint) -> list[int]:
    """The statuses with which a request may be refused."""
    found = {422, *endpoint.refuses}
    if endpoint.conditional:
        found |= {400, 412}
    if not endpoint.is_open:
        found |= {401, 403, 404, 406, 429, 503}
    if endpoint.method in ("POST", "PUT", "PATCH"):
        found |= {400, 413, 415}
    if endpoint.method == "POST":
        found |= {409}
    if endpoint.service is not None:
        found |= {421}
    return sorted(found)


def _refusal(status: int) -> Schema:
    names = ("X-Request-Id", *_SENT, *_PACE, *_REFUSAL_HEADERS.get(status, ()))
    content = {MEDIA_TYPE: {"schema": ref("Problem")}}
    return {"description": f"{TITLES[status]}.", "headers": _headers(names), "content": content}


def _headers(names: Iterable[str]) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
