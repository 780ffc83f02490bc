"""A route, declared as data, so that scope, limits, errors and description can be checked for all of them.

Endpoint(method, path, scope, handler, …)  ◄── resources declare them
    ├──► app        serves those of its services (Starlette; the hottest before it)
    ├──► openapi    describes them
    └──► a test     walks them: no key, wrong key, key without the scope

Invariant: an answer with a secret is never stored. A field of type `Secret` makes its route `secret`, or no route.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_type_hints
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.conditions import Conditions, tag_of
from tickwise.api.problems import BadParameter, Headers
from tickwise.api.reading import JSON_TYPES
from tickwise.api.wire import encode
from tickwise.control.access import heeds_labels, permissions_of
from tickwise.control.control import Control
from tickwise.control.receipts import KEY_REUSED, Once
from tickwise.control.times import instant
from tickwise.domain.callers import Caller
from tickwise.domain.errors import KeyReused, NotFound
from tickwise.domain.model import Origin, Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.paging import SearchPlace
from tickwise.ports.store import Page, Receipt, Replay

T = TypeVar("T")
REST: Final = "rest"
"""Behind the id in the cursor of a search that goes on after a pause with what was not found first."""

BODY_BYTES_MAX: Final = 1 << 20
NAMESPACE_CHARACTERS_MAX: Final = 200
BATCH_BYTES_MAX: Final = 32 << 20
LIMIT_SAID: Final = "The most items of one page. One of large items has fewer: a page without a `Link` is the last."


class ApiService(StrEnum):
    """Parts of the API that may run apart. A gateway tells them by method and path: `users` is all under `/users` and
    `/namespaces`, `auth` all under `/auth` and the key set; of the rest, `search` is every GET and what ends in
    `:preview`, `jobs` what is left."""

    JOBS = "jobs"
    SEARCH = "search"
    USERS = "users"
    AUTH = "auth"


_SERVICES: Final = {"users": ApiService.USERS, "namespaces": ApiService.USERS, "auth": ApiService.AUTH}
"""The tags whose routes are a service of their own."""


_MARK: Final = Meta(extra_json_schema={"format": "password"})
Secret = Annotated[str, _MARK]
"""A text that lets its holder in, and is told once."""


def tells_secret(answer: Any) -> bool:
    """Check whether an answer of this type has a secret, at any depth."""
    return _tells(answer, set())


def _tells(kind: Any, seen: set[Any]) -> bool:
    if _MARK in getattr(kind, "__metadata__", ()):
        return True
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in seen:
            return False
        seen.add(kind)
        return any(_tells(each, seen) for each in _field_types(kind))
    return any(_tells(each, seen) for each in get_args(kind))


@cache
def _field_types(struct: type[msgspec.Struct]) -> tuple[Any, ...]:
    """The types of its fields. Each start of an API asks for them of all routes: to resolve them takes a twentieth of
    it, and many answers have the same parts."""
    return (*get_type_hints(struct, include_extras=True).values(),)


class Reply(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    headers: Headers = []  # noqa: RUF012 - an answer is made once and never changed
    media: bytes = b"application/json"
    stream: AsyncGenerator[bytes] | None = None
    """In place of the body: what is sent as it is made."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A request under an Idempotency-Key."""

    who: Principal
    once: Once

    def receipt(self, answer: Reply) -> Receipt:
        """The answer in its stored form."""
        return self.once.receipt(self.who, answer.status, answer.body)


