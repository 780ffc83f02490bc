"""The calls of the port as bytes, by the types that the port declares.

    call      [argument, …]            in the order of the port; what is left out has its default
    answer    the value
    refusal   [class, detail, {attribute: value}]

A union of several classes is [which of them, value]; a page is [rows, cut, …]. All else is as msgspec writes it: named
tuples are arrays, other records are maps by the names of their fields.

Invariant: a name that is not in `FORMS` is no call. Nothing else of a store can be reached by the wire.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from tickwise.adapters.store.keeper.log import OwnershipLost
from tickwise.adapters.store.keeper.shards import SHARD_MAP
from tickwise.domain import errors
from tickwise.domain.errors import Bug, InDoubt, Invalid, StoreUnavailable, TickwiseError, TooLarge
from tickwise.ports.audit import AuditPage, AuditPlace
from tickwise.ports.feed import PackedIds
from tickwise.ports.paging import Page, SearchPlace
from tickwise.ports.shards import ShardMap
from tickwise.ports.store import Handover, PlannedPage, SearchCount, Store
from tickwise.ports.store.wrapping import PARTS

_ATTRIBUTES: Final[Mapping[str, Any]] = {"job_id": UUID, "shards": frozenset[int], "factors": tuple[str, ...]}
"""The types of errors' attributes that are no plain values."""

Raw = msgspec.Raw
Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    if isinstance(value, PackedIds):
        return b"".join(value.each())
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Collection):
        return list(value)
    raise NotImplementedError(f"no form is known of a {type(value).__name__}")


def _made(kind: type, plain: Any) -> Any:
    if kind is PackedIds:
        return PackedIds(plain)
    if kind is object:  # JSON
        return plain
    raise NotImplementedError(f"no form is known of a {kind.__name__}")


_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes", enc_hook=_plain)


