"""The schemas of the description: from the types that decode bodies and encode answers, in forms that generators read.

    types of bodies and answers ──msgspec──► JSON Schema ──plain──► components/schemas
    task kinds (built in, plugins) ──their own schema──► PythonTask, … ──► Task, told apart by `kind`

Validators read what msgspec writes; programs that make clients are more particular. They need a type beside each
`enum`, one place for a description, no default beside a reference, and an object that may grow said to be open.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final

import msgspec

from tickwise.ports.runner import TaskKind

Schema = dict[str, Any]

REF: Final = "#/components/schemas/{name}"
TASK: Final = "Task"
OTHER_TASK: Final = "PluginTask"
STORED_TASK: Final = "StoredTask"

SHARED: Final = frozenset({"After", "LetterStatus", "Overlap", "RunState", "ScheduleType"})
"""Enumerations with a name of their own. No value stands in two of them: Go has one room for all constants of a client.
Every other enumeration is written where it is used."""
OPEN: Final = frozenset({"Because"})
"""Enumerations that gain values: a client that knows only the present ones would fail at the first new one."""

NO_NEWLINE: Final = r"(?!\n)"
"""Ends the patterns of texts, because in Python `$` matches before a newline at the end, too. In ECMA-262, whose
patterns JSON Schema has, it does not; and Go's patterns look nowhere ahead."""

DEMANDED: Final[Mapping[str, tuple[str, ...]]] = {"JobBody": ("name",)}
"""Fields that are optional where a body is read, because a change shares its type, and that a caller must send.

A job that names a stored task by `taskId` may leave its name out, as the description of `name` says. A choice of two
schemas for that leniency becomes a class for each choice, or a class without fields, in every generator."""


def components(bodies: Iterable[Any], answers: Iterable[Any], kinds: Collection[TaskKind]) -> dict[str, Schema]:
    """`components/schemas`: every type that is named by the bodies and answers, and the tasks of these kinds."""
    asked = dict(_structs(bodies))
    told = dict(_structs(answers))
    _, found = msgspec.json.schema_components([*asked.values(), *told.values()], ref_template=REF)
    for name, schema in found.items():
        struct = asked.get(name) or told.get(name)
        if struct is not None:
            _complete(schema, struct, is_answer=name not in asked)
    named = {name: schema for name, schema in found.items() if not _is_inlined(name, schema)}
    return {name: plain(_written_out(schema, found)) for name, schema in named.items()} | task_schemas(kinds)


def schema_of(kind: Any) -> Schema:
    """The schema of one type, by reference where it has a name."""
    (schema,), found = msgspec.json.schema_components([kind], ref_template=REF)
    return plain(_written_out(schema, found))


def fields_of(struct: type[msgspec.Struct]) -> Iterator[tuple[str, Schema, bool]]:
    """Each field: its name as it is written, its schema, and whether it must be sent."""
    _, found = msgspec.json.schema_components([struct], ref_template=REF)
    own = found[struct.__name__]
    _complete(own, struct, is_answer=False)
    for name, schema in own["properties"].items():
        yield name, plain(_written_out(schema, found)), name in own.get("required", ())


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": REF.format(name=name)}


# ------------------------------------------------------------------------------------------ structs


