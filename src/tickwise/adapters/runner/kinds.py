"""The built-in task kinds: the fields that a task of each may have. Light: the API loads them without any runner."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from tickwise.adapters.runner.calls import answer_limits, credentials, templated, tls_fields
from tickwise.adapters.runner.calls.addresses import MAX_URL_CHARACTERS, check_url
from tickwise.adapters.runner.calls.reasons import CALL_REASONS
from tickwise.adapters.runner.checks import exactly_one, json_type, refuse_unknown, text
from tickwise.adapters.runner.containers import CONTAINER_REASONS
from tickwise.adapters.runner.scripts import demand
from tickwise.adapters.runner.surroundings import (
    PYTHON,
    PYTHON_SCHEMA,
    SCHEMAS,
    START,
    START_SCHEMA,
    SURROUNDINGS,
    checked_python,
    checked_start,
    surroundings,
)
from tickwise.domain.errors import Invalid
from tickwise.domain.scripts.coding import source_bytes
from tickwise.domain.secrets.places import check_references
from tickwise.ports.environments import ENVIRONMENT_REASONS, EnvironmentDemand
from tickwise.ports.runner import TaskLimits

MAX_SOURCE_CHARACTERS = 1 << 20
"""A script is at most a body's size. How much of one a job may hold itself is a setting (`source_limit_bytes`)."""
MAX_ARGUMENTS = 1_000
MAX_HEADERS = 100

_FILE = re.compile(r"sha256:[0-9a-f]{64}")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_STATUS_CLASS = re.compile(r"[1-5]xx")
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
"""Headers that frame a message belong to the client; letting a task say it would let it smuggle a second request."""


_PARAMETER: Mapping[str, Any] = {
    "anyOf": [
        {"type": ["string", "number", "boolean"]},
        {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
    ]
}


def _schema(kind: str, properties: Mapping[str, Any], required: Sequence[str] = (), **more: Any) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **properties},
        "required": ["kind", *required],
        "additionalProperties": False,
        **more,
    }


