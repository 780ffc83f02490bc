"""Http tasks in the form of a job: an input for each part of the request, and one as JSON for how it proves itself.

Reading what was written gives the same task; where it would not (`tasks`), the task is written as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tickwise.domain.errors import Invalid
from tickwise.web.json_text import pretty_value

PROOF: Final = "task.proof"
PROOF_FIELDS: Final = (
    "sign", "oauth", "tls", "connect_seconds", "first_byte_seconds", "answer_bytes", "kept_bytes", "templates",
)  # fmt: skip
"""The fields of an http task that are written as JSON."""
_OPEN: Final = "{{"


def http_task(said: Mapping[str, str]) -> dict[str, Any]:
    """The http task of a form. Raises `Invalid`."""
    task: dict[str, Any] = {
        "kind": "http",
        "method": said.get("task.method") or "GET",
        "url": said["task.url"].strip(),
        "headers": {},
        "expect": [],
    }
    for line in said.get("task.headers", "").splitlines():
        name, sign, value = line.partition(":")
        if not line.strip():
            continue
        if not sign or not name.strip():
            raise Invalid("write each header as Name: value", pointer="/task/headers")
        task["headers"][name.strip()] = value.strip()
    for each in (said.get("task.expect", "").strip() or "2xx").replace(",", " ").split():
        task["expect"].append(int(each) if each.isascii() and each.isdigit() and len(each) < 9 else each)
    for field in ("query", "form"):
        if parameters := _parameters(said.get(f"task.{field}", ""), field):
            task[field] = parameters
    body = said.get("task.body", "")
    if body.strip():
        try:
            task["body"] = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            task["body"] = body
    task |= _proof(said.get(PROOF, ""))
    if "templates" not in task and any(_OPEN in said.get(f"task.{field}", "") for field in _WITH_VALUES):
        task["templates"] = True
    return task


_WITH_VALUES: Final = ("url", "query", "headers", "body", "form")


def _parameters(text: str, field: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, sign, value = line.partition("=")
        if not line.strip():
            continue
        if not sign or not name.strip():
            raise Invalid("write each one as NAME=value", pointer=f"/task/{field}")
        found[name.strip()] = value
    return found


def _proof(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError) as fault:
        raise Invalid(f"this is no JSON: {fault}", pointer="/task/proof") from None
    if not isinstance(found, dict):
        raise Invalid('write an object such as {"first_byte_seconds": 10}', pointer="/task/proof")
    for name in found:
        if name not in PROOF_FIELDS:
            raise Invalid(f"there is no such field here; there are {', '.join(PROOF_FIELDS)}", pointer="/task/proof")
    return found


def http_texts(task: Mapping[str, Any]) -> dict[str, str]:
    """The texts of the inputs for an http task."""
    body = task.get("body")
    proof = {name: task[name] for name in PROOF_FIELDS if name in task and (name, task[name]) != ("templates", True)}
    return {
        "kind": "http",
        "task.url": task["url"],
        "task.method": task.get("method", "GET"),
        "task.headers": "\n".join(f"{name}: {value}" for name, value in task.get("headers", {}).items()),
        "task.query": _lines(task.get("query")),
        "task.form": _lines(task.get("form")),
        "task.expect": ", ".join(str(each) for each in task.get("expect", ())),
        "task.body": "" if body is None else body if isinstance(body, str) else pretty_value(body),
        PROOF: pretty_value(proof) if proof else "",
    }


def _lines(parameters: Mapping[str, Any] | None) -> str:
    return "\n".join(f"{name}={value}" for name, value in (parameters or {}).items())


def is_http(task: Mapping[str, Any]) -> bool:
    """Check the types of the fields that are written one by one."""
    headers, expect, method = task.get("headers", {}), task.get("expect", []), task.get("method", "GET")
    parameters = all(isinstance(task.get(field, {}), dict) for field in ("query", "form"))
    return isinstance(headers, dict) and isinstance(expect, list) and isinstance(method, str) and parameters
