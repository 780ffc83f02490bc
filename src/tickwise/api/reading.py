"""Bodies and parameters: from bytes to checked values, and from what msgspec says to a pointer and a sentence.

Invariant: for any bytes, the outcome is a value or a `Refused`; limits hold while the body still arrives.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Final, Literal, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from tickwise.api.problems import BadParameter, MalformedAt, WrongMediaType
from tickwise.api.repeats import refuse_repeated
from tickwise.api.spelling import other_spellings, respelled
from tickwise.control.wording import sentence
from tickwise.domain.errors import Busy, Invalid, TooLarge

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

JSON_TYPES: Final = frozenset({b"application/json"})
SCRIPT_TYPES: Final = frozenset({b"text/x-python", b"text/x-script.python", b"text/plain"})
PARAMETERS_MAX: Final = 50
LARGE_BYTES: Final = 1 << 20
ROOM_BYTES: Final = 256 << 20
"""Of all large bodies that arrive, wait or are worked on. Eight of the largest batches as shipped."""
LARGE_AT_ONCE: Final = 2

_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `(\$.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*?)`(?: - at `(\$.*)`)?", re.DOTALL)
_ELSEWHERE = re.compile(r"(.*) - at (`key` in )?`(\$.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_BYTE = re.compile(r" \(byte (\d+)\)")


class ClientGone(Exception):
    """The client no longer waits for the answer."""


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, took: Callable[[int], None] | None = None
) -> bytes:
    """The whole body. Raises `TooLarge` as soon as that is known, whether the length was announced or not. `took` is
    called with the bytes of each part that came, and may refuse it."""
    announced = headers.get(b"content-length")
    if announced is not None and announced.isdigit() and int(announced[:20]) > limit:
        raise _too_large(limit)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if took is not None:
        took(len(body))
    if message.get("more_body"):
        parts = [body]
        size = len(body)
        while message.get("more_body"):
            if size > limit:
                raise _too_large(limit)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            if took is not None:
                took(len(part))
            parts.append(part)
            size += len(part)
        body = b"".join(parts)
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body has more than {limit} bytes; send less at once. Put a script that is larger into a file on the "
        "executors and call that by a command, or let an operator raise the limit"
    )


class LargeBodies:
    """The room that bodies larger than a job share, and their turns.

    A batch of 32 MB takes seconds of work, in turns of up to a sixth of a second. Of several at once each would have
    its turn before anyone else is served, so only `LARGE_AT_ONCE` are worked on. Two, because one at a time leaves the
    processor idle while the store writes: a tenth fewer jobs a second.
    """

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._room_bytes = room_bytes
        self._taken_bytes = 0
        self._turn = asyncio.Semaphore(LARGE_AT_ONCE)

    @contextmanager
    def share(self) -> Iterator[Share]:
        """The share of one request, until it is answered."""
        share = Share(self)
        try:
            yield share
        finally:
            self._taken_bytes -= share.counted_bytes

    def take(self, size: int) -> None:
        """Raises `Busy` if so many bytes do not fit."""
        if self._taken_bytes + size > self._room_bytes:
            raise Busy(
                "too many large bodies arrive at once; send the same later, or in smaller batches",
                retry_after_seconds=5.0,
            )
        self._taken_bytes += size

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for those before."""
        async with self._turn:
            yield


class Share:
    """The part of one request. A body that is no larger than a job takes none, and waits for nobody."""

    def __init__(self, bodies: LargeBodies) -> None:
        self._bodies = bodies
        self._size = 0
        self.counted_bytes = 0

    def take(self, size: int) -> None:
        """Count a part that arrived. Raises `Busy`."""
        self._size += size
        if self._size > LARGE_BYTES:
            more = self._size - self.counted_bytes
            self._bodies.take(more)
            self.counted_bytes += more

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The time in which the body is worked on."""
        if not self.counted_bytes:
            yield
            return
        async with self._bodies.turn():
            yield


def check_media(headers: Mapping[bytes, bytes], accepted: frozenset[bytes] = JSON_TYPES) -> bytes:
    """The media type of the body. None at all is taken for JSON. Raises `WrongMediaType`."""
    said = headers.get(b"content-type", b"application/json")
    if said in accepted and b"content-encoding" not in headers:
        return said
    media = said.split(b";", 1)[0].strip().lower()
    if media not in accepted:
        names = " or ".join(sorted(name.decode() for name in accepted))
        raise WrongMediaType(f"send the body with Content-Type: {names}")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise WrongMediaType("send the body without Content-Encoding")
    return media


# ------------------------------------------------------------------------------------------ bodies


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, fields: Iterable[str] = ()) -> T:
    """The body as a value. `fields` are the names that would have been right. Raises `MalformedAt` and `Invalid`."""
    value = read(decoder, body, fields)
    refuse_repeated(bytes(body))
    return value


def read(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, fields: Iterable[str] = ()) -> T:
    """Decode a body whose members are not counted."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as failure:
        return _read_respelled(decoder, bytes(body), fields, str(failure))
    except UnicodeDecodeError as failure:
        raise MalformedAt(f"the body is not UTF-8 text: {failure.reason}", None) from None
    except RecursionError:
        raise MalformedAt("the body is nested too deeply", None) from None
    except ValueError as failure:
        raise _malformed(str(failure), bytes(body)) from None