class FunctionKind:
    """`{"kind": "function", "name": …}`: a function that is registered where executors run."""

    name: ClassVar[str] = "function"
    limits: ClassVar[Collection[str]] = ("output_bytes",)
    reasons: ClassVar[Collection[str]] = ()
    schema: ClassVar[Mapping[str, Any]] = _schema(
        "function",
        {"name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "As registered by `@task`."}},
        ("name",),
    )

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        refuse_unknown(task, ("name",))
        return {"kind": self.name, "name": text(task, "name", characters_most=200)}


class PythonKind:
    """`{"kind": "python", "source" | "file": …}`: a script in a Python process of its own, with its surroundings, and
    the packages that `requirements`, `lock` or its header declare."""

    name: ClassVar[str] = "python"
    limits: ClassVar[Collection[str]] = TaskLimits._fields
    reasons: ClassVar[Collection[str]] = (*ENVIRONMENT_REASONS, *CONTAINER_REASONS)
    schema: ClassVar[Mapping[str, Any]] = _schema(
        "python",
        {
            "source": {
                "type": "string",
                "minLength": 1,
                "description": "The script itself, up to `source_limit_bytes`; upload a larger one as a stored task.",
            },
            "file": {
                "type": "string",
                "pattern": f"^{_FILE.pattern}$",
                "description": "An uploaded script, by the SHA-256 of its content.",
            },
            PYTHON: dict(PYTHON_SCHEMA),
            START: dict(START_SCHEMA),
            **SCHEMAS,
            **demand.SCHEMA,
        },
        oneOf=[{"required": ["source"]}, {"required": ["file"]}],
    )

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        refuse_unknown(task, ("source", "file", PYTHON, START, *SURROUNDINGS, *demand.ENVIRONMENT_FIELDS))
        checked = {**self._script(task), **surroundings(task, own_script="task.py")}
        if task.get(PYTHON) is not None:
            checked[PYTHON] = checked_python(task[PYTHON])
            demand.refuse_with_python(checked)
        if task.get(START) is not None:
            checked[START] = checked_start(task[START])
        return checked

    def environment_of(self, namespace: str, task: Mapping[str, Any], script: str | None) -> EnvironmentDemand | None:
        """See `KindWithEnvironments`."""
        if task.get(PYTHON) is not None:
            return None
        return demand.declared_by(namespace, task, str(task.get("source", "")) if script is None else script)

    def _script(self, task: Mapping[str, Any]) -> dict[str, Any]:
        if exactly_one(task, "source", "file") == "file":
            file = text(task, "file", characters_most=100)
            if not _FILE.fullmatch(file):
                raise Invalid(
                    "`file` names an uploaded script as `sha256:` and 64 hexadecimal digits in lower case",
                    pointer="/file",
                )
            return {"kind": self.name, "file": file, **demand.environment_fields(task)}
        source = text(task, "source", characters_most=MAX_SOURCE_CHARACTERS)
        source_bytes(source)  # it must be possible to write it
        # Its syntax is not looked at here: the compiler takes minutes for a text that is made to keep it busy.
        return {"kind": self.name, "source": source, **demand.environment_fields(task)}


class ShellKind:
    """`{"kind": "shell", "command" | "argv": …}`: a text for /bin/sh, or a program with its arguments, with its
    surroundings."""

    name: ClassVar[str] = "shell"
    limits: ClassVar[Collection[str]] = TaskLimits._fields
    reasons: ClassVar[Collection[str]] = CONTAINER_REASONS
    schema: ClassVar[Mapping[str, Any]] = _schema(
        "shell",
        {
            "command": {
                "type": "string",
                "minLength": 1,
                "description": "A script for `/bin/sh`; may have many lines.",
            },
            "argv": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": MAX_ARGUMENTS,
                "description": "A program and its arguments; no shell comes between.",
            },
            **SCHEMAS,
        },
        oneOf=[{"required": ["command"]}, {"required": ["argv"]}],
    )

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        refuse_unknown(task, ("command", "argv", *SURROUNDINGS))
        return {**self._command(task), **surroundings(task, own_script="task.sh")}

    def _command(self, task: Mapping[str, Any]) -> dict[str, Any]:
        if exactly_one(task, "command", "argv") == "command":
            # Linux takes no single argument over 128 kB.
            return {"kind": self.name, "command": text(task, "command", characters_most=100_000)}
        argv = task["argv"]
        if not isinstance(argv, list | tuple) or not argv:
            raise Invalid("`argv` must be an array: the program, then its arguments", pointer="/argv")
        if len(argv) > MAX_ARGUMENTS:
            raise Invalid(f"`argv` has {len(argv)} items, {MAX_ARGUMENTS} are the most", pointer="/argv")
        for place, argument in enumerate(argv):
            if not isinstance(argument, str) or "\0" in argument or len(argument) > 100_000:
                raise Invalid(
                    "each item must be a text of at most 100000 characters, without NUL", pointer=f"/argv/{place}"
                )
        if not argv[0]:
            raise Invalid("the first item names the program, it is empty", pointer="/argv/0")
        return {"kind": self.name, "argv": list(argv)}


