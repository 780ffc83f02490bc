"""Structs with the plain fields of a job, drawn from their declaration in `tickwise.domain.job_fields`.

    @with_sent_fields(JOB_FIELDS)          @with_answered_fields(JOB_FIELDS)
    class JobBody(msgspec.Struct): …       class JobView(msgspec.Struct): …

Each decorator makes the class anew, as `dataclass(slots=True)` does, with the declared fields in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, UnsetType

from tickwise.domain.job_fields import JobField

S = TypeVar("S", bound=msgspec.Struct)


class DrawnFields:
    """Reads some of the fields of bodies and of definitions."""

    def __init__(self, fields: Iterable[JobField]) -> None:
        self._defaults = tuple((field.name, field.default) for field in fields)

    def sent(self, body: object) -> dict[str, Any]:
        """The stored values of the fields that a body sends; `null` is the default."""
        found: dict[str, Any] = {}
        for name, default in self._defaults:
            value = getattr(body, name)
            if value is not UNSET:
                found[name] = default if value is None else value
        return found

    def stored(self, definition: object) -> dict[str, Any]:
        """The values in a definition."""
        return {name: getattr(definition, name) for name, _ in self._defaults}


def with_sent_fields(fields: Sequence[JobField]) -> Callable[[type[S]], type[S]]:
    """Add the fields to a request body: each may be left out or be `null`, and is held to its limits."""

    def decorate(struct: type[S]) -> type[S]:
        return _extended(struct, ((field, _sent(field) | UnsetType | None, UNSET) for field in fields))

    return decorate


def with_answered_fields(fields: Sequence[JobField]) -> Callable[[type[S]], type[S]]:
    """Add the fields to an answer, which always has them."""

    def decorate(struct: type[S]) -> type[S]:
        return _extended(struct, ((field, _answered(field), NODEFAULT) for field in fields))

    return decorate


def _sent(field: JobField) -> Any:
    limits: dict[str, Any] = {
        "ge": field.at_least, "gt": field.above, "le": field.at_most, "max_length": field.max_length,
        "pattern": field.pattern, "description": field.description,
    }  # fmt: skip
    limits = {name: value for name, value in limits.items() if value is not None}
    return Annotated[field.kind, Meta(**limits)] if limits else field.kind


def _answered(field: JobField) -> Any:
    return field.kind | None if field.default is None else field.kind


def _extended(struct: type[S], added: Iterable[tuple[JobField, Any, Any]]) -> type[S]:
    """This struct with more fields. Raises `LookupError` if a field stands after one that the struct has not."""
    fields: list[tuple[str, Any, Any]] = [
        (said.name, said.type, _default(said)) for said in msgspec.structs.fields(struct)
    ]
    for field, kind, default in added:
        places = [place for place, (name, _, _) in enumerate(fields, 1) if name == field.after]
        if not places:
            raise LookupError(f"{struct.__name__} has no field {field.after!r} for {field.name!r} to stand after")
        fields.insert(places[0], (field.name, kind, msgspec.field(default=default)))
    config = struct.__struct_config__
    made: Any = msgspec.defstruct(
        struct.__name__,
        fields,
        module=struct.__module__,
        namespace={"__doc__": struct.__doc__},
        kw_only=True,
        frozen=config.frozen,
        omit_defaults=config.omit_defaults,
        forbid_unknown_fields=config.forbid_unknown_fields,
    )
    extended: type[S] = made
    return extended


def _default(said: msgspec.structs.FieldInfo) -> Any:
    if said.default_factory is not NODEFAULT:
        return msgspec.field(name=said.encode_name, default_factory=said.default_factory)
    return msgspec.field(name=said.encode_name, default=said.default)