def _read_respelled(decoder: msgspec.json.Decoder[T], body: bytes, fields: Iterable[str], said: str) -> T:
    """A body that cannot be read as it is, perhaps because its names have the other spelling."""
    other = respelled(decoder.type, body)
    if other is None:
        raise _told(explained(said, fields, decoder.type), said, decoder.type, body)
    try:
        return decoder.decode(other.body)
    except msgspec.ValidationError as failure:
        refusal = _told(explained(str(failure), fields, decoder.type), str(failure), decoder.type, other.body)
        refusal.pointer = other.pointer(refusal.pointer or "")
        raise refusal from None


def _malformed(said: str, body: bytes) -> MalformedAt:
    found = _BYTE.search(said)
    if found is None:
        if not body.strip():
            return MalformedAt("the body is empty; send a JSON value", 0)
        return MalformedAt("the body is no JSON: it ends too early, or holds half a surrogate pair", len(body))
    position = int(found[1])
    line = body.count(b"\n", 0, position) + 1
    column = position - (body.rfind(b"\n", 0, position) + 1) + 1
    reason = said.replace(found[0], "").removeprefix("JSON is malformed: ")
    return MalformedAt(f"the body is no JSON: {reason} in line {line}, column {column}", position)


def explained(said: str, fields: Iterable[str] = (), kind: object = None) -> Invalid:
    """Translate msgspec's error, with a pointer to the fault. `kind` is the type that was wanted, if that is at
    hand."""
    unknown = _UNKNOWN.fullmatch(said)
    if unknown is not None:
        name, pointer = unknown[1], _pointer(unknown[2])
        return Invalid(
            _unknown(name, fields if not pointer else ()), pointer=f"{pointer}/{_escaped(name)}", code="field_unknown"
        )
    missing = _MISSING.fullmatch(said)
    if missing is not None:
        return Invalid(f"{missing[1]} is missing", pointer=f"{_pointer(missing[2])}/{_escaped(missing[1])}")
    elsewhere = _ELSEWHERE.fullmatch(said)
    if elsewhere is None:
        return Invalid(sentence(said), pointer="")
    pointer = _pointer(elsewhere[3])
    return Invalid(sentence(elsewhere[1]) + _choices(elsewhere[1], kind, elsewhere[3]), pointer=pointer)


def _told(refusal: Invalid, said: str, kind: object, body: bytes) -> Invalid:
    """The refusal with a pointer to the member of a mapping, whose name msgspec does not tell (`[...]`)."""
    elsewhere = _ELSEWHERE.fullmatch(said)
    if elsewhere is None or not elsewhere[3].endswith("[...]") or elsewhere[3].count("[...]") > 1:
        return refusal
    try:
        found = msgspec.json.decode(body)
    except msgspec.ValidationError:  # a number that no float holds stands in the place of a text
        return refusal
    kinds = [kind]
    for name, index in _STEP.findall(elsewhere[3].removesuffix("[...]")):
        found = found[name] if name else found[int(index)]
        kinds = [inner for outer in kinds for inner in _members(outer, name)]
    mappings = [part for each in kinds for part in _parts(each) if get_origin(part) is dict]
    for name, value in found.items() if mappings and isinstance(found, dict) else ():
        try:
            msgspec.convert({name: value}, mappings[0])
        except msgspec.ValidationError:
            refusal.pointer = f"{refusal.pointer}/{_escaped(name)}"
            return refusal
    return refusal