@dataclass(slots=True)
class Call:
    """One request, read."""

    control: Control
    principal: Principal
    request_id: str
    headers: Mapping[bytes, bytes]
    path: str
    address: str = ""
    """The client's; empty if it is unknown."""
    job_bytes_max: int = BODY_BYTES_MAX
    """Of one job, also within a batch."""
    path_values: Mapping[str, str] = field(default_factory=dict)
    is_head: bool = False
    """The client wants the headers of the answer alone."""
    query: Any = None
    query_text: bytes = b""
    body: bytes = b""
    media: bytes = b"application/json"
    claim: Claim | None = None
    caller: Caller | None = None
    """The caller in all of its namespaces; None on open routes."""
    caller_now: Callable[[], Awaitable[Caller]] | None = None
    """Looks the caller up again, while an answer goes on for long. Raises as the first look-up."""
    headers_of: Callable[[bytes], Headers] | None = None
    """Makes the headers of an answer anew from its body: what is kept of an answer is its body."""
    conditions: Conditions | None = None
    """Its preconditions, if the endpoint minds them and there are any."""
    scheme: str = "http"
    public_url: str | None = None
    """The address of the pages, if the settings name one."""

    @property
    def origin(self) -> Origin:
        """The place from which it came."""
        return Origin(self.address, self.request_id)

    @property
    def base_url(self) -> str:
        """The address of this server as people open it, without a slash at its end: that of the settings, else the one
        that the caller used."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        return f"{self.scheme}://{self.headers.get(b'host', b'localhost').decode('latin-1')}"

    def uuid(self, name: str, what: str) -> UUID:
        """An id from the path. One that is malformed names nothing."""
        text = self.path_values[name]
        try:
            found = UUID(text)
            if str(found) == text.lower():
                return found
        except ValueError:
            pass
        raise NotFound(f"there is no {what} {text[:100]!r}; ids look like 019a2b3c-4d5e-8f60-9123-456789abcdef")


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A route."""

    method: str
    path: str
    name: str
    """The operation's id."""
    tag: str
    summary: str
    handler: Handler
    description: str = ""
    """Details beyond the summary."""
    answers: tuple[Any, ...] = ()
    """The types of what is answered, for the description."""
    status: int = 200
    control: Callable[..., Any] | None = None
    """The method of a service that it calls: the route needs the permission that this method declares."""
    permissions: tuple[Permission, ...] = ()
    """Each of these alone lets in. Filled from `control`, where there is one; empty: open to anybody, or see
    `signed_in`."""
    permission_names: tuple[str, ...] = ()
    """Their names as plain texts: the hash of a member of an enum is slow."""
    by_labels: bool = False
    """A permission for jobs with certain labels is enough. Filled from `control`, which heeds the labels."""
    signed_in: bool = False
    """Any caller with a key or a token may use it: it is about the caller."""
    rest: str = ""
    """The value of the path that may hold slashes; its last one."""
    further: tuple[int, ...] = ()
    """Further statuses of success."""
    also: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    """Further statuses whose answers are no problem, with the types of these."""
    answer_headers: tuple[str, ...] = ()
    """Headers of an answer beside those that every route of its kind has; `openapi.HEADERS` says what each means."""
    refuses: tuple[int, ...] = ()
    """Statuses of refusal beside those that every route of its kind has."""
    body: type[msgspec.Struct] | None = None
    optional_body: bool = False
    media: frozenset[bytes] = JSON_TYPES
    body_bytes_max: int = BODY_BYTES_MAX
    query: type[msgspec.Struct] | None = None
    headers: tuple[str, ...] = ()
    """Request headers that it reads, for the description."""
    headers_of: Callable[[bytes], Headers] | None = None
    """The headers that follow from the body of an answer, for replays."""
    pending: tuple[Any, ...] = ()
    """The types of a 202: the answers about a request or a job that is still on its way to the store."""
    foretold: bool = False
    """Its handler hands the receipt of an Idempotency-Key to the store, with the effect."""
    keyed: bool = False
    """Its method of control also looks the Idempotency-Key up."""
    answer_media: tuple[str, ...] = ("application/json",)
    conditional: bool = False
    """It minds `If-Match` and `If-None-Match`: a GET is answered with the ETag of what it shows, and a write is judged
    by the ETag of what it would change."""
    previews: bool = False
    """A POST that only looks: nothing is changed by it."""
    secret: bool = False
    """Its answer holds a secret: it is not kept, so an Idempotency-Key has no effect."""
    endless: bool = False
    """Its answer goes on until the client leaves, or the server ends it."""
    everywhere: bool = False
    """It speaks of the process that is asked, so every one serves it."""

    def __post_init__(self) -> None:
        if self.control is not None and not self.signed_in:
            object.__setattr__(self, "permissions", permissions_of(self.control))
            object.__setattr__(self, "by_labels", heeds_labels(self.control))
        object.__setattr__(self, "permission_names", tuple(each.value for each in self.permissions))
        told = (*self.answers, *self.pending, *(kind for kinds in self.also.values() for kind in kinds))
        if not self.secret and any(tells_secret(kind) for kind in told):
            raise TypeError(f"the answer of {self.name} has a secret: declare the route with secret=True")

    @property
    def is_open(self) -> bool:
        """True if the endpoint needs no sign-in."""
        return not self.permissions and not self.signed_in

    @property
    def service(self) -> ApiService | None:
        """The part of the API that it belongs to; None: to each."""
        if self.everywhere:
            return None
        if self.tag in _SERVICES:
            return _SERVICES[self.tag]
        return ApiService.SEARCH if self.method == "GET" or self.previews else ApiService.JOBS


