"""Values of a program as JSON, and back, by their types: one implementation for clients and workers.

    date(2026, 1, 31) ──to_json──► "2026-01-31" ──from_json──► date(2026, 1, 31)

`conversion_of` reads a type once, where a task is declared, and refuses one that cannot travel. What it gives is quick
functions. Both directions check: a client refuses a wrong argument before it is sent, a worker a wrong payload before
the function is called.

A value has one JSON form, whichever library describes it. Types of msgspec and pydantic convert themselves; neither
library is needed, and neither is imported here.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import contextlib
import dataclasses
import enum
import math
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwise_sdk.errors import RegistrationError

Step = Callable[[Any], Any]


class Mismatch(Exception):
    """A value that does not fit its type. `path` leads to it, from the outermost."""

    def __init__(self, expected: str, value: object) -> None:
        super().__init__(expected)
        self.expected = expected
        self.value = value
        self.path: tuple[str, ...] = ()

    def within(self, part: str) -> Mismatch:
        """Add the part that leads here from one level further out."""
        self.path = (part, *self.path)
        return self

    def __str__(self) -> str:
        where = "".join(self.path).removeprefix(".")
        said = repr(self.value)
        said = said if len(said) <= 80 else f"{said[:77]}..."
        return f"{f'`{where}`: ' if where else ''}expected {self.expected}, got {said}"


class Conversion(NamedTuple):
    """The two ways of a type. Both raise `Mismatch`."""

    to_json: Step
    from_json: Step
    is_free: bool = False
    """True: any JSON value goes through unchanged and unchecked."""
    is_text: bool = False
    """True: its JSON is a text, so it may be the key of an object."""
    is_native: bool = True
    """True: the encoder of a worker writes it in the same form by itself."""


def conversion_of(annotation: Any, *, subject: str) -> Conversion:
    """The conversion of a type. `subject` names what has the type, for the message of the `RegistrationError` that is
    raised for one that cannot travel as JSON."""
    return _Reader(subject).read(annotation)


def hints_of(thing: Any, *, subject: str) -> dict[str, Any]:
    """The types of a function's parameters or of a class's fields. Raises `RegistrationError` if one cannot be
    found."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise RegistrationError(
            f"the types of {subject} cannot be read: {error}; they are needed at run time, so import them outside of "
            "`if TYPE_CHECKING:`, and declare the task at the top of a module"
        ) from None


# ------------------------------------------------------------------------------------------ plain values


def _unchanged(value: Any) -> Any:
    return value


FREE: Final = Conversion(_unchanged, _unchanged, is_free=True)


def _exactly(kind: type, expected: str) -> Conversion:
    def checked(value: Any) -> Any:
        if type(value) is kind or (isinstance(value, kind) and not isinstance(value, bool)):
            return value
        raise Mismatch(expected, value)

    return Conversion(checked, checked, is_text=kind is str)


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise Mismatch("true or false", value)


