"""The form of effects and checkpoints: msgpack, by a schema that is written with them.

    entry       [VERSION, schema or nil, changes, values]     the first entry of a tenure has the schema
    change      [table, how, key, value]                      value: the image, or the fields that are other ones
    part        [VERSION, schema, nil, values]                the first part of a checkpoint; of one that names blocks
                                                              (`blocks`) with the version WITH_BLOCKS
                [table, [[key, value], …]]                    each further one
                ["", position]                                the last one: rows are no newer than this entry

A record is a map from short codes to fields; what has its default is left out of a whole image. A code is the place of
the field in the schema, and named tuples, which are arrays, have the order of the schema. So fields may be added with a
default, moved and removed: an image of an earlier release is read by the names that its own schema gives.

Invariant: what is read is what was written, or `Misconfigured` says which field this release lacks or cannot read.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from tickwise.adapters.store.keeper.tables import RECORDS, TABLES, VALUES, TableKind
from tickwise.adapters.store.keeper.tracking import FIELDS, GONE, Change
from tickwise.domain.errors import Misconfigured

VERSION: Final = 1
"""Of the layout above, not of the fields."""
WITH_BLOCKS: Final = 2
"""Of a checkpoint that names blocks: a release that knows of none refuses it, and does not begin without their runs."""
ROWS_OF_PART: Final = 500
CODES: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

Schema = Mapping[str, Sequence[str]]
"""The fields of each record and named tuple, by the name of its class."""

_NATIVE: Final = (bytes, UUID, msgspec.Raw)
_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes", enc_hook=lambda value: _plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"no image is known of a {type(value).__name__}")


def _encoded(value: Any) -> bytes:
    """The bytes of a value. A text that UTF-8 has no bytes for (half of a surrogate pair) is kept as far as it has."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(
            _storable(msgspec.to_builtins(value, builtin_types=_NATIVE, str_keys=False, enc_hook=_plain))
        )


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(key): _storable(each) for key, each in value.items()}
    return [_storable(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else value


def value_image(value: Any) -> bytes:
    """The image of a value that is no record, by the present schema."""
    return _encoded(value)


class Entry(msgspec.Struct, array_like=True):
    """The effects of one commit, or the head of a checkpoint."""

    version: int
    schema: dict[str, list[str]] | None
    changes: list[tuple[str, int, msgspec.Raw, msgspec.Raw]]
    values: dict[str, msgspec.Raw]


class CheckpointPart(msgspec.Struct, array_like=True):
    """Rows of one table in a checkpoint. Without a table: the position that no row is newer than."""

    table: str
    rows: msgspec.Raw


_entries: Final = msgspec.msgpack.Decoder(Entry)
_parts: Final = msgspec.msgpack.Decoder(CheckpointPart)
_images: Final = msgspec.msgpack.Decoder(list[tuple[UUID, msgspec.Raw]])
_any: Final = msgspec.msgpack.Decoder()


# ----------------------------------------------------------------------------------------------- the present schema


@dataclass(frozen=True, slots=True)
class RecordCodec:
    """The form of the records of one class."""

    kind: type
    codes: Mapping[str, str]
    """By field."""
    kinds: Mapping[str, Any]
    """The types of the fields, as they are kept."""
    images: Mapping[str, Callable[[Any], Any]]
    get: Callable[[Any], Sequence[Any]]
    """All fields, in the order of their codes."""
    converted: Sequence[tuple[int, Callable[[Any], Any]]]
    """The places of the fields that become another thing."""
    whole_image: Callable[..., Any]
    """Takes all fields, and is written without those that have their defaults."""

    def whole(self, record: Any) -> Any:
        """The image of a record."""
        values = [*self.get(record)]
        for place, convert in self.converted:
            values[place] = convert(values[place])
        return self.whole_image(*values)

    def some(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The image of these fields."""
        codes, images = self.codes, self.images
        return {
            codes[name]: images[name](value) if name in images else value
            for name, value in values.items()
            if name in codes
        }


def _codec(kind: type) -> RecordCodec:
    rules, hints = RECORDS[kind], get_type_hints(kind)
    images = dict(rules.images or {})
    names = [each.name for each in _kept(kind)]
    codes = {name: _code(number) for number, name in enumerate(names)}
    converters = {name: each.image for name, each in images.items()}
    return RecordCodec(
        kind,
        codes,
        {name: images[name].kind if name in images else hints[name] for name in names},
        converters,
        _all_fields(names),
        [(names.index(name), convert) for name, convert in converters.items()],
        whole_image(kind, codes),
    )


def _all_fields(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Takes these fields of a record, at once."""
    return attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)


def whole_image(kind: type, codes: Mapping[str, str]) -> Callable[..., Any]:
    """The form of whole images of a record, with these codes of its fields."""
    return msgspec.defstruct(
        f"{kind.__name__}Whole",
        [(each.name, Any, _default(each)) for each in _kept(kind)],
        rename=dict(codes),
        omit_defaults=True,
        gc=False,
    )


def _kept(kind: Any) -> list[Any]:
    return [each for each in fields(kind) if each.name not in RECORDS[kind].derived]


def _default(field: Any) -> Any:
    """Nothing is UNSET: a field without a default is always written."""
    if field.default is not MISSING:
        return field.default
    factory = field.default_factory
    return msgspec.UNSET if factory is MISSING else msgspec.field(default_factory=factory)


def _code(number: int) -> str:
    return CODES[number] if number < len(CODES) else CODES[number // len(CODES) - 1] + CODES[number % len(CODES)]


CODECS: Final = {kind: _codec(kind) for kind in RECORDS}
TABLE_OF: Final = {table.path: table for table in TABLES}
VALUE_OF: Final = {each.name: each for each in VALUES}


def _is_tuple_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _reachable(kind: Any, found: dict[str, list[str]]) -> None:
    """Note the fields of all named tuples that a value of this type may hold."""
    for each in get_args(kind):
        _reachable(each, found)
    if not isinstance(kind, type) or kind.__name__ in found:
        return
    if kind in CODECS:
        found[kind.__name__] = list(CODECS[kind].codes)
        for each in CODECS[kind].kinds.values():
            _reachable(each, found)
    elif _is_tuple_class(kind):
        found[kind.__name__] = list(kind._fields)  # type: ignore[attr-defined]  # a named tuple has them
        for each in get_type_hints(kind).values():
            _reachable(each, found)
    elif is_dataclass(kind):
        found.setdefault(kind.__name__, [])
        for each in get_type_hints(kind).values():
            _reachable(each, found)
        if not found[kind.__name__]:
            del found[kind.__name__]


def _schema() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind in (*(each.key for each in TABLES), *(each.value for each in TABLES), *(each.kind for each in VALUES)):
        _reachable(kind, found)
    return found


SCHEMA: Final = _schema()


def schema_of(kind: Any) -> dict[str, list[str]]:
    """The part of the schema that values of this type need."""
    found: dict[str, list[str]] = {}
    _reachable(kind, found)
    return found


# ----------------------------------------------------------------------------------------------- writing


def entry_body(changes: Iterable[Change], values: Mapping[str, Any], *, with_schema: bool = False) -> bytes:
    """The effects of one commit."""
    schema = SCHEMA if with_schema else None
    return _encoded((VERSION, schema, [_change(each) for each in changes], values))


def joined(bodies: Sequence[bytes], *, with_schema: bool = False) -> bytes:
    """Several commits as one, in their order."""
    if len(bodies) == 1 and not with_schema:
        return bodies[0]
    changes: list[Any] = []
    values: dict[str, msgspec.Raw] = {}
    for body in bodies:
        entry = _entries.decode(body)
        changes += entry.changes
        values.update(entry.values)
    return _encoded((VERSION, SCHEMA if with_schema else None, changes, values))


def _change(change: Change) -> tuple[Any, ...]:
    table, how, key, value = change
    if how == GONE:
        return table.path, how, key, None
    if how == FIELDS:
        return table.path, how, key, CODECS[table.value].some(value)
    codec = CODECS.get(table.value)
    return table.path, how, key, value if codec is None else codec.whole(value)


def record_image(kind: type, record: Any) -> bytes:
    """The image of a record of this kind, by the present schema."""
    return _encoded(CODECS[kind].whole(record))


def head_part(values: Mapping[str, Any], *, with_blocks: bool = False) -> bytes:
    """The first part of a checkpoint."""
    return _encoded((WITH_BLOCKS if with_blocks else VERSION, SCHEMA, (), values))


def table_part(table: TableKind, rows: Sequence[tuple[Any, Any]]) -> bytes:
    """Up to `ROWS_OF_PART` rows of a table. A record may be given as the bytes of its image, and an id as its bytes."""
    codec = CODECS.get(table.value)
    if codec is not None:
        whole = codec.whole
        rows = [(key, value if type(value) is msgspec.Raw else whole(value)) for key, value in rows]
    return _encoded((table.path, rows))


def last_part(until: int) -> bytes:
    """The last part of a checkpoint: its rows are no newer than this entry."""
    return _encoded(("", until))


# ----------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads keys and values of one table."""

    table: TableKind
    key: Callable[[Any], Any]
    value: Callable[[Any], Any]
    """A value; of a record: its fields by name."""
    rows: Callable[[Any], Iterable[tuple[Any, Any]]]


class Reader:
    """Reads what was written by one schema, the present one until another is met."""

    def __init__(self) -> None:
        self._schema: Schema = SCHEMA
        self._tables: dict[str, TableReader] = {}

    def head(self, body: bytes) -> Entry:
        """The first part of a checkpoint, which has values alone."""
        return self._read_entry(body, (VERSION, WITH_BLOCKS))

    def entry(self, body: bytes) -> Entry:
        """The effects of one commit, of which keys and values are still to be read."""
        return self._read_entry(body, (VERSION,))

    def _read_entry(self, body: bytes, versions: Sequence[int]) -> Entry:
        try:
            found = _entries.decode(body)
        except msgspec.DecodeError as failure:
            raise Misconfigured(f"the log holds an entry that cannot be read: {failure}") from None
        if found.version not in versions:
            raise Misconfigured(
                f"the log was written by a release that has another layout ({found.version}, here {VERSION}): use that"
            )
        if found.schema is not None:
            self.use(found.schema)
        return found

    def use(self, schema: Schema) -> None:
        """Read by this schema from now on."""
        if schema != self._schema:
            self._schema = schema
            self._tables.clear()

    def table(self, path: str) -> TableReader | None:
        """Reads one table; None: this release has no such table."""
        reader = self._tables.get(path)
        if reader is None and path in TABLE_OF:
            reader = self._tables[path] = self._reader(TABLE_OF[path])
        return reader

    def part(self, body: bytes) -> tuple[TableReader | None, Iterable[tuple[Any, Any]]] | int:
        """Rows of one table of a checkpoint; of its last part, the position that no row is newer than."""
        part = _parts.decode(body)
        if not part.table:
            return int(_any.decode(part.rows))
        reader = self.table(part.table)
        return reader, () if reader is None else reader.rows(part.rows)

    def images(self, table: str, body: bytes) -> Sequence[tuple[UUID, msgspec.Raw]] | None:
        """Keys and images of a part of a checkpoint; None: it has other rows, or by another schema."""
        part = _parts.decode(body)
        return _images.decode(part.rows) if part.table == table and self._schema == SCHEMA else None

    def values(self, entry: Entry) -> Iterator[tuple[str, Any]]:
        """The single values, as far as this release has them."""
        for name, raw in entry.values.items():
            if name in VALUE_OF:
                yield name, self._read(VALUE_OF[name].kind, raw)

    def _reader(self, table: TableKind) -> TableReader:
        if self._schema == SCHEMA:
            return _fast_reader(table)
        codec = CODECS.get(table.value)

        def value(raw: Any) -> Any:
            plain = _any.decode(raw)
            return self._fields(codec, plain) if codec is not None else self._build(table.value, plain)

        def rows(raw: Any) -> Iterator[tuple[Any, Any]]:
            for key, image in _any.decode(raw):
                fielded = self._fields(codec, image) if codec is not None else self._build(table.value, image)
                yield self._build(table.key, key), fielded

        return TableReader(table, lambda raw: self._build(table.key, _any.decode(raw)), value, rows)

    def _read(self, kind: Any, raw: msgspec.Raw) -> Any:
        return self._build(kind, _any.decode(raw))

    # ------------------------------------------------------------------------------------- by names, in any order

    def _fields(self, codec: RecordCodec, plain: Mapping[str, Any]) -> dict[str, Any]:
        names = self._schema.get(codec.kind.__name__, ())
        by_code = {_code(number): name for number, name in enumerate(names)}
        found = {}
        for code, value in plain.items():
            name = by_code.get(code, "")
            if name in codec.kinds:
                found[name] = self._build(codec.kinds[name], value)
        return found

    def _build(self, kind: Any, plain: Any) -> Any:
        """A value of this type out of what msgpack holds. A record within a value has the names of its fields; only one
        that is a table's value itself has their codes."""
        if _is_tuple_class(kind):
            return self._named(kind, dict(zip(self._schema.get(kind.__name__, ()), plain, strict=False)))
        if isinstance(kind, type) and is_dataclass(kind):
            return self._named(kind, plain)
        origin, given = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._one_of(given, plain)
        if origin is tuple and isinstance(plain, list):
            kinds = [given[0]] * len(plain) if given[1:] == (...,) else given
            return tuple(self._build(each, value) for each, value in zip(kinds, plain, strict=True))
        if isinstance(origin, type) and isinstance(plain, list) and given:
            made = [self._build(given[0], each) for each in plain]
            return frozenset(made) if origin is frozenset else set(made) if issubclass(origin, AbstractSet) else made
        if isinstance(origin, type) and issubclass(origin, Mapping):
            value_kind = int if origin is Counter else given[1]
            return {self._build(given[0], key): self._build(value_kind, each) for key, each in plain.items()}
        return _converted(kind, plain)

    def _one_of(self, kinds: Sequence[Any], plain: Any) -> Any:
        if plain is None and type(None) in kinds:
            return None
        failure: Exception | None = None
        for kind in kinds:
            if kind is not type(None):
                try:
                    return self._build(kind, plain)
                except (Misconfigured, msgspec.ValidationError, TypeError, ValueError, AttributeError) as wrong:
                    failure = wrong
        raise Misconfigured(f"the log holds a value that is none of {kinds}: {failure}")

    def _named(self, kind: Any, plain: Mapping[str, Any]) -> Any:
        hints = get_type_hints(kind)
        try:
            return kind(**{name: self._build(hints[name], each) for name, each in plain.items() if name in hints})
        except TypeError as failure:
            raise Misconfigured(f"this release cannot read a {kind.__name__} of the log: {failure}") from None


def _converted(kind: Any, plain: Any) -> Any:
    try:
        return msgspec.convert(plain, kind, strict=not (isinstance(kind, type) and issubclass(kind, Enum)))
    except msgspec.ValidationError as failure:
        raise Misconfigured(f"the log holds a value that this release cannot read: {failure}") from None


def _fast_reader(table: TableKind) -> TableReader:
    """A reader of images that are written by the present schema."""
    codec = CODECS.get(table.value)
    key = msgspec.msgpack.Decoder(table.key).decode
    if codec is None:
        return TableReader(
            table,
            key,
            msgspec.msgpack.Decoder(table.value).decode,
            msgspec.msgpack.Decoder(list[tuple[table.key, table.value]]).decode,  # type: ignore[name-defined]  # made here
        )
    image: Any = _image_form(codec, codec.kinds)
    many = msgspec.msgpack.Decoder(list[tuple[table.key, image]]).decode  # type: ignore[name-defined]  # made here
    set_fields = _set_fields(codec)
    return TableReader(
        table, key, fields_reader(codec.kind), lambda raw: [(each, set_fields(one)) for each, one in many(raw)]
    )


def _image_form(codec: RecordCodec, names: Iterable[str]) -> Any:
    """The form in which these fields of an image are read. What is not in the image is UNSET."""
    return msgspec.defstruct(
        f"{codec.kind.__name__}Image",
        [(name, codec.kinds[name] | msgspec.UnsetType, msgspec.UNSET) for name in names],
        rename={name: codec.codes[name] for name in names},
    )


def _set_fields(codec: RecordCodec) -> Callable[[Any], dict[str, Any]]:
    names = tuple(codec.kinds)
    values = _all_fields(names)

    def set_fields(image: Any) -> dict[str, Any]:
        unset = msgspec.UNSET
        return {name: value for name, value in zip(names, values(image), strict=True) if value is not unset}

    return set_fields


def fields_reader(kind: type) -> Callable[[Any], dict[str, Any]]:
    """Reads the fields of a record, by name, out of an image of the present schema."""
    codec = CODECS[kind]
    one, set_fields = msgspec.msgpack.Decoder(_image_form(codec, codec.kinds)).decode, _set_fields(codec)
    return lambda raw: set_fields(one(raw))


def some_fields(kind: type, names: Iterable[str]) -> Callable[[Any], Any]:
    """Reads these fields alone, as attributes. One that has its default is UNSET, which is false."""
    return msgspec.msgpack.Decoder(_image_form(CODECS[kind], list(names))).decode


def record_of(kind: type, values: dict[str, Any]) -> Any:
    """A record with these fields. Raises `Misconfigured` if one that has no default is not among them."""
    try:
        return kind(**values)
    except TypeError as failure:
        raise Misconfigured(f"this release cannot read a {kind.__name__} of the log: {failure}") from None