def answer(status: int, value: Any, *, headers: Headers | None = None) -> Reply:
    """A JSON answer."""
    return Reply(status, encode(value), headers or [])


def tagged(call: Call, found: Reply) -> Reply:
    """The answer to a GET with its ETag, judged by the preconditions: 304 if the client has it already. Raises
    `VersionConflict`."""
    if found.status != 200:
        return found
    current = tag_of(found.body)
    headers = [*found.headers, (b"etag", current)]
    if call.conditions is not None:
        call.conditions.check_match(current)
        if call.conditions.is_known(current):
            return Reply(304, b"", headers, found.media)
    return found._replace(headers=headers)


def replayed(call: Call, replay: Replay) -> Reply:
    """The stored answer to an earlier request under this Idempotency-Key. Raises `KeyReused`."""
    if call.claim is not None and replay.body_digest != call.claim.once.digest:
        raise KeyReused(KEY_REUSED)
    headers = [] if call.headers_of is None else call.headers_of(replay.body)
    return Reply(replay.status, replay.body, [*headers, (b"idempotency-replayed", b"true")])


def page_of(rows: Page[T], limit: int) -> tuple[Sequence[T], bool]:
    """The items of a page that was asked for with one item more than its limit, and whether more follow them."""
    return rows[:limit], rows.is_full(limit + 1)


def page_links(call: Call, last: str | None) -> Headers:
    """The `Link` to the page after the item `last`; none if there is none."""
    if last is None:
        return []
    pairs = parse_qsl(call.query_text.decode("ascii"), keep_blank_values=True)
    kept = [(name, value) for name, value in pairs if name != "cursor"]
    target = f"{call.path}?{urlencode([*kept, ('cursor', cursor_of(last))])}"
    return [(b"link", f'<{target}>; rel="next"'.encode("ascii"))]


def cursor_of(last: str) -> str:
    """Opaque on purpose: what is in it may change."""
    return urlsafe_b64encode(last.encode()).rstrip(b"=").decode()


def cursor_text(cursor: str) -> str:
    """Decode the argument of `cursor_of`. Raises `BadParameter`."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
    except ValueError:
        raise foreign_cursor() from None
    if "\0" in text:  # no store keeps it, so no row has it
        raise foreign_cursor()
    return text


def foreign_cursor() -> BadParameter:
    """The error of a cursor that no listing of this kind has given."""
    return BadParameter("this cursor is not from this server; begin without one", parameter="cursor")


def given(value: T | UnsetType) -> T | None:
    """A parameter, or None if it was not sent."""
    return None if value is UNSET else value


def given_instant(value: datetime | UnsetType) -> float | None:
    """A time in a parameter as Unix seconds, or None if it was not sent."""
    return None if value is UNSET else instant(value)


def labels_of(said: list[str]) -> dict[str, str]:
    """The labels of a parameter that is `name=value`, given several times."""
    labels = {}
    for label in said:
        name, sign, value = label.partition("=")
        if not sign or not name:
            raise BadParameter("write a label as name=value", parameter="label")
        labels[name] = value
    return labels


def search_cursor(place: SearchPlace | None) -> str | None:
    """The place of a search in a cursor (`page_links`)."""
    if place is None:
        return None
    rest = REST if place.is_rest else place.rest_from
    return str(place.before) if rest is None else f"{place.before} {rest}"


def cursor_place(cursor: str | UnsetType) -> SearchPlace | None:
    """The place in the cursor of a search that may pause; None: the begin."""
    if cursor is UNSET:
        return None
    before, _, rest = cursor_text(cursor).partition(" ")
    try:
        return SearchPlace(UUID(before), rest == REST, UUID(rest) if rest not in ("", REST) else None)
    except ValueError:
        raise foreign_cursor() from None


def cursor_id(cursor: str | UnsetType) -> UUID | None:
    """The id in a cursor."""
    if cursor is UNSET:
        return None
    try:
        return UUID(cursor_text(cursor))
    except ValueError:
        raise foreign_cursor() from None
