"""The reference page of the API, from the description that the server gives: `python -m tests.style.api_page`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from tests.style.tree import ROOT
from tests.support.app import world

PLACE = "docs/reference/api.md"

HEAD = """\
# The API

<!-- Written from the declarations of the endpoints by `python -m tests.style.api_page`; a test compares. -->

The same for machines, with every schema: `GET /openapi.json` (OpenAPI 3.1, scope `docs:read`).

- Every route but `/livez`, `/readyz` and `/healthz` needs a key, `Authorization: Bearer KEY`, that is granted the
  route's scope; `*` grants all. A key belongs to a namespace and sees nothing of others. A scope that is granted for
  jobs with certain labels alone reaches the routes that say "by labels", as far as the labels go: other jobs, their
  runs and dead letters are 404 and in no list, and a job that is made must have the labels (403).
- Bodies and answers are JSON. An unknown field or parameter is refused by name, never ignored. Times are RFC 3339; in
  answers in UTC.
- Every POST takes an `Idempotency-Key`: the same request again gets the same answer and does nothing twice; another
  request under the same key is refused. A key counts for one route.
- A resource with an address of its own has a strong `ETag`, which changes with every field that a GET shows. A GET
  takes `If-None-Match` (304), and a write of jobs, calendars, windows and tasks `If-Match` and `If-None-Match` (412),
  as RFC 9110 has them; `*` and lists of tags are understood. `PUT /jobs/{job_id}?if_version=…` checks changes by
  people, and not those by runs. Each GET has its HEAD.
- Secrets of http tasks (all headers but a few that carry none, such as Accept; user, password and fragment of the
  address, and parameters such as token and api_key) are answered as `***`. Sent back, `***` means "unchanged", so an
  answer can be sent back as a request. It is put back towards the same scheme, host and port alone; else
  `secret_masked`.
- `part` is what a server must have been started for (`tickwise api --serve`); others answer with 421, and with the part
  in `service`. As shipped every server serves both.
- Lists come in pages, newest first; the `Link` header with `rel="next"` leads to the next one. A page of large items
  ends early, with one item at least: its definitions, results and other large texts are 4 MiB together at most. So a
  page with fewer items than its `limit` need not be the last; one without a `Link` is.
- Names are as described below, and of one kind alike: members are `snake_case`, but for `taskId`; a time of a job or
  another thing is named `…_at` (`created_at`, `next_run_at`), the stages of a run with `…_time` (`start_time`,
  `end_time`); ids are `…_id`. Bodies and queries are read in both spellings (`job_id` and `jobId`, `taskId` and
  `task_id`), also inside a body's objects; a payload is not changed. The same field in both spellings is refused if the
  values differ. Problems point at the spelling that was sent; answers have the one that is described.
- A filter by `status` takes several states: in a query it is given several times, in a body one state and
  a list of one are alike.
- A member that is written twice in one object is refused (`field_repeated`).
- `PATCH` of a job changes it as `PUT` does. As `application/merge-patch+json` (RFC 7396) it also changes single members
  of `labels`, `retry`, `payload` and the other objects.
- `Accept` is honoured (406 if no JSON is acceptable; a log is text unless JSON is preferred). An answer of 1 kB or more
  is compressed with gzip if `Accept-Encoding` allows it; its strong ETag is then its own, ends in `-gzip`, and is good
  for `If-Match` and `If-None-Match` like the other.
- Errors are problems with a stable `code`: [errors.md](errors.md). Every answer has an `X-Request-Id`; one that is sent
  is taken over. A `traceparent` is handed on to the tasks of what the request makes
  ([traces](../how-to/tracing.md)).
