"""Answers beside the description of the API: status, headers and body are those that it names for the route."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from typing import Any, Final

import httpx2
import jsonschema_rs
import msgspec

from tests.support.kinds import builtin_kinds
from tickwise.api.openapi import describe, document
from tickwise.api.resources import RESOURCES
from tickwise.api.wire import API, encode

Schema = dict[str, Any]

NO_ROUTE: Final = frozenset({401, 404, 405, 429})
"""The statuses of answers to requests that no operation takes."""
NDJSON: Final = "application/x-ndjson"
"""Described as text: each line is a document of its own."""
_FRAMED: Final = frozenset(
    {"content-type", "content-length", "x-content-type-options", "allow", "content-security-policy", "referrer-policy"}
)
"""The headers that any answer may have without a description."""


class Description:
    """The description, indexed for answers."""

    def __init__(self, said: Schema) -> None:
        self.said = said
        self._paths = [(_pattern(path), path) for path in sorted(said["paths"], key=lambda path: "{" in path)]

    @cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        return jsonschema_rs.Registry([("urn:tickwise", self.said)])

    @cache  # noqa: B019 - there is one description a process
    def _validator(self, pointer: str) -> jsonschema_rs.Validator:
        schema = {"$ref": f"urn:tickwise#{pointer}"}
        return jsonschema_rs.Draft202012Validator(schema, registry=self._registry, validate_formats=True)

    def errors(self, pointer: str, value: Any) -> Iterator[str]:
        """The errors of a value, by the schema at a place of the description."""
        for error in self._validator(pointer).iter_errors(value):
            yield f"/{'/'.join(map(str, error.instance_path))}: {error.message[:300]}"

    def complaints(self, method: str, path: str, status: int, headers: dict[str, str], body: bytes) -> list[str]:
        """In what an answer is not as it is described."""
        if not path.startswith(API) or status == 500:
            # A server's own error is described nowhere: there should be none.
            return []
        known = next((place for pattern, place in self._paths if pattern.fullmatch(path)), None)
        # A HEAD is answered as its GET, and is described by it.
        verb = "get" if method == "HEAD" else method.lower()
        operation = self.said["paths"].get(known, {}).get(verb)
        if operation is None:
            return [] if status in NO_ROUTE else [f"{status} of a route that is not described"]
        pointer = f"/paths/{_escaped(known or '')}/{verb}/responses/{status}"
        response = operation["responses"].get(str(status))
        if response is None:
            return [f"the status {status} is not described"]
        if "$ref" in response:
            pointer = response["$ref"].removeprefix("#")
            response = self.said["components"]["responses"][pointer.rpartition("/")[2]]
        described = {name.lower() for name in response.get("headers", {})} | _FRAMED
        found = [f"the header {name} is not described" for name in headers if name.lower() not in described]
        media = headers.get("content-type", "").split(";")[0]
        if media not in response.get("content", {"": {}}):
            return [*found, f"the media type {media} is not described"]
        if not media.endswith("json") or method == "HEAD":
            return [*found, "it has a body"] if body and (method == "HEAD" or not media) else found
        place = f"{pointer}/content/{_escaped(media)}/schema"
        return [*found, *self.errors(place, body.decode() if media == NDJSON else msgspec.json.decode(body))]


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


async def check_answer(answer: httpx2.Response) -> None:
    """A hook of a client: an answer that is not as described fails the test that asked for it."""
    request = answer.request
    path = request.url.raw_path.partition(b"?")[0].decode()
    body = await answer.aread()
    found = description().complaints(request.method, path, answer.status_code, dict(answer.headers), body)
    assert found == [], f"{request.method} {path}: {'; '.join(found)}"


@lru_cache(maxsize=1)
def description() -> Description:
    """The description by a server with the built-in kinds of tasks, without the routes about its own process."""
    kinds = builtin_kinds()
    endpoints = [*RESOURCES, describe(RESOURCES, kinds)]
    return Description(msgspec.json.decode(encode(document(endpoints, kinds))))