def _structs(kinds: Iterable[Any]) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Every struct that is reached from these types, by its name."""
    seen: set[Any] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        for part in _parts(kind):
            if part in seen or not (isinstance(part, type) and issubclass(part, msgspec.Struct)):
                continue
            seen.add(part)
            yield part.__name__, part
            waiting += [field.type for field in msgspec.structs.fields(part)]


def _parts(kind: Any) -> Iterator[Any]:
    arguments = getattr(kind, "__args__", ())
    yield kind
    for argument in arguments:
        yield from _parts(argument)


def _complete(schema: Schema, struct: type[msgspec.Struct], *, is_answer: bool) -> None:
    """Add the facts of a struct that msgspec leaves out: notes on fields, and the required fields of bodies and
    answers."""
    notes = _field_notes(struct)
    properties = schema.get("properties", {})
    by_name = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for name, said in properties.items():
        note = notes.get(by_name[name].name)
        if note and not _described(said):
            said["description"] = note
    demanded = DEMANDED.get(struct.__name__, ())
    for name in demanded:
        properties[name] = next(part for part in properties[name]["anyOf"] if part.get("type") != "null")
    required = {*schema.get("required", ()), *demanded}
    if is_answer:
        # Answers gain members with time. A client that was made before must read on.
        schema["additionalProperties"] = True
        if not struct.__struct_config__.omit_defaults:
            required |= {name for name, field in by_name.items() if not _may_be_unset(field.type)}
    schema["required"] = [name for name in properties if name in required]


def _described(schema: Schema) -> bool:
    return "description" in schema or any("description" in part for part in schema.get("anyOf", ()))


def _may_be_unset(kind: Any) -> bool:
    return any(part is msgspec.UnsetType for part in _parts(kind))


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _field_notes(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The text under each field, of the struct and its bases. Without the source there are none."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        module = inspect.getmodule(base)
        if module is None or not issubclass(base, msgspec.Struct) or base is msgspec.Struct:
            continue
        try:
            tree = _tree(module)
        except (OSError, TypeError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                found |= _notes_within(node)
    return found


def _notes_within(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, note in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant) and isinstance(note.value.value, str):
            found[field.target.id] = note.value.value
    return found


# ------------------------------------------------------------------------------------------ plain forms


def _is_inlined(name: str, schema: Schema) -> bool:
    return "enum" in schema and name not in SHARED


def _written_out(schema: Any, found: Mapping[str, Schema]) -> Any:
    """This schema with its enumerations in place of references to them, but for the shared ones."""
    if isinstance(schema, list):
        return [_written_out(part, found) for part in schema]
    if not isinstance(schema, dict):
        return schema
    written = {name: _written_out(part, found) for name, part in schema.items()}
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name not in found or not _is_inlined(name, found[name]):
        return written
    del written["$ref"]
    values = found[name]["enum"]
    if name in OPEN:
        return {"type": "string", "description": f"One of {', '.join(values)}; new ones may come.", **written}
    return {"type": "string", "enum": values, **written}


def plain(schema: Schema) -> Schema:
    """This schema in the form that every generator reads."""
    found = {name: _below(name, value) for name, value in schema.items() if name != "title"}
    if "description" in found:
        found["description"] = " ".join(found["description"].split())
    if "pattern" in found:
        found["pattern"] = found["pattern"].removesuffix(NO_NEWLINE)
    if "enum" in found and "type" not in found:
        found["type"] = "string" if all(isinstance(value, str) for value in found["enum"]) else "integer"
    if not found.get("required", True):
        del found["required"]
    if isinstance(found.get("default", ...), dict | list | tuple | None):
        del found["default"]
    return _one_of_null(found) if "anyOf" in found else found


def _below(name: str, value: Any) -> Any:
    if name == "properties":
        return {field: plain(schema) for field, schema in value.items()}
    if name in ("items", "additionalProperties", "propertyNames") and isinstance(value, dict):
        return plain(value)
    if name in ("anyOf", "oneOf", "allOf"):
        return [plain(part) for part in value]
    return value


def _one_of_null(schema: Schema) -> Schema:
    """A choice with null: the description stands outside, and a plain type becomes a type that may be null."""
    parts = schema.pop("anyOf")
    texts = [part.pop("description") for part in parts if "description" in part]
    if texts and "description" not in schema:
        schema["description"] = texts[0]
    if {} in parts:
        return schema
    others = [part for part in parts if part != {"type": "null"}]
    if len(others) == 1 and len(others) < len(parts) and isinstance(others[0].get("type"), str):
        (only,) = others
        found = {**only, **schema, "type": [only["type"], "null"]}
        if "enum" in found:
            found["enum"] = [*found["enum"], None]
        return found
    return {**schema, "anyOf": parts}


# ------------------------------------------------------------------------------------------ tasks


def task_schemas(kinds: Collection[TaskKind]) -> dict[str, Schema]:
    """`Task`, which is sent: one of the kinds, or the open form of a kind that is not known here. `StoredTask`, which
    is answered: open, so that a client reads the tasks of kinds that its description did not name."""
    named = {_class_name(kind.name): kind for kind in sorted(kinds, key=lambda kind: kind.name)}
    found = {name: _task_schema(kind) for name, kind in named.items()}
    known = "|".join(re.escape(kind.name) for kind in named.values())
    found[OTHER_TASK] = {
        "type": "object",
        "description": "A task of a kind that a plugin adds to another server; its fields are the plugin's.",
        "properties": {"kind": {"type": "string", "pattern": f"^(?!({known})$)", "minLength": 1}},
        "required": ["kind"],
        "additionalProperties": True,
    }
    found[STORED_TASK] = {
        "type": "object",
        "description": "A task in its long form: its kind, and the fields of that kind.",
        "properties": {"kind": {"type": "string"}},
        "required": ["kind"],
        "additionalProperties": True,
    }
    found[TASK] = {
        "description": "The task to run. `kind` says which of these it is.",
        "oneOf": [ref(name) for name in (*named, OTHER_TASK)],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {kind.name: REF.format(name=name) for name, kind in named.items()},
        },
    }
    return found


def _class_name(kind: str) -> str:
    return "".join(part.capitalize() for part in kind.replace("-", "_").replace(".", "_").split("_")) + "Task"


def _task_schema(kind: TaskKind) -> Schema:
    schema: Schema = plain(dict(kind.schema))
    description = " ".join((type(kind).__doc__ or f"A task of the kind `{kind.name}`.").split())
    choices = schema.get("oneOf", ())
    if choices and all(set(choice) == {"required"} for choice in choices):
        # A choice of names beside the properties makes an empty class of each choice. It is said in words instead.
        names = [f"`{name}`" for choice in choices for name in choice["required"]]
        description += f" Send exactly one of {', '.join(names)}."
        del schema["oneOf"]
    properties = {**schema.get("properties", {}), "kind": {"type": "string", "enum": [kind.name]}}
    return {**schema, "description": description, "properties": properties}