class HttpKind:
    """`{"kind": "http", "method", "url", "headers", "body", "expect", …}`: one request; the answer is the result.

    `{{ … }}` in its texts is a value of the payload or of the run."""

    name: ClassVar[str] = "http"
    limits: ClassVar[Collection[str]] = ("output_bytes",)
    reasons: ClassVar[Collection[str]] = CALL_REASONS
    schema: ClassVar[Mapping[str, Any]] = _schema(
        "http",
        {
            "method": {"enum": list(_METHODS), "default": "GET"},
            "url": {
                "type": "string",
                "pattern": "^https?://",
                "maxLength": MAX_URL_CHARACTERS,
                "description": "May have values of the run behind its host: `/orders/{{ payload.id }}`.",
            },
            "query": {
                "type": ["object", "null"],
                "maxProperties": templated.MAX_PARAMETERS,
                "description": "Parameters that are added to the query of the address.",
                "additionalProperties": _PARAMETER,
            },
            "headers": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": MAX_HEADERS},
            "body": {
                "description": "A text is sent as it is, anything else as JSON. "
                "With POST, PUT and PATCH it defaults to the payload."
            },
            "form": {
                "type": ["object", "null"],
                "maxProperties": templated.MAX_PARAMETERS,
                "description": "The fields of a form, sent urlencoded in the place of `body`.",
                "additionalProperties": _PARAMETER,
            },
            templated.TEMPLATES: {
                "type": ["boolean", "null"],
                "description": "Whether `{{ … }}` stands for a value of the run in address, query, headers, body and "
                "form. Default: it does.",
            },
            "expect": {
                "description": 'Statuses that mean success, such as `[200, 404]` or `["2xx"]`.',
                "default": ["2xx"],
                "type": ["array", "null"],
                "minItems": 1,
                "items": {
                    "anyOf": [
                        {"type": "integer", "minimum": 100, "maximum": 599},
                        {"type": "string", "pattern": f"^{_STATUS_CLASS.pattern}$"},
                    ]
                },
            },
            **credentials.SCHEMAS,
            tls_fields.TLS: dict(tls_fields.SCHEMA),
            **answer_limits.SCHEMAS,
        },
        ("url",),
    )

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        refuse_unknown(task, self.schema["properties"])
        method = task.get("method", "GET")
        if not isinstance(method, str) or method.upper() not in _METHODS:
            raise Invalid(f"`method` must be one of {', '.join(_METHODS)}", pointer="/method")
        templates = templated.uses_templates(task)
        url = text(task, "url", characters_most=MAX_URL_CHARACTERS)
        checked: dict[str, Any] = {
            "kind": self.name,
            "method": method.upper(),
            "url": templated.checked_url(url) if templates else check_url(url, pointer="/url"),
            "headers": _headers(task.get("headers", {})),
            "expect": _expect(["2xx"] if task.get("expect") is None else task["expect"]),
        }
        if task.get("query") is not None:
            checked["query"] = templated.checked_parameters(task["query"], "query", templates=templates)
        checked |= _content(task, checked["method"], templates=templates)
        if templates:
            templated.checked_headers(checked["headers"])
            templated.checked_body(checked.get("body"), checked["headers"])
        if templates or task.get(templated.TEMPLATES) is False:
            checked[templated.TEMPLATES] = templates
        if task.get(credentials.SIGN) is not None:
            checked[credentials.SIGN] = credentials.checked_sign(task[credentials.SIGN])
        if task.get(credentials.OAUTH) is not None:
            checked[credentials.OAUTH] = credentials.checked_oauth(task[credentials.OAUTH])
        credentials.refuse_double_proof(checked["headers"], checked)
        if task.get(tls_fields.TLS) is not None:
            checked[tls_fields.TLS] = tls_fields.checked_tls(task[tls_fields.TLS])
        check_references(checked)
        return {**checked, **answer_limits.checked_limits(task)}


def _content(task: Mapping[str, Any], method: str, *, templates: bool) -> Mapping[str, Any]:
    """`body` or `form`: the one that is given. Raises `Invalid`."""
    given = [name for name in ("body", "form") if task.get(name) is not None]
    if not given:
        return {}
    if method in ("GET", "HEAD"):
        raise Invalid(f"a {method} request has no body; use POST, or leave it out", pointer=f"/{given[0]}")
    if len(given) > 1:
        raise Invalid("give either `body` or `form`, not both", pointer="/form")
    if given == ["body"]:
        return {"body": task["body"]}
    return {"form": templated.checked_parameters(task["form"], "form", templates=templates)}


def _headers(headers: Any) -> Mapping[str, str]:
    if not isinstance(headers, Mapping):
        raise Invalid(f"`headers` must be an object, not {json_type(headers)}", pointer="/headers")
    if len(headers) > MAX_HEADERS:
        raise Invalid(f"`headers` has {len(headers)} fields, {MAX_HEADERS} are the most", pointer="/headers")
    for name, value in headers.items():
        pointer = "/headers/" + str(name).replace("~", "~0").replace("/", "~1")
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise Invalid(
                "a name of a header has letters, digits and - _ . alone, 200 at most; one of these has not",
                pointer="/headers",  # where a name and its value were run together, the name holds the secret
            )
        if name.lower().startswith("tickwise-") or name.lower() in _OWN_HEADERS:
            raise Invalid(f"`{name}` is set by Tickwise, a task cannot", pointer=pointer)
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise Invalid(f"`{name}` must be a text without line breaks and control characters", pointer=pointer)
    return dict(headers)


def _expect(expect: Any) -> Sequence[int | str]:
    values = list(expect) if isinstance(expect, list | tuple) else [expect]
    if not values:
        raise Invalid("`expect` is empty: no answer could be a success", pointer="/expect")
    for place, value in enumerate(values):
        is_status = isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599
        if not is_status and not (isinstance(value, str) and _STATUS_CLASS.fullmatch(value)):
            raise Invalid("a status is a number from 100 to 599, or a class such as `2xx`", pointer=f"/expect/{place}")
    return values