def _choices(said: str, kind: object, path: str) -> str:
    """The values that an enum takes, which msgspec does not tell."""
    if not said.startswith("Invalid enum value"):
        return ""
    kinds: list[Any] = [kind]
    for name, _index in _STEP.findall(path):
        # An index, or a key that is not told, leads to what a list or a mapping holds: its arguments.
        kinds = [inner for outer in kinds for inner in _members(outer, name)]
    for part in (part for each in kinds for part in _parts(each)):
        if get_origin(part) is Literal:
            return f"; write one of {', '.join(map(str, get_args(part)))}"
        if isinstance(part, type) and issubclass(part, Enum):
            return f"; write one of {', '.join(str(choice.value) for choice in part)}"
    return ""


def _members(kind: object, name: str) -> list[Any]:
    """The types under a field of this name, or of the items of a list, of all structs and lists that `kind` may be."""
    found: list[Any] = []
    for part in _parts(kind):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            found += [field.type for field in msgspec.structs.fields(part) if field.encode_name == name]
        elif not name and get_origin(part) in (list, tuple, dict):
            found += get_args(part)
    return found


def _parts(kind: object) -> list[Any]:
    """The types that an annotation allows, through `Annotated` and unions."""
    if get_origin(kind) in (list, tuple, dict, Literal) or not get_args(kind):
        return [kind]
    return [part for argument in get_args(kind) for part in _parts(argument)]


def _unknown(name: str, fields: Iterable[str]) -> str:
    near = _nearest(name[:100], tuple(fields))
    advice = f"did you mean {near}?" if near else "leave it out"
    return f"there is no field {name[:100]!r}; {advice}"


@lru_cache(maxsize=1_000)
def _nearest(name: str, fields: tuple[str, ...]) -> str | None:
    """The field that is spelled most alike. It costs a millisecond, and a batch may ask it of each of its jobs."""
    return next(iter(difflib.get_close_matches(name, fields, n=1)), None)


def _pointer(path: str | None) -> str:
    """`$.retry[0].x` as `/retry/0/x`; a key that msgspec does not tell (`[...]`) ends it."""
    if not path:
        return ""
    pointer = ""
    for name, index in _STEP.findall(path):
        if not name and not index:
            break
        pointer += "/" + (_escaped(name) or index)
    return pointer


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def field_names(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """The names of a body's fields, as they are written."""
    return struct.__struct_encode_fields__


# ------------------------------------------------------------------------------------------ parameters


def decode_query(text: bytes, struct: type[T]) -> T:
    """The query as a value. Unknown and repeated parameters are refused, not ignored. Raises `BadParameter`."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(text),
            encoding="utf-8",
            errors="strict",
            max_num_fields=PARAMETERS_MAX,
        )
    except ValueError:
        raise BadParameter("the query cannot be read; write it as name=value&name=value", parameter="") from None
    many, times = _taking(struct, list), _taking(struct, datetime)  # type: ignore[arg-type]  # a struct is hashable
    others = other_spellings(field_names(struct))  # type: ignore[arg-type]  # only structs come here
    found: dict[str, Any] = {}
    written: dict[str, str] = {}
    for said, value in pairs:
        if "\0" in said or "\0" in value:
            raise BadParameter("a query cannot have the character U+0000; leave it out", parameter=said[:100])
        name = others.get(said, said)
        if written.setdefault(name, said) != said and name not in many:
            if found[name] == value:
                continue
            raise BadParameter(f"{said} and {written[name]} are one parameter; send one of them", parameter=said)
        if name in many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise BadParameter(f"{said} is given twice", parameter=said)
        elif name in times and not _DATE.match(value):
            # Read leniently, as parameters are, a bare number would pass for a Unix time.
            raise BadParameter(f"write {said} as RFC 3339, such as 2027-09-25T10:00:00Z", parameter=said)
        else:
            found[name] = value
    try:
        return msgspec.convert(found, struct, strict=False)
    except msgspec.ValidationError as failure:
        refusal = explained(str(failure), field_names(struct), struct)  # type: ignore[arg-type]  # only structs come here
        name = (refusal.pointer or "").removeprefix("/").split("/")[0]
        detail = refusal.detail.replace("there is no field", "there is no parameter")
        raise BadParameter(detail, parameter=written.get(name, name)) from None


@cache
def _taking(struct: type[Any], wanted: type) -> frozenset[str]:
    """The parameters that come down to `wanted`. Looked up once: it takes longer than all the rest of a query."""
    fields = msgspec.structs.fields(struct)
    return frozenset(field.encode_name for field in fields if _takes(field.type, wanted))


def _takes(kind: object, wanted: type) -> bool:
    """Check whether an annotation comes down to `wanted`, through `Annotated` and unions."""
    if kind is wanted or get_origin(kind) is wanted:
        return True
    return any(_takes(part, wanted) for part in get_args(kind) if get_origin(kind) is not list)