"""

Description = dict[str, Any]


async def _asked() -> Description:
    async with world() as here:
        found: Description = (await here.client.get("/openapi.json")).json()
        return found


@cache
def description() -> Description:
    """What a server answers at `/openapi.json`."""
    return asyncio.run(_asked())


def page() -> str:
    said = description()
    tags: dict[str, list[tuple[str, str, Description]]] = {}
    for path, methods in said["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append((path, method.upper(), operation))
    known = said["components"]["schemas"]
    lines = [HEAD.rstrip("\n")]
    bodies: dict[str, None] = {}
    for tag in sorted(tags):
        lines += ["", f"## {tag.capitalize()}"]
        for path, method, operation in sorted(tags[tag], key=lambda found: (found[0], found[1])):
            lines += _entry(path, method, operation, known)
            bodies |= dict.fromkeys(_bodies(operation))
    lines += ["", "## Bodies", "", "`null` counts as not sent where nothing else is said."]
    for name in (*bodies, *_within(bodies, known)):
        lines += _body(name, known)
    return "\n".join(lines) + "\n"


def _within(bodies: Iterable[str], known: Description) -> list[str]:
    """The objects that the fields of the bodies are made of, and the fields of those, however deep."""
    found = list(bodies)
    for name in found:
        for said in (*known[name].get("properties", {}).values(), {"oneOf": known[name].get("oneOf", ())}):
            below = dict.fromkeys(_references(said))
            found += [
                each for each in below if each not in found and ("properties" in known[each] or "oneOf" in known[each])
            ]
    return found[len(list(bodies)) :]


def _without_scope(operation: Description) -> str:
    """What a route without a permission asks for."""
    return "open to anybody" if operation.get("security") == [] else "any key or token"


def _entry(path: str, method: str, operation: Description, known: Description) -> Iterator[str]:
    scopes = operation["x-scope"].split(" or ") if "x-scope" in operation else ()
    scope = "scope " + " or ".join(f"`{each}`" for each in scopes) if scopes else _without_scope(operation)
    scope += " by labels" if operation.get("x-by-labels") else ""
    statuses = sorted(operation["responses"])
    good = ", ".join(status for status in statuses if status < "400")
    bad = ", ".join(status for status in statuses if status >= "400")
    facts = [scope, f"answers {good}", f"refuses with {bad}"]
    if "x-service" in operation:
        facts.insert(1, f"part `{operation['x-service']}`")
    facts += [f"body [{name}](#{name.lower()})" for name in _bodies(operation)]
    yield from ("", f"### {method} {path}", "", operation["summary"], "", " · ".join(facts))
    if operation["description"] != operation["summary"]:
        yield from ("", " ".join(operation["description"].split()))
    parameters = [said for said in operation["parameters"] if said.get("in") == "query"]
    if parameters:
        yield from ("", "| parameter | value | meaning |", "| --- | --- | --- |")
        for said in parameters:
            yield _row(said["name"], said["schema"] | {"description": said.get("description", "")}, known)


def _bodies(operation: Description) -> list[str]:
    """The names of the schemas of what is sent."""
    content = operation.get("requestBody", {}).get("content", {}).values()
    return sorted({name for media in content for name in _references(media["schema"])})


def _references(schema: Description) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    for below in (
        *schema.get("anyOf", ()),
        *schema.get("oneOf", ()),
        *([schema["items"]] if isinstance(schema.get("items"), dict) else []),
    ):
        yield from _references(below)


def _body(name: str, known: Description) -> Iterator[str]:
    schema = known[name]
    yield from ("", f"### {name}", "")
    if schema.get("description"):
        yield from (" ".join(schema["description"].split()), "")
    if "oneOf" in schema:
        yield "One of " + ", ".join(_value(part, known) for part in schema["oneOf"]) + "."
        return
    if name == "JobChangeBody":
        yield "They are those of [JobBody](#jobbody); none is required."
        return
    yield from ("| field | value | meaning |", "| --- | --- | --- |")
    required = set(schema.get("required", ()))
    for field, said in schema.get("properties", {}).items():
        yield _row(field, said, known, required=field in required)


def _row(name: str, said: Description, known: Description, *, required: bool = False) -> str:
    facts = [_value(said, known)]
    if required:
        facts.append("required")
    if said.get("default") not in (None, [], {}):
        facts.append(f"default `{json.dumps(said['default'])}`")
    return f"| `{name}` | {', '.join(facts)} | {' '.join(_meaning(said).split())} |".replace("|  |", "| |")


def _meaning(said: Description) -> str:
    texts = [said.get("description", ""), *(_meaning(below) for below in said.get("anyOf", ()))]
    return next((text for text in texts if text), "")


def _value(said: Description, known: Description) -> str:
    """A schema in a few words."""
    if "$ref" in said:
        name = said["$ref"].rpartition("/")[2]
        if "oneOf" in known[name] or "properties" in known[name]:
            return f"[{name}](#{name.lower()})"
        return _value(known[name], known)
    if "anyOf" in said:
        return " or ".join(dict.fromkeys(_value(below, known) for below in said["anyOf"]))
    if "enum" in said:
        return " or ".join("null" if value is None else f"`{value}`" for value in said["enum"])
    kind = said.get("type", "any JSON")
    if isinstance(kind, list):
        return " or ".join(_value(said | {"type": each}, known) if each != "null" else "null" for each in kind)
    if kind == "array":
        return f"array of {_value(said.get('items') or {}, known)}"
    words: dict[str, str] = {"date-time": "time", "uuid": "id"}
    return words.get(str(said.get("format")), str(kind)) + _limits(said)


def _limits(said: Description) -> str:
    least = said.get("minimum", said.get("exclusiveMinimum"))
    most = said.get("maximum", said.get("exclusiveMaximum"))
    if least is not None and most is not None:
        return f" {'over' if 'exclusiveMinimum' in said else 'from'} {_number(least)} to {_number(most)}"
    if "maxLength" in said:
        return f" of at most {said['maxLength']} characters"
    return ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


if __name__ == "__main__":
    (ROOT / PLACE).write_text(page(), encoding="utf-8")
