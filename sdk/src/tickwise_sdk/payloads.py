"""The payload of a task, by the signature of its function.

    (context, day: date, region: str = "eu")     {"day": "2026-01-31"}: an object with a member for each argument
    (order: Order)                                the whole payload is one dataclass, Struct or model
    (payload)                                     the whole payload, as it is

A first parameter that is annotated as `Context`, or is called `context`, gets the context. Of the others: a single one
that is called `payload`, has no type, or whose type is an object (`dict`, `Mapping`, a dataclass, a TypedDict, a
Struct, a model), is the whole payload. Everything else is arguments by their names.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tickwise_sdk.context import Context
from tickwise_sdk.conversion import FREE, Conversion, Member, Mismatch, conversion_of, hints_of, read_members
from tickwise_sdk.errors import PayloadError, RegistrationError
from tickwise_sdk.submitting import NO_PAYLOAD

OPTIONS: Final = frozenset({"at", "key", "client"})
"""The words of `submit` itself, which no argument of a task may have as its name."""
_KINDS: Final = inspect.Parameter


class Payload(NamedTuple):
    """The way from arguments to a payload, and back."""

    signature: inspect.Signature
    """Without the context."""
    takes_context: bool
    whole: Conversion | None
    """Of the one parameter that is the whole payload; None: there is none."""
    members: list[Member]
    """The arguments that are members of the payload."""
    subject: str
    """The function, for messages."""

    @property
    def is_raw(self) -> bool:
        """Check whether a worker may hand over what it has without a conversion."""
        if self.whole is not None:
            return self.whole.is_free
        return not self.members and not self.takes_context

    def write(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The payload of a call, as JSON values. Raises `TypeError` for arguments that the function does not take, and
        `PayloadError` for those of another type."""
        bound = self.signature.bind(*args, **kwargs).arguments
        try:
            if self.whole is not None:
                for value in bound.values():
                    return self.whole.to_json(value)
                return NO_PAYLOAD
            if not self.members:
                return NO_PAYLOAD
            return {
                name: _written(conversion, name, bound[name]) for name, conversion, _ in self.members if name in bound
            }
        except Mismatch as wrong:
            raise PayloadError(f"{self.subject}: {wrong}") from None

    def read(self, payload: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for the function. Raises `PayloadError`, which no retry helps against."""
        try:
            if self.whole is not None:
                return (self.whole.from_json(payload),), {}
            if not self.members:
                return (), {}
            named = read_members({} if payload is None else payload, self.members)
        except Mismatch as wrong:
            raise PayloadError(
                f"the payload does not fit {self.subject}: {wrong}. It was submitted for another version of the "
                "function, or by hand. Deploy the version that it was made for, or redrive the run with another payload"
            ) from None
        bound = self.signature.bind_partial()
        bound.arguments.update(named)
        return bound.args, bound.kwargs


def _written(conversion: Conversion, name: str, value: Any) -> Any:
    try:
        return conversion.to_json(value)
    except Mismatch as wrong:
        raise wrong.within(f".{name}") from None


def payload_of(function: Callable[..., Any]) -> Payload:
    """The payload that a function takes. Raises `RegistrationError` for a signature or a type that cannot be."""
    signature = inspect.signature(function)
    subject = f"{function.__qualname__}{signature}"
    parameters = list(signature.parameters.values())
    for parameter in parameters:
        if parameter.kind in (_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD):
            raise RegistrationError(f"{subject} must name its parameters: a payload has no {parameter}")
    hints = hints_of(function, subject=subject) if function.__annotations__ else {}
    takes_context = _takes_context(parameters, hints)
    rest = parameters[takes_context:]
    inner = signature.replace(parameters=rest)
    if len(rest) == 1 and _is_whole(rest[0], hints.get(rest[0].name, Any)):
        kind = hints.get(rest[0].name, Any)
        whole = FREE if _is_open_object(kind) else conversion_of(kind, subject=_named(subject, rest[0]))
        if rest[0].kind is _KINDS.KEYWORD_ONLY:
            raise RegistrationError(f"{subject} must take its payload by position: remove the `*`")
        return Payload(inner, takes_context, whole, [], subject)
    members: list[Member] = []
    for parameter in rest:
        if parameter.name in OPTIONS:
            raise RegistrationError(f"{subject}: `{parameter.name}` is an option of `submit`; rename the parameter")
        conversion = conversion_of(hints.get(parameter.name, Any), subject=_named(subject, parameter))
        members.append(Member(parameter.name, conversion, parameter.default is parameter.empty))
    return Payload(inner, takes_context, None, members, subject)


def _named(subject: str, parameter: inspect.Parameter) -> str:
    return f"the parameter `{parameter.name}` of {subject}"


def _takes_context(parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]) -> bool:
    if not parameters or parameters[0].kind is _KINDS.KEYWORD_ONLY:
        return False
    first = parameters[0]
    kind = hints.get(first.name)
    if isinstance(kind, type) and issubclass(kind, Context):
        return True
    if first.name == "context":
        return True
    # Functions of the first release: any two names without types.
    return kind is None and len(parameters) == 2 and parameters[1].name == "payload"


def _is_whole(parameter: inspect.Parameter, kind: Any) -> bool:
    if parameter.name == "payload" or kind is Any or _is_open_object(kind):
        return True
    if typing.get_origin(kind) in (dict, Mapping):
        return True
    is_object = dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)
    return is_object or hasattr(kind, "__struct_fields__") or hasattr(kind, "model_validate")


def _is_open_object(kind: Any) -> bool:
    """Check whether a type is any JSON object, or any JSON: it is handed over as it is."""
    if kind in (Any, object, dict, Mapping):
        return True
    return typing.get_origin(kind) in (dict, Mapping) and typing.get_args(kind) in (
        (str, Any),
        (str, object),
        (Any, Any),
    )
