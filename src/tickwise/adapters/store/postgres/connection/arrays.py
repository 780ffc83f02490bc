"""Columns on their way to the server: arrays of one type, packed hundreds of values at a time.

    [1.5, 2.5, …] ──pack──► header │ length │ value │ length │ value │ … ──► $4::float8[]

Hot statements take one array for each column. The driver packs those itself, but asks of each value whether it is a
container: that took 2.5 us of the 3.5 us of an outcome, and more of a submitted job. So connections get these codecs.

Invariant: the server gets the same values as from the driver; a value of another type is refused, and nothing is sent.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import asyncpg

_HEADER: Final = struct.Struct("!iiIii")
"""Dimensions, whether some are NULL, type of the values, how many, number of the first."""
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = _LENGTH.pack(-1)
_UUID_LENGTH: Final = _LENGTH.pack(16)
_SWAPPED: Final = sys.byteorder == "little"


class _Type(NamedTuple):
    """A type of values, and how one of them and many of them are packed (each with its length) and read."""

    name: str
    oid: int
    array_oid: int
    pack_one: Callable[[Any], bytes]
    pack_many: Callable[[Sequence[Any]], bytes | bytearray]
    read: Callable[[bytes], Any]


def _numbers(name: str, oid: int, array_oid: int, code: str) -> _Type:
    """A type of numbers. `code` names it in `struct` and in `array`."""
    one = struct.Struct(f"!i{code}")
    size = one.size - _LENGTH.size
    word: Literal["I", "H", "B"] = "I" if size % 4 == 0 else "H" if size == 2 else "B"
    width = array(word).itemsize
    # A length and its value, in words of the greatest size that divides both.
    words = one.size // width
    before = _LENGTH.size // width
    length = array(word, _LENGTH.pack(size))

    def pack_many(values: Sequence[Any]) -> bytearray:
        count = len(values)
        column = array(code, values)
        if _SWAPPED:
            column.byteswap()
        packed = bytearray(count * one.size)
        if not count:
            return packed
        to = memoryview(packed).cast(word)
        source = memoryview(column).cast("B").cast(word)
        for place in range(before):
            to[place::words] = length[place : place + 1] * count
        for place in range(words - before):
            to[before + place :: words] = source[place :: words - before]
        return packed

    def pack_one(value: Any) -> bytes:
        return one.pack(size, value)

    value = struct.Struct(f"!{code}")
    return _Type(name, oid, array_oid, pack_one, pack_many, lambda content: value.unpack(content)[0])


_bools: Final = _numbers("bool", 16, 1000, "b")
_BOOL: Final = frozenset({bool})


def _pack_bool(value: bool) -> bytes:
    # By its type: any number but 0 would arrive as true.
    if type(value) is not bool:
        raise TypeError(f"a bool is needed here, and this is of type {type(value).__name__}")
    return _bools.pack_one(value)


def _pack_bools(values: Sequence[bool]) -> bytes | bytearray:
    if not _BOOL.issuperset(map(type, values)):
        raise TypeError("bools are needed here, and one of these is of another type")
    return _bools.pack_many(values)


def _pack_id(value: UUID) -> bytes:
    return _UUID_LENGTH + value.int.to_bytes(16, "big")


def _pack_ids(values: Sequence[UUID]) -> bytes:
    # Nothing is called that is written in Python: this is done for two or three ids of every run there is.
    return b"".join([_UUID_LENGTH + value.int.to_bytes(16, "big") for value in values])


def _pack_text(value: str) -> bytes:
    content = str.encode(value)
    return _LENGTH.pack(len(content)) + content


def _pack_texts(values: Sequence[str]) -> bytes:
    # Most columns of text hold the same few, such as a namespace.
    packed = {value: _pack_text(value) for value in set(values)}
    return b"".join([packed[value] for value in values])


def _pack_bytes(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _one_by_one(pack: Callable[[Any], bytes]) -> Callable[[Sequence[Any]], bytes]:
    return lambda values: b"".join([pack(value) for value in values])


TYPES: Final = (
    _bools._replace(pack_one=_pack_bool, pack_many=_pack_bools, read=lambda content: content != b"\x00"),
    _numbers("int2", 21, 1005, "h"),
    _numbers("int4", 23, 1007, "i"),
    _numbers("int8", 20, 1016, "q"),
    _numbers("float8", 701, 1022, "d"),
    _Type("text", 25, 1009, _pack_text, _pack_texts, bytes.decode),
    _Type("uuid", 2950, 2951, _pack_id, _pack_ids, lambda content: UUID(bytes=content)),
    _Type("bytea", 17, 1001, _pack_bytes, _one_by_one(_pack_bytes), bytes),
)
"""Their numbers are the same in every server: they are part of PostgreSQL's protocol."""


def _packer(kind: _Type) -> Callable[[Sequence[Any]], bytes]:
    """The packer of arrays of this type."""
    oid, pack_one, pack_many = kind.oid, kind.pack_one, kind.pack_many

    def pack(values: Sequence[Any]) -> bytes:
        count = len(values)
        try:
            # Most columns hold no NULL, and one that does is found out by the first.
            return _HEADER.pack(1, False, oid, count, 1) + pack_many(values)
        except (AttributeError, TypeError) as error:
            header, missing = _HEADER.pack(1, True, oid, count, 1), sum([value is None for value in values])
            if missing == count:
                return header + _NULL * count
            try:
                return header + b"".join([_NULL if value is None else pack_one(value) for value in values])
            except (AttributeError, struct.error):
                raise TypeError(f"not all of these are values of {kind.name}: {error}") from error

    return pack


def _reader(kind: _Type) -> Callable[[bytes], list[Any]]:
    """The reader of arrays of this type."""

    def values(content: bytes) -> Iterator[Any]:
        at = _HEADER.size
        while at < len(content):
            (length,) = _LENGTH.unpack_from(content, at)
            at += _LENGTH.size
            if length < 0:
                yield None
                continue
            yield kind.read(content[at : at + length])
            at += length

    def read(content: bytes) -> list[Any]:
        (dimensions,) = _LENGTH.unpack_from(content)
        if dimensions == 0:
            return []
        if dimensions > 1:
            raise ValueError(f"an array of {kind.name} has {dimensions} dimensions: columns have one")
        return [*values(content)]

    return read


async def pack_columns(connection: asyncpg.Connection) -> None:
    """Let this connection send and read arrays so."""
    # The driver's own method for this refuses arrays; what that method calls does not.
    settings = connection._protocol.get_settings()  # noqa: SLF001  # there is no public way, and a test holds this one
    for kind in TYPES:
        settings.add_python_codec(
            kind.array_oid, f"{kind.name}[]", "pg_catalog", (), "scalar", _packer(kind), _reader(kind), "binary"
        )