def _number(value: Any) -> float:
    if isinstance(value, float):
        if math.isfinite(value):
            return value
    elif isinstance(value, int) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    raise Mismatch("a number", value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise Mismatch("null", value)


def _by_text(kind: type, write: Step, read: Callable[[str], Any], expected: str) -> Conversion:
    """A type whose JSON is a text."""

    def to_json(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Mismatch(expected, value)
        return write(value)

    def from_json(value: Any) -> Any:
        if isinstance(value, str):
            try:
                return read(value)
            except (ValueError, InvalidOperation):
                pass
        raise Mismatch(expected, value)

    return Conversion(to_json, from_json, is_text=True)


def _write_time(value: datetime) -> str:
    if value.tzinfo is None:
        raise Mismatch("a time with its zone, such as datetime.now(timezone.utc)", value)
    return value.isoformat()


def _read_time(text: str) -> datetime:
    found = datetime.fromisoformat(_with_offset(text))
    if found.tzinfo is None:
        raise ValueError(text)
    return found


def _with_offset(text: str) -> str:
    """Python 3.10 does not read the `Z` of RFC 3339."""
    return f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text


def _write_date(value: date) -> str:
    if isinstance(value, datetime):
        raise Mismatch("a date without a time", value)
    return value.isoformat()


def _read_date(text: str) -> date:
    if len(text) != len("2026-01-31"):
        raise ValueError(text)
    return date.fromisoformat(text)


def _write_seconds(value: Any) -> float:
    if not isinstance(value, timedelta):
        raise Mismatch("a timedelta", value)
    return value.total_seconds()


def _read_seconds(value: Any) -> timedelta:
    try:
        return timedelta(seconds=_number(value))
    except (OverflowError, Mismatch):
        raise Mismatch("a number of seconds", value) from None


def _read_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _read_decimal(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite():
        raise ValueError(text)
    return found


PLAIN: Final[dict[Any, Conversion]] = {
    Any: FREE,
    object: FREE,
    None: Conversion(_nothing, _nothing),
    type(None): Conversion(_nothing, _nothing),
    bool: Conversion(_boolean, _boolean),
    int: _exactly(int, "a whole number"),
    float: Conversion(_number, _number),
    str: _exactly(str, "a text"),
    bytes: _by_text(bytes, lambda value: base64.b64encode(value).decode(), _read_bytes, "bytes, in base64"),
    UUID: _by_text(UUID, str, UUID, "a UUID"),
    Decimal: _by_text(Decimal, str, _read_decimal, "a decimal number, as a text"),
    datetime: _by_text(datetime, _write_time, _read_time, "a time with its offset, such as 2026-01-31T10:00:00Z"),
    date: _by_text(date, _write_date, _read_date, "a date such as 2026-01-31"),
    time: _by_text(time, time.isoformat, time.fromisoformat, "a time of day such as 10:00:00"),
    timedelta: Conversion(_write_seconds, _read_seconds, is_native=False),
}


# ------------------------------------------------------------------------------------------ composed values

_LISTS: Final[dict[Any, Callable[[Any], Any]]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_OBJECTS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_UNIONS: Final = (typing.Union, types.UnionType)


class Member(NamedTuple):
    """A named part of an object: a field of a class, or a parameter of a function."""

    name: str
    conversion: Conversion
    is_required: bool


class _Reader:
    """Reads one type. A class that contains itself is read once."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._classes: dict[Any, Conversion] = {}

    def read(self, annotation: Any) -> Conversion:
        annotation = _stripped(annotation)
        try:
            plain = PLAIN.get(annotation)
        except TypeError:  # a value that has no hash is no type
            plain = None
        if plain is not None:
            return plain
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in _UNIONS:
            return self._union(arguments)
        if origin is typing.Literal:
            return self._literal(arguments)
        base = origin or annotation
        if base is tuple:
            return self._tuple(arguments)
        if base in _LISTS:
            return self._list(base, arguments[0] if arguments else Any)
        if base in _OBJECTS:
            return self._mapping(*(arguments or (Any, Any)))
        if origin is None and isinstance(annotation, type):
            return self._class(annotation)
        raise self._refused(annotation)

    def _refused(self, annotation: Any, reason: str = "") -> RegistrationError:
        name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        return RegistrationError(
            f"{self._subject}: a value of type {name} cannot travel as JSON{reason}; use a dataclass, a Struct of "
            "msgspec, a model of pydantic, or plain types such as str, int, date, list and dict"
        )

    def _union(self, arguments: tuple[Any, ...]) -> Conversion:
        """The first part that fits. Checks of both directions decide, so no part is tried by its name alone."""
        parts = [self.read(each) for each in arguments]
        expected = " or ".join(_name_of(each) for each in arguments)
        if any(part.is_free for part in parts):
            return FREE

        def first(steps: list[Step]) -> Step:
            def convert(value: Any) -> Any:
                for step in steps:
                    with contextlib.suppress(Mismatch):
                        return step(value)
                raise Mismatch(expected, value)

            return convert

        native = all(part.is_native for part in parts)
        to_json, from_json = first([part.to_json for part in parts]), first([part.from_json for part in parts])
        return Conversion(to_json, from_json, is_native=native)

    def _literal(self, values: tuple[Any, ...]) -> Conversion:
        if not all(isinstance(value, str | int | bool | None) for value in values):
            raise self._refused(typing.Literal, f": {values!r}")
        expected = "one of " + ", ".join(map(repr, values))

        def checked(value: Any) -> Any:
            for known in values:
                if value == known and type(value) is type(known):
                    return value
            raise Mismatch(expected, value)

        return Conversion(checked, checked, is_text=all(isinstance(value, str) for value in values))

    def _tuple(self, arguments: tuple[Any, ...]) -> Conversion:
        if not arguments or (len(arguments) == 2 and arguments[1] is Ellipsis):
            return self._list(tuple, arguments[0] if arguments else Any)
        parts = [self.read(each) for each in arguments]
        expected = f"a list of {len(parts)} values"

        def convert(steps: list[Step], kind: type[Sequence[Any]], make: Callable[[Any], Any]) -> Step:
            def converted(value: Any) -> Any:
                values = _values(value, (kind,), expected)
                if len(values) != len(steps):
                    raise Mismatch(expected, value)
                pairs = enumerate(zip(steps, values, strict=True))
                return make([_at(step, each, f"[{at}]") for at, (step, each) in pairs])

            return converted

        return Conversion(
            convert([part.to_json for part in parts], tuple, list),
            convert([part.from_json for part in parts], list, tuple),
            is_native=all(part.is_native for part in parts),
        )

    def _list(self, kind: Any, inner: Any) -> Conversion:
        part = self.read(inner)
        make: Callable[[list[Any]], Any] = _LISTS.get(kind, tuple)
        sent = (list, tuple, set, frozenset)
        to_each = part.to_json
        from_each = part.from_json

        def to_json(value: Any) -> Any:
            return [_at(to_each, each, f"[{at}]") for at, each in enumerate(_values(value, sent, "a list"))]

        def from_json(value: Any) -> Any:
            found = [_at(from_each, each, f"[{at}]") for at, each in enumerate(_values(value, (list,), "a list"))]
            try:
                return make(found)
            except TypeError:
                raise Mismatch("a list of values that can be in a set", value) from None

        return Conversion(to_json, from_json, is_native=part.is_native)

    def _mapping(self, key: Any, inner: Any) -> Conversion:
        keys, part = self.read(key), self.read(inner)
        if not (keys.is_text or keys.is_free):
            raise self._refused(dict, f": its keys are {_name_of(key)}, and keys in JSON are texts")

        def converted(key_step: Step, step: Step) -> Step:
            def convert(value: Any) -> Any:
                members = _an_object(value).items()
                return {_at(key_step, name, ".(key)"): _at(step, each, f".{name}") for name, each in members}

            return convert

        if part.is_free and (keys.is_free or _stripped(key) is str):
            return Conversion(_an_object, _an_object)
        to_json, from_json = converted(keys.to_json, part.to_json), converted(keys.from_json, part.from_json)
        return Conversion(to_json, from_json, is_native=part.is_native)

    # -------------------------------------------------------------------------------- classes

    def _class(self, kind: Any) -> Conversion:
        if kind in self._classes:
            return self._classes[kind]

        # A class may contain itself: until it is read, others that need it are given the way to it.
        def to_json(value: Any) -> Any:
            return self._classes[kind].to_json(value)

        def from_json(value: Any) -> Any:
            return self._classes[kind].from_json(value)

        self._classes[kind] = Conversion(to_json, from_json)
        found = self._classes[kind] = self._read_class(kind)
        return found

    def _read_class(self, kind: Any) -> Conversion:
        if issubclass(kind, enum.Enum):
            return self._enumeration(kind)
        if hasattr(kind, "__struct_fields__") and "msgspec" in sys.modules:
            return _struct(kind)
        if hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_validate"):
            return _model(kind)
        if dataclasses.is_dataclass(kind):
            return self._dataclass(kind)
        if typing.is_typeddict(kind):
            return self._typed_dictionary(kind)
        if hasattr(kind, "_fields") and tuple in kind.__mro__:
            return self._named_tuple(kind)
        raise self._refused(kind)

    def _enumeration(self, kind: Any) -> Conversion:
        by_value = {member.value: member for member in kind}
        if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in by_value):
            raise self._refused(kind, ": the values of its members are neither texts nor whole numbers")
        expected = "one of " + ", ".join(map(repr, by_value))

        def to_json(value: Any) -> Any:
            if not isinstance(value, kind):
                raise Mismatch(expected, value)
            return value.value

        def from_json(value: Any) -> Any:
            if not isinstance(value, str | int) or isinstance(value, bool) or value not in by_value:
                raise Mismatch(expected, value)
            return by_value[value]

        return Conversion(to_json, from_json, is_text=all(isinstance(value, str) for value in by_value))

    def _members(self, kind: Any, names: Mapping[str, bool]) -> list[Member]:
        hints = hints_of(kind, subject=f"{self._subject}: {kind.__qualname__}")
        return [Member(name, self.read(hints[name]), required) for name, required in names.items()]

    def _dataclass(self, kind: Any) -> Conversion:
        fields = [each for each in dataclasses.fields(kind) if each.init]
        missing = dataclasses.MISSING
        names = {each.name: each.default is missing and each.default_factory is missing for each in fields}
        members = self._members(kind, names)
        native = all(member.conversion.is_native for member in members)
        return Conversion(_writing(kind, members), _reading(lambda values: kind(**values), members), is_native=native)

    def _named_tuple(self, kind: Any) -> Conversion:
        names = {name: name not in kind._field_defaults for name in kind._fields}
        members = self._members(kind, names)
        # A worker's encoder writes it as a list.
        return Conversion(_writing(kind, members), _reading(lambda values: kind(**values), members), is_native=False)

    def _typed_dictionary(self, kind: Any) -> Conversion:
        required = kind.__required_keys__
        members = self._members(kind, {name: name in required for name in kind.__annotations__})
        sent = [member._replace(conversion=_turned(member.conversion)) for member in members]
        native = all(member.conversion.is_native for member in members)
        return Conversion(_reading(dict, sent), _reading(dict, members), is_native=native)


def _turned(conversion: Conversion) -> Conversion:
    return conversion._replace(to_json=conversion.from_json, from_json=conversion.to_json)


def _stripped(annotation: Any) -> Any:
    """A type without what only says more of it: `Annotated`, `NewType`, a name for a type, `Required`."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated or getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly"):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def _name_of(annotation: Any) -> str:
    if annotation is type(None):
        return "null"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _an_object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Mismatch("an object", value)
    return typing.cast("Mapping[str, Any]", value)


def _values(value: Any, kinds: tuple[type, ...], expected: str) -> Collection[Any]:
    if not isinstance(value, kinds):
        raise Mismatch(expected, value)
    return typing.cast("Collection[Any]", value)


def _at(step: Step, value: Any, part: str) -> Any:
    try:
        return step(value)
    except Mismatch as wrong:
        raise wrong.within(part) from None


def _writing(kind: type, members: list[Member]) -> Step:
    parts = [(member.name, member.conversion.to_json) for member in members]

    def to_json(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Mismatch(f"a {kind.__name__}", value)
        return {name: _at(step, getattr(value, name), f".{name}") for name, step in parts}

    return to_json


def _reading(make: Callable[[dict[str, Any]], Any], members: list[Member]) -> Step:
    def from_json(value: Any) -> Any:
        values = read_members(value, members)
        try:
            return make(values)
        except (ValueError, TypeError) as error:  # the class checks more than its types
            raise Mismatch(f"a value that it takes ({error})", value) from error

    return from_json


def read_members(value: Any, members: list[Member]) -> dict[str, Any]:
    """The members of an object, converted. Raises `Mismatch` for one that is missing or unknown."""
    given = _an_object(value)
    found: dict[str, Any] = {}
    for name, conversion, is_required in members:
        if name in given:
            found[name] = _at(conversion.from_json, given[name], f".{name}")
        elif is_required:
            raise Mismatch(f"an object with `{name}`", value)
    if len(found) < len(given):
        unknown = ", ".join(f"`{name}`" for name in given if name not in found)
        raise Mismatch(f"an object without {unknown}", value)
    return found


def _struct(kind: Any) -> Conversion:
    """A Struct of msgspec."""
    msgspec = sys.modules["msgspec"]
    convert, to_builtins, wrong = msgspec.convert, msgspec.to_builtins, msgspec.ValidationError

    def to_json(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Mismatch(f"a {kind.__name__}", value)
        return to_builtins(value)

    def from_json(value: Any) -> Any:
        try:
            return convert(value, kind)
        except wrong as error:
            raise Mismatch(f"a {kind.__name__} ({error})", value) from None

    return Conversion(to_json, from_json)


def _model(kind: Any) -> Conversion:
    """A model of pydantic. Its errors are `ValueError`s."""

    def to_json(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Mismatch(f"a {kind.__name__}", value)
        return value.model_dump(mode="json", by_alias=True)

    def from_json(value: Any) -> Any:
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise Mismatch(f"a {kind.__name__} ({' '.join(str(error).split())})", value) from None

    return Conversion(to_json, from_json, is_native=False)
