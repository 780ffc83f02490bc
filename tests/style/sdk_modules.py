"""The written modules of the SDK, from the description that the server gives: `python -m tests.style.sdk_modules`.

    /openapi.json ──► components/schemas ──► tickwise_sdk/types.py         a TypedDict for each body and answer
                  ──► paths              ──► tickwise_sdk/calls.py         a method for each operation
                                         ──► tickwise_sdk/async_calls.py   the same with `await`

The description is made from the types that decode bodies and encode answers, so these modules cannot say anything else.
Python 3.10 has no `NotRequired`: a type with required and other members is two classes.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tests.style.api_page import description
from tests.style.tree import ROOT

FOLDER: Final = "sdk/src/tickwise_sdk"
PLACES: Final = (f"{FOLDER}/types.py", f"{FOLDER}/calls.py", f"{FOLDER}/async_calls.py")
BY_HAND: Final = frozenset({"describe", "streamEvents", "streamRunLog"})
"""Operations that are no methods: streams are followed by `tickwise_sdk.events`."""
Schema = Mapping[str, Any]

_SIMPLE: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_TYPES_HEAD: Final = '''\
"""The bodies and answers of the API, as they are written in JSON.

Written from the description of the API by `python -m tests.style.sdk_modules`; a test compares. Times are texts of
RFC 3339, ids are texts. Answers gain members with time.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

'''
_CALLS_HEAD: Final = '''\
"""{title}

Written from the description of the API by `python -m tests.style.sdk_modules`; a test compares. A listing gives the
items of all its pages, one request a page; `limit` is the size of a page. A server that buffers requests answers
writes with a `types.PendingView` until they are applied.
"""

from __future__ import annotations

from collections.abc import {iterator}, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tickwise_sdk.exchange import given, safe
from tickwise_sdk.frame import {frame}

if TYPE_CHECKING:
    from tickwise_sdk import types


class {name}({frame}):
    """{about}"""