def encoded(value: Any) -> bytes:
    """The bytes of a message. Half of a surrogate pair, for which UTF-8 has no bytes, becomes a question mark, as in
    the log. Raises `Invalid` for a value that no message can hold."""
    try:
        try:
            return _encoder.encode(value)
        except UnicodeEncodeError:
            plain = msgspec.to_builtins(value, builtin_types=(bytes, UUID, Raw), str_keys=False, enc_hook=_plain)
            return _encoder.encode(_storable(plain))
    except OverflowError:
        raise Invalid("a number has more than 64 bits: send it as a text") from None
    except RecursionError:
        raise Invalid("a value is nested too deeply: send it with fewer levels, or as a text") from None


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(key): _storable(each) for key, each in value.items()}
    return [_storable(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else value


def reader(kind: Any) -> Read:
    """Read the bytes of a value of this type. Raises `msgspec.DecodeError`, for all bytes that are none."""
    decode = msgspec.msgpack.Decoder(kind, dec_hook=_made).decode

    def read(body: bytes | Raw) -> Any:
        try:
            return decode(body)
        except (ValueError, ArithmeticError, RecursionError, MemoryError) as failure:
            # Texts that are no UTF-8, numbers, depths and sizes have errors that are not msgspec's.
            if isinstance(failure, msgspec.DecodeError):
                raise
            raise msgspec.DecodeError(f"{type(failure).__name__}: {failure}") from None

    return read


# ----------------------------------------------------------------------------------------------- values of one type


@dataclass(frozen=True, slots=True)
class ValueForm:
    """A value that msgspec cannot tell apart by itself, or that has more to it than its rows."""

    kind: Any
    """The type that msgspec reads."""
    write: Write | None = None
    read: Read | None = None


def form_of(kind: Any) -> ValueForm:
    """The form of a value of this type. Raises `Bug` for a type that loses something on the way."""
    origin, given = get_origin(kind) or kind, get_args(kind)
    if origin is Page:
        places = tuple[bool, SearchPlace | None, UUID | None]
        return ValueForm(
            tuple[list[given[0]], places, tuple[float | None] | None],  # type: ignore[valid-type]  # made here
            _parts_of,
            _page,
        )
    if origin is AuditPage:
        return ValueForm(
            tuple[list[_row_of(AuditPage)], bool, AuditPlace | None],  # type: ignore[misc]  # made here
            lambda page: ([*page], page.cut, page.goes_on),
            lambda plain: AuditPage(plain[0], cut=plain[1], goes_on=plain[2]),
        )
    if origin is SearchCount:
        return ValueForm(
            tuple[int, bool],
            lambda count: (int(count), count.is_whole),
            lambda plain: SearchCount(plain[0], is_whole=plain[1]),
        )
    _check_whole(kind)
    if origin in (Union, types.UnionType) and not _is_clear(kind):
        return _tagged(given)
    return ValueForm(kind)


def _parts_of(page: Page[Any]) -> tuple[Any, ...]:
    planned = (page.known_until,) if isinstance(page, PlannedPage) else None
    return [*page], (page.cut, page.paused_at, page.rest_from), planned


def _page(plain: Any) -> Page[Any]:
    rows, (cut, paused_at, rest_from), planned = plain
    page: Page[Any] = Page(rows) if planned is None else PlannedPage(rows, known_until=planned[0])
    page.cut, page.paused_at, page.rest_from = cut, paused_at, rest_from
    return page


def _row_of(kind: type) -> Any:
    """The rows of a class of pages."""
    return get_args(kind.__orig_bases__[0])[0]  # type: ignore[attr-defined]  # a generic class has them


def _is_clear(kind: Any) -> bool:
    try:
        msgspec.msgpack.Decoder(kind, dec_hook=_made)
    except TypeError:
        return False
    return True


def _check_whole(kind: Any) -> None:
    for each in get_args(kind):
        if each in (SearchCount, AuditPage) or get_origin(each) is Page or each is Page:
            raise Bug(f"the wire has no form of a {kind}: only an answer as a whole is a page or a count")
        _check_whole(each)


def _tagged(kinds: tuple[Any, ...]) -> ValueForm:
    """[which of the classes, value]."""
    classes = [get_origin(each) or each for each in kinds]
    readers = [reader(each) for each in kinds]

    def write(value: Any) -> tuple[int, Any]:
        for number, each in enumerate(classes):
            if type(value) is each or (each is type(None) and value is None):
                return number, value
        for number, each in enumerate(classes):
            if isinstance(value, each):
                return number, value
        raise Bug(f"a {type(value).__name__} is none of {classes}")

    def read(plain: tuple[int, Raw]) -> Any:
        if not 0 <= plain[0] < len(readers):
            raise msgspec.ValidationError("the value is of no class that this release knows")
        return readers[plain[0]](plain[1])

    return ValueForm(tuple[int, Raw], write, read)


# ----------------------------------------------------------------------------------------------- calls


class CallForm:
    """The encoding of the calls of one method of the port, and of their answers."""

    def __init__(self, name: str, method: Any) -> None:
        hints = get_type_hints(method)
        parameters = [each for each in inspect.signature(method).parameters.values() if each.name != "self"]
        forms = [form_of(hints[each.name]) for each in parameters]
        self.name = name
        self._names = [each.name for each in parameters]
        self._defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        self._named_from = sum(each.kind is not each.KEYWORD_ONLY for each in parameters)
        self._writes = [(at, form.write) for at, form in enumerate(forms) if form.write is not None]
        self._reads = [(at, form.read) for at, form in enumerate(forms) if form.read is not None]
        self._read_arguments = reader(tuple[tuple(form.kind for form in forms)])  # type: ignore[misc]  # made here
        self._answer = form_of(hints["return"])
        self._read_answer = reader(self._answer.kind)

    def call(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> bytes:
        """The bytes of the arguments of a call. Raises `TypeError` for arguments that the port does not have."""
        if len(given) > self._named_from or not named.keys() <= set(self._names[len(given) :]):
            raise TypeError(f"{self.name} has no such arguments: {len(given)} of them, and {sorted(named)}")
        values = [*given]
        for name in self._names[len(given) :]:
            if name in named:
                values.append(named[name])
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                raise TypeError(f"{self.name} needs {name}")
        for at, write in self._writes:
            values[at] = write(values[at])
        body = encoded(values)
        check_size(self.name, body)
        return body

    def arguments(self, body: bytes | Raw) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call: those by place, and those by name. Raises `msgspec.DecodeError`."""
        values = [*self._read_arguments(body)]
        for at, read in self._reads:
            values[at] = read(values[at])
        placed = self._named_from
        return values[:placed], dict(zip(self._names[placed:], values[placed:], strict=True))

    def answer(self, value: Any) -> Any:
        """An answer as a value to be written."""
        return value if self._answer.write is None else self._answer.write(value)

    def read_answer(self, body: bytes | Raw) -> Any:
        """The answer. Raises `msgspec.DecodeError`."""
        plain = self._read_answer(body)
        return plain if self._answer.read is None else self._answer.read(plain)


def _forms() -> dict[str, CallForm]:
    found = {"now": CallForm("now", Store.now)}
    kinds = {part: get_type_hints(getattr(Store, part).fget)["return"] for part in PARTS}
    for part, kind in [*kinds.items(), (SHARD_MAP, ShardMap)]:
        for name in dir(kind):
            method = getattr(kind, name)
            if not name.startswith("_") and inspect.iscoroutinefunction(method):
                found[f"{part}.{name}"] = CallForm(f"{part}.{name}", method)
    return found


FORMS: Final = _forms()
"""Each method of the port, by its name: `now`, or `jobs.add` for one of a part; and those of the map of shards."""
READING: Final = frozenset(
    {name for name in FORMS if name.partition(".")[0] in ("searches", "feed", "delays")}
    | {"now", "upkeep.stats", "shard_map.read", "marks.get", "epochs.all", "completions.pending"}
    # What requests read: who asks, what they may do, and what they ask for.
    | {"keys.find", "keys.of_id", "keys.page", "keys.count", "users.get", "users.page", "users.sign_in"}
    | {"users.link_holder", "roles.all", "sessions.public_keys", "sessions.is_good", "browser_sessions.link"}
    | {"identity_keys.find", "identities.find", "identities.of_user", "device_sign_ins.find", "factors.of"}
    | {"factors.by_credential", "factors.seeds", "factor_steps.step", "factor_steps.recovery"}
    | {"federations.get", "federations.page", "federations.of_issuer"}
    | {"namespaces.get", "namespaces.page", "namespaces.removed", "rules.all", "rules.find", "quotas.use"}
    | {"checks.violations", "stops.find", "stops.due", "queues.all", "executors.all", "executors.keys", "receipts.find"}
    | {"jobs.get", "runs.get", "runs.attempts", "runs.waiting", "letters.get", "operations.get", "incidents.between"}
    | {"tasks.get", "tasks.page", "tasks.versions", "tasks.scripts", "secrets.find", "secrets.uses", "secrets.versions"}
    | {"secrets.sealed", "secrets.sealed_keys", "secrets.keys_used", "saved_views.find", "status_pages.find"}
    | {"status_pages.days", "status_pages.announcements", "channels.find", "channels.secrets", "channels.all_secrets"}
    | {"channels.backlog", "notices.find", "notices.backlog", "notification_rules.find", "notification_rules.version"}
    | {"alerts.find", "alerts.due", "alerts.ends", "alerts.events", "alerts.bursts", "alerts.standing"}
    | {"objectives.find", "objectives.jobs", "objectives.counts"}
    | {"error_groups.get", "error_groups.search", "error_groups.hours", "error_groups.jobs", "error_groups.of_runs"}
    | {"error_groups.pending", "audit.find", "audit.heads", "audit.seals", "audit.contents", "audit.unsealed"}
    | {"audit.settled", "audit.checkpoints", "removals.jobs", "removals.left"}
    # What executors compare, and what they are to make.
    | {"held.digest", "held.tokens", "held.take_again", "environments.wanted", "environments.fault"}
)
"""Calls that change nothing: one whose answer was lost is made again. All others are in doubt then. The contract of the
store is run against this list (`tests/conformance/test_file_store.py`)."""

handovers: Final = reader(list[Handover])


# ----------------------------------------------------------------------------------------------- errors


class NotServedHere(StoreUnavailable):
    """The keeper does not own the shard, or not any more. Nothing was carried out."""


CALL_MAX_BYTES: Final = 40 << 20
"""Of the arguments of a call that changes something, which are in its effects: an entry of the log must hold those. The
largest batch of jobs that the API takes has 32 MB."""


def check_size(name: str, body: bytes | Raw) -> None:
    """Raise `TooLarge` for a call whose effects may not fit into an entry of the log."""
    size = memoryview(body).nbytes
    if size > CALL_MAX_BYTES and name not in READING:
        raise TooLarge(f"{name} has {size} bytes at once; the most is {CALL_MAX_BYTES}: send less at a time")


class Refusal(msgspec.Struct, array_like=True):
    """An error on the wire."""

    kind: str
    detail: str
    attributes: dict[str, Raw]
    ancestors: list[str] = []
    """The classes that `kind` is one of, the nearest first: for a reader of an earlier release, which knows one of
    these only."""


def _kinds(root: type[TickwiseError]) -> dict[str, type[TickwiseError]]:
    found = {root.__name__: root}
    for each in root.__subclasses__():
        if each.__module__ == errors.__name__:
            found |= _kinds(each)
    return found


_ERRORS: Final[dict[str, type[TickwiseError]]] = {**_kinds(TickwiseError), NotServedHere.__name__: NotServedHere}
_readers: Final = {name: reader(kind) for name, kind in _ATTRIBUTES.items()}
_any: Final = reader(Any)


def refusal(failure: TickwiseError) -> tuple[str, str, dict[str, Any], list[str]]:
    """An error to be written. One that only the keeper knows becomes the nearest that the port names."""
    if isinstance(failure, OwnershipLost):
        return InDoubt.__name__, failure.detail, {}, []
    kind, *ancestors = (each.__name__ for each in type(failure).__mro__ if _ERRORS.get(each.__name__) is each)
    attributes = {name: value for name, value in vars(failure).items() if name != "detail"}
    return kind, failure.detail, attributes, ancestors


def error_of(found: Refusal) -> TickwiseError:
    """The error again. One of another release that this one does not know is the nearest that it does."""
    known = (_ERRORS[name] for name in (found.kind, *found.ancestors) if name in _ERRORS)
    kind: type[TickwiseError] = next(known, TickwiseError)
    failure: TickwiseError = kind.__new__(kind)
    Exception.__init__(failure, found.detail)
    failure.detail = found.detail
    for name, raw in found.attributes.items():
        # The other end chooses the names: none of them may reach what each exception has.
        if name.isidentifier() and not name.startswith("_") and not hasattr(BaseException, name):
            setattr(failure, name, _readers.get(name, _any)(raw))
    return failure
