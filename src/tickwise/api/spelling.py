"""Names in two spellings: `task_id` and `taskId` are one field, of a body as of a query. Answers have one spelling.

Read as it is described, a body costs nothing more. One that cannot be read so is looked at again: members in the other
spelling are renamed, and a single value stands for a list of one. Where a field is at fault, the problem points at it
in the spelling of the caller, which is found by looking once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec

from tickwise.domain.errors import Invalid

_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_LOW: Final = re.compile(r"_([a-z0-9])")

MAX_VALUES: Final = 10_000
"""After so many values of one body the others stay as they are: no request that is meant well has so many that are
described, and each costs some 10 microseconds, in which nobody else is served."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class Respelled(NamedTuple):
    """A body in the spelling of its description."""

    body: bytes
    pointers: Mapping[str, str]
    """From where a member is now to where the caller wrote it."""

    def pointer(self, pointer: str) -> str:
        """A place in the body, as the caller wrote it."""
        for now in sorted(self.pointers, key=len, reverse=True):
            if pointer == now or pointer.startswith(now + "/"):
                return self.pointers[now] + pointer[len(now) :]
        return pointer


def spellings(name: str) -> tuple[str, ...]:
    """A name in the other spelling; none if both are one."""
    snake = _HUMP.sub(lambda found: "_" + found[1].lower(), name)
    camel = _LOW.sub(lambda found: found[1].upper(), name)
    return tuple({snake, camel} - {name})


@lru_cache(maxsize=512)
def other_spellings(names: tuple[str, ...]) -> Mapping[str, str]:
    """From each other spelling to the name that is meant."""
    return {other: name for name in names for other in spellings(name) if other not in names}


def respelled(kind: Any, body: bytes) -> Respelled | None:
    """The body with all names as they are described; None if they were. Raises `Invalid` for a field that is there in
    two spellings with two values."""
    pointers = _Pointers()
    try:
        value = _respelled(kind, msgspec.Raw(body), _Place("", ""), pointers)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Respelled(_encode(value), pointers) if pointers else None


def as_spelled(kind: Any, body: bytes, pointer: str) -> str:
    """A pointer into a body as it is described, as one into the body that the caller sent."""
    found = respelled(kind, body)
    return pointer if found is None else found.pointer(pointer)


class _Pointers(dict[str, str]):
    """From where members are now to where the caller wrote them."""

    looked_at = 0
    """The number of values."""


class _Place(NamedTuple):
    now: str
    written: str

    def below(self, name: str | int, written: str | int) -> _Place:
        return _Place(f"{self.now}/{_escaped(name)}", f"{self.written}/{_escaped(written)}")


class _Shape(NamedTuple):
    """The types that an annotation allows."""

    parts: Sequence[Any]
    structs: tuple[type[msgspec.Struct], ...]
    lists: Sequence[Any]
    items: tuple[Any, ...]
    """The item type of a list."""


@lru_cache(maxsize=2_048)
def _shape(kind: Any) -> _Shape:
    parts = list(_parts(kind))
    structs = tuple(part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct))
    lists = [part for part in parts if get_origin(part) in (list, tuple)]
    return _Shape(parts, structs, lists, tuple(argument for part in lists for argument in get_args(part)))


@lru_cache(maxsize=512)
def _fields(structs: tuple[type[msgspec.Struct], ...]) -> Mapping[str, Any]:
    """The type of each member. msgspec looks at the annotations anew each time."""
    return {field.encode_name: field.type for struct in structs for field in msgspec.structs.fields(struct)}


def _respelled(kind: Any, raw: msgspec.Raw, place: _Place, pointers: _Pointers) -> Any:
    parts, structs, lists, items = _shape(kind)
    pointers.looked_at += 1
    if pointers.looked_at > MAX_VALUES:
        return raw
    first = bytes(memoryview(raw)[:64]).lstrip()[:1]
    if first == b"{" and structs:
        return _object_respelled(structs, raw, place, pointers)
    if first == b"[":
        return _array_respelled(parts, items, raw, place, pointers)
    if first == b'"' and lists and all(_is_choice(part) for part in parts):
        pointers[f"{place.now}/0"] = place.written
        return [raw]
    return raw


def _array_respelled(
    parts: Sequence[Any], items: tuple[Any, ...], raw: msgspec.Raw, place: _Place, pointers: _Pointers
) -> Any:
    values = _array(raw)
    if len(values) > MAX_VALUES:
        return raw
    if not items:
        if len(values) == 1 and any(isinstance(part, type) and issubclass(part, Enum) for part in parts):
            pointers[place.now] = f"{place.written}/0"
            return values[0]
        return raw
    return [_respelled(items, each, place.below(number, number), pointers) for number, each in enumerate(values)]


def _object_respelled(
    structs: tuple[type[msgspec.Struct], ...], raw: msgspec.Raw, place: _Place, pointers: _Pointers
) -> dict[str, Any]:
    fields = _fields(structs)
    others = other_spellings(tuple(fields))
    members = _object(raw)
    if len(members) > MAX_VALUES:
        return dict(members)
    found: dict[str, Any] = {}
    for written, value in members.items():
        name = others.get(written, written)
        here = place.below(name, written)
        if name != written:
            if name in members and _plain(members[name]) != _plain(value):
                detail = f"{written} and {name} are one field, and their values differ; send one of them"
                raise Invalid(detail, pointer=here.written)
            pointers[here.now] = here.written
        found[name] = _respelled(fields[name], value, here, pointers) if name in fields else value
    return found


def _plain(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


def _is_choice(part: Any) -> bool:
    """A list of values of an enumeration, or something that stands for no value."""
    if get_origin(part) in (list, tuple):
        return all(isinstance(item, type) and issubclass(item, Enum) for item in get_args(part) if item is not ...)
    return part is type(None) or part is msgspec.UnsetType


def _parts(kind: Any) -> Iterator[Any]:
    """The types that an annotation allows, through `Annotated` and unions; a tuple of annotations is a union as
    well."""
    if isinstance(kind, tuple):
        for part in kind:
            yield from _parts(part)
    elif get_origin(kind) in (list, tuple, dict) or not get_args(kind):
        yield kind
    else:
        for argument in get_args(kind):
            if not isinstance(argument, msgspec.Meta):
                yield from _parts(argument)


def _escaped(name: str | int) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