'''


# ------------------------------------------------------------------------------------------ types


class TypeWriter:
    """Writes the types of a description."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._written: list[str] = []

    def module(self) -> str:
        """The whole module."""
        aliases = [name for name, schema in self._schemas.items() if not self._is_object(schema)]
        for name, schema in self._schemas.items():
            if name not in aliases:
                self._class(name, schema)
        lines = [f"{name} = {self._alias(self._schemas[name])}\n" for name in aliases]
        return formatted(_TYPES_HEAD + "\n".join(self._written) + "\n" + "\n".join(lines))

    def _is_object(self, schema: Schema) -> bool:
        return schema.get("type") == "object" and "properties" in schema and not _is_open(schema)

    def _alias(self, schema: Schema) -> str:
        """The value of a name that is no class: evaluated when the module is loaded, so without `|`."""
        parts = schema.get("oneOf") or schema.get("anyOf")
        if parts:
            return f"Union[{', '.join(repr(of(part)) for part in parts)}]"
        return of(schema)

    def _class(self, name: str, schema: Schema) -> None:
        """A class, or two: its required members are in its base."""
        members = {key: (self._member(name, key, said), said) for key, said in schema["properties"].items()}
        required = {key for key in schema.get("required", ()) if key in members}
        said = schema.get("description", f"The members of {name}.")
        if any(not key.isidentifier() or keyword.iskeyword(key) for key in members):
            self._written.append(self._functional(name, members, required))
            return
        must = [_field(key, kind, about) for key, (kind, about) in members.items() if key in required]
        may = [_field(key, kind, about) for key, (kind, about) in members.items() if key not in required]
        doc = docstring(said, 4)
        if must and may:
            self._written.append(f"class _{name}Required(TypedDict):\n" + "".join(must) + "\n")
            self._written.append(f"class {name}(_{name}Required, total=False):\n{doc}\n" + "".join(may) + "\n")
        else:
            total = "" if must or not may else ", total=False"
            self._written.append(f"class {name}(TypedDict{total}):\n{doc}\n" + "".join(must or may) + "\n")

    def _functional(self, name: str, members: Mapping[str, tuple[str, Schema]], required: set[str]) -> str:
        """A type with a member that is a word of Python, such as `from`."""

        def dictionary(keys: list[str], total: str, called: str) -> str:
            inner = ", ".join(f"{key!r}: {members[key][0]!r}" for key in keys)
            return f"{called} = TypedDict({called!r}, {{{inner}}}{total})\n"

        must = [key for key in members if key in required]
        may = [key for key in members if key not in required]
        if not must or not may:
            return dictionary(must or may, "" if must else ", total=False", name)
        both = f"class {name}(_{name}Required, _{name}Optional):\n{docstring(f'The members of {name}.', 4)}\n"
        return dictionary(must, "", f"_{name}Required") + dictionary(may, ", total=False", f"_{name}Optional") + both

    def _member(self, owner: str, key: str, schema: Schema) -> str:
        """The type of a member. An object that is described in its place gets a name of its own."""
        if self._is_object(schema):
            name = owner + "".join(part.capitalize() for part in re.split(r"\W|_", key))
            self._class(name, schema)
            return name
        return of(schema)


def _is_open(schema: Schema) -> bool:
    """Check whether an object is mostly other members: a task of any kind."""
    return schema.get("additionalProperties") is True and set(schema["properties"]) == {"kind"}


def _field(key: str, kind: str, schema: Schema) -> str:
    said = schema.get("description")
    return f"    {key}: {kind}\n" + (docstring(said, 4) if said else "")


def docstring(text: str, indent: int) -> str:
    """A text as a string of documentation, in lines of at most 120 characters."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    text = text if text.endswith((".", "…", "?")) else f"{text}."
    pad = " " * indent
    lines = textwrap.wrap(f'"""{text}', 120 - indent - 3)
    return "\n".join(f"{pad}{line}" for line in lines) + '"""\n'


def of(schema: Schema, prefix: str = "") -> str:
    """The type of a schema, as Python writes it. `prefix` stands before the names of components."""
    if "$ref" in schema:
        return prefix + str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        values = [value for value in schema["enum"] if value is not None]
        none = " | None" if len(values) < len(schema["enum"]) else ""
        return f"Literal[{', '.join(map(repr, values))}]{none}"
    parts = schema.get("anyOf") or schema.get("oneOf")
    if parts:
        return _joined(of(part, prefix) for part in parts)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _joined(of({**schema, "type": one}, prefix) for one in kind)
    if kind == "array":
        return f"list[{of(schema.get('items', {}), prefix)}]"
    if kind == "object":
        further = schema.get("additionalProperties")
        return f"dict[str, {of(further, prefix) if isinstance(further, dict) else 'Any'}]"
    return _SIMPLE.get(str(kind), "Any")


def _joined(types: Iterable[str]) -> str:
    """A union. Python keeps one order for each set of members, that of the first mention in a process: None is last."""
    found = [*types]
    named = dict.fromkeys(each.removesuffix(" | None") for each in found if each != "None")
    return " | ".join([*named, *(["None"] if any(each.endswith("None") for each in found) else ())])


# ------------------------------------------------------------------------------------------ operations


def snake(name: str) -> str:
    """`createJob` as Python writes it."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


class CallWriter:
    """Writes the methods of a description."""

    def __init__(self, paths: Mapping[str, Any], parameters: Mapping[str, Any], *, is_async: bool) -> None:
        self._paths = paths
        self._parameters = parameters
        self._async = is_async

    def module(self) -> str:
        """The whole module."""
        head = _CALLS_HEAD.format(
            title=f"The operations of the API, as methods of {'`AsyncClient`' if self._async else '`Client`'}.",
            iterator="AsyncIterator" if self._async else "Iterator",
            frame="AsyncFrame" if self._async else "Frame",
            name="AsyncCalls" if self._async else "Calls",
            about="A method for each operation; raises as `request` does.",
        )
        return formatted(head + "\n".join(self._methods()))

    def _methods(self) -> Iterator[str]:
        for path, methods in self._paths.items():
            if not path.startswith("/api/v1/"):
                continue
            for method, said in methods.items():
                if said["operationId"] not in BY_HAND and method != "head":
                    yield self._method(method.upper(), path.removeprefix("/api/v1"), said)

    def _method(self, method: str, path: str, said: Schema) -> str:
        given = [self._resolved(each) for each in said["parameters"]]
        positional = [f"{each['name']}: str" for each in given if each["in"] == "path"]
        query = [each for each in given if each["in"] == "query" and each["name"] != "cursor"]
        named = [self._query_parameter(each) for each in query]
        arguments = [_path(path)]
        body = _body_type(said)
        if body is not None:
            kind, must = body
            positional.append(f"body: {kind}" + ("" if must else " | None = None"))
            arguments.append("body=body")
        if query:
            values = ", ".join(f"{each['name']!r}: {_name(each['name'])}" for each in query)
            arguments.append(f"query={{{values}}}")
        headers = [name for name in ("Idempotency-Key", "If-Match") if name in {each["name"] for each in given}]
        headers = [name for name in headers if method != "GET"]
        named += [f"{_name(name)}: str | None = None" for name in headers]
        media = _media(said)
        pairs = [f"{name!r}: {_name(name)}" for name in headers]
        pairs += [f"'Content-Type': {media!r}"] if media else []
        if pairs:
            arguments.append(f"headers=given({{{', '.join(pairs)}}})")
        signature = ", ".join(["self", *positional, *(["*"] if named else []), *named])
        pages = any(each["name"] == "cursor" for each in given)
        return self._written(method, said, signature, arguments, pages=pages)

    def _written(self, method: str, said: Schema, signature: str, arguments: list[str], *, pages: bool) -> str:
        name, about = snake(said["operationId"]), said["summary"]
        doc = docstring(about if said["description"] == about else f"{about} {said['description']}", 8)
        answer = _answer_type(said)
        begin, wait = ("async def", "await ") if self._async else ("def", "")
        opened, closed = ("(await ", ")") if self._async else ("", "")
        if pages:
            iterator = "AsyncIterator" if self._async else "Iterator"
            item = answer.removeprefix("list[").removesuffix("]")
            assert answer.startswith("list["), (said["operationId"], answer)
            return (
                f"    def {name}({signature}) -> {iterator}[{item}]:\n{doc}"
                f"        return self.items({', '.join(arguments)})\n"
            )
        if answer == "bytes":
            return (
                f"    {begin} {name}({signature}) -> bytes:\n{doc}"
                f"        return {wait}self.request_bytes({', '.join(arguments)})\n"
            )
        return (
            f"    {begin} {name}({signature}) -> {answer}:\n{doc}"
            f"        answer: {answer} = {opened}self.request({', '.join([repr(method), *arguments])}){closed}.body\n"
            f"        return answer\n"
        )

    def _resolved(self, parameter: Schema) -> Schema:
        reference = parameter.get("$ref")
        found: Schema = self._parameters[reference.rpartition("/")[2]] if reference else parameter
        return found

    def _query_parameter(self, parameter: Schema) -> str:
        kind = of(parameter["schema"], "types.").replace("list[", "Sequence[")
        if parameter["required"]:
            return f"{_name(parameter['name'])}: {kind}"
        return f"{_name(parameter['name'])}: {kind.removesuffix(' | None')} | None = None"


def _name(name: str) -> str:
    """A parameter as Python writes it."""
    name = name.replace("-", "_").lower() if "-" in name else name
    return f"{name}_" if keyword.iskeyword(name) or name in ("format", "list") else name


def _path(path: str) -> str:
    filled = re.sub(r"\{(\w+)\}", r"{safe(\1)}", path)
    return f'f"{filled}"' if filled != path else f'"{path}"'


def _body_type(said: Schema) -> tuple[str, bool] | None:
    """The type of the body, and whether it must be sent."""
    body = said.get("requestBody")
    if body is None:
        return None
    as_json = body["content"].get("application/json")
    return ("bytes" if as_json is None else of(as_json["schema"], "types.")), bool(body["required"])


def _media(said: Schema) -> str | None:
    """The media type of a body that is not JSON."""
    content = said.get("requestBody", {}).get("content", {"application/json": {}})
    return None if "application/json" in content else str(next(iter(content)))


def _answer_type(said: Schema) -> str:
    """The type of an answer of success. 202 counts where there is no other: see the module's text."""
    statuses = sorted(status for status in said["responses"] if status.startswith("2"))
    kinds: list[str] = []
    for status in [each for each in statuses if each != "202"] or statuses:
        content = said["responses"][status].get("content", {})
        if content and "application/json" not in content:
            return "bytes"
        if content:
            kinds.append(of(content["application/json"]["schema"], "types."))
    return " | ".join(dict.fromkeys(kinds)) or "None"


# ------------------------------------------------------------------------------------------ all


def formatted(source: str) -> str:
    """A module as ruff formats it, with what it does not use taken out."""
    ruff = [sys.executable, "-m", "ruff"]
    place = str(ROOT / FOLDER / "written.py")
    fixed = _through(
        [*ruff, "check", "--quiet", "--fix-only", "--select", "F401,I,UP", "--stdin-filename", place, "-"], source
    )
    return _through([*ruff, "format", "--quiet", "--stdin-filename", place, "-"], fixed)


def _through(command: list[str], source: str) -> str:
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def modules() -> dict[str, str]:
    """The text of each module, by its place."""
    said = description()
    parameters = said["components"]["parameters"]
    texts = (
        TypeWriter(said["components"]["schemas"]).module(),
        CallWriter(said["paths"], parameters, is_async=False).module(),
        CallWriter(said["paths"], parameters, is_async=True).module(),
    )
    return dict(zip(PLACES, texts, strict=True))


if __name__ == "__main__":
    for place, text in modules().items():
        (ROOT / place).write_text(text, encoding="utf-8")
