"""One error shape: the tree of `domain/errors.py` as RFC 9457 `application/problem+json`, in one place.

{"type": "urn:tickwise:problem:invalid", "title": "A field is wrong", "status": 422, "code": "invalid",
 "detail": "…what is wrong and what to do…", "pointer": "/cron_expression", "position": 4, "request_id": "…"}
"""

from __future__ import annotations

import math
from typing import Final
from uuid import UUID

import msgspec

from tickwise.domain.errors import (
    BrokerUnavailable,
    Busy,
    CassandraAway,
    Conflict,
    CronInvalid,
    Forbidden,
    InDoubt,
    Invalid,
    KeeperAway,
    KeyReused,
    Malformed,
    NotFound,
    NoTokenGiven,
    RangeNotSatisfiable,
    Refused,
    SecondFactorRequired,
    StoreUnavailable,
    TickwiseError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    VersionConflict,
)

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:tickwise:problem:"
MAX_DETAIL_CHARACTERS: Final = 1_000
"""Of a problem's text, however long the value is that it quotes; clients log problems."""
MAX_POINTER_CHARACTERS: Final = 500
"""Of a pointer. A longer one ends at the last member whose name is whole."""


class NoSuchRoute(NotFound):
    """Nothing is served under this path."""

    code = "route_unknown"


class NotServedHere(Refused):
    """The route is served, by processes that were started for another part of the API. A gateway sent it astray."""

    code = "not_served_here"

    def __init__(self, service: str) -> None:
        super().__init__(
            f"this belongs to `{service}`, which is not served here; send it to a server that was started with "
            f"`--serve {service}`"
        )
        self.service = service


class MethodNotAllowed(Refused):
    """The path is served, with other methods."""

    code = "method_not_allowed"

    def __init__(self, allow: str) -> None:
        super().__init__(f"this path takes {allow}")
        self.allow = allow


class NotReady(Unavailable):
    """This server should get no requests for now."""

    code = "not_ready"


class JobPending(Unavailable):
    """The job is accepted and not stored yet; what needs it there can be asked for a moment later."""

    code = "job_pending"


class WrongMediaType(Refused):
    """The body is of a type that this route does not read."""

    code = "media_type_unsupported"


class NotAcceptable(Refused):
    """The caller reads none of the media types that this is answered as; nothing was done."""

    code = "not_acceptable"


class BadParameter(Invalid):
    """A query parameter or header is wrong; bodies have pointers, these have names."""

    code = "parameter_invalid"

    def __init__(self, detail: str, *, parameter: str) -> None:
        super().__init__(detail)
        self.parameter = parameter


class BadHeader(Malformed):
    """A header whose text is not of its grammar."""

    code = "header_malformed"

    def __init__(self, detail: str, *, parameter: str) -> None:
        super().__init__(detail)
        self.parameter = parameter


class TokenRequestInvalid(Malformed):
    """A request for a token whose fields are missing, unknown or contradict each other (RFC 6749, section 5.2)."""

    code = "token_request_invalid"


class RateLimited(Busy):
    """This key, address or namespace sends more requests in a second than one may; nothing of this one was done."""

    code = "rate_limited"


class HttpMalformed(Malformed):
    """The bytes are no HTTP/1.1 request, or one that two servers could read in two ways. The connection ends."""

    code = "http_malformed"

    def __init__(self, problem: str = "these bytes are no HTTP/1.1 request") -> None:
        super().__init__(f"{problem}; nothing of it was done, and the connection ends")


class AddressTooLong(Refused):
    """The address of the request, with its query, is over its limit (`uri_limit_bytes`). The connection ends."""

    code = "uri_too_long"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the address has more than {limit} bytes; send less in the query")


class HeadersTooLarge(Refused):
    """The headers of a request, or what follows its body, are over their limit (`header_limit_bytes`, 256 lines). The
    connection ends."""

    code = "headers_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the headers have more than {limit} bytes or 256 lines; send less")


class RequestTimeout(Refused):
    """The request did not arrive in time (`header_seconds`, `body_bytes_per_second_least`). The connection ends."""

    code = "request_timeout"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; nothing of it was done, send it again at once")


class ExpectationUnknown(Refused):
    """`Expect` names something else than `100-continue`. The connection ends."""

    code = "expectation_unknown"

    def __init__(self) -> None:
        super().__init__("the only expectation that is met is 100-continue; send the request without Expect")


class HttpUnsupported(Refused):
    """A method or transfer coding of HTTP that this server does not have. The connection ends."""

    code = "http_unsupported"


class HttpVersionUnsupported(Refused):
    """Another version of HTTP than 1.1 or 1.0. The connection ends."""

    code = "http_version_unsupported"

    def __init__(self, version: str) -> None:
        super().__init__(f"HTTP/{version} is not spoken here; use HTTP/1.1")


class TooManyWaiting(Busy):
    """Too many requests wait on one connection for the one before them. The connection ends after their answers."""

    code = "pipeline_full"


class ServerFull(Unavailable):
    """All connections that this server may have (`connections_limit`) are at work."""

    code = "connections_full"

    def __init__(self) -> None:
        super().__init__("all connections of this server are at work; try again a little later")


class KeysWaiting(Unavailable):
    """Too many keys that this server has not seen before wait to be looked up. This one was not; send it again."""

    code = "keys_waiting"

    def __init__(self) -> None:
        super().__init__("too many new keys wait to be looked up; this one was not, send it again a little later")


class BatchRefused(Invalid):
    """An atomic batch of which not every job could be stored; `results` says what is wrong with which."""

    code = "batch_refused"

    def __init__(self, detail: str, results: list[ResultView]) -> None:
        super().__init__(detail)
        self.results = results


_STATUS: Final[tuple[tuple[type[TickwiseError], int, str], ...]] = (
    # The narrower class first: the first that fits is taken.
    (KeyReused, 422, "The Idempotency-Key was used before"),
    (Invalid, 422, "A field is wrong"),
    (BadHeader, 400, "A header cannot be read"),
    (NoTokenGiven, 400, "No token is given"),
    (HttpMalformed, 400, "The request cannot be read"),
    (Malformed, 400, "The body cannot be read"),
    (Unauthenticated, 401, "Not authenticated"),
    (Forbidden, 403, "The key does not allow this"),
    (NotFound, 404, "There is no such thing"),
    (MethodNotAllowed, 405, "The method is not allowed here"),
    (RequestTimeout, 408, "The request did not arrive in time"),
    (AddressTooLong, 414, "The address is too long"),
    (RangeNotSatisfiable, 416, "The file has no such range"),
    (ExpectationUnknown, 417, "The expectation cannot be met"),
    (NotAcceptable, 406, "The answer cannot be read by the caller"),
    (NotServedHere, 421, "Another service serves this"),
    (VersionConflict, 412, "The precondition does not hold"),
    (Conflict, 409, "Its present state does not allow this"),
    (TooLarge, 413, "The body is too large"),
    (WrongMediaType, 415, "The media type is not supported"),
    (HeadersTooLarge, 431, "The headers are too large"),
    (HttpUnsupported, 501, "This part of HTTP is not supported"),
    (HttpVersionUnsupported, 505, "This version of HTTP is not supported"),
    (Refused, 422, "The request cannot be carried out"),
    (Busy, 429, "Too much at once"),
    (Unavailable, 503, "Not available for now"),
)
TITLES: Final = {status: title for _, status, title in reversed(_STATUS)} | {
    400: "The request cannot be read",
    422: "A field is wrong",
}


_FOR_CALLERS: Final[dict[type[TickwiseError], str]] = {
    StoreUnavailable: "the store cannot be reached, so nothing was done; send the same again a little later",
    KeeperAway: "no keeper answers for this data, so nothing was done: start `tickwise keeper`; where one runs, send "
    "the same again a little later, for a takeover takes some seconds",
    CassandraAway: "Cassandra does not answer, so nothing was done; send the same again a little later, and look "
    "whether a majority of its nodes runs",
    InDoubt: "the link to the store broke during the write: whether this is stored is unknown; send the same again: "
    "with the same job_id or Idempotency-Key, twice is once",
    BrokerUnavailable: "the broker cannot be reached, or did not confirm this in time: whether it is taken is "
    "unknown; send the same again: with the same job_id or Idempotency-Key, twice is once",
    Unavailable: "something that this server needs is away for now; send the same again a little later",
}
"""These replace an adapter's message, which may quote internal addresses."""


def detail_of(failure: TickwiseError) -> str:
    """The text that a caller may read, cut short. The rest stays in the log."""
    detail = _FOR_CALLERS.get(type(failure), failure.detail)
    return detail if len(detail) <= MAX_DETAIL_CHARACTERS else detail[: MAX_DETAIL_CHARACTERS - 1] + "…"


def _short_pointer(pointer: str | None) -> str | None:
    if pointer is None or len(pointer) <= MAX_POINTER_CHARACTERS:
        return pointer
    return pointer[: MAX_POINTER_CHARACTERS + 1].rpartition("/")[0]


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """RFC 9457, with our members."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    pointer: str | None = None
    """RFC 6901, into the body that was sent."""
    position: int | None = None
    """The position in the text at `pointer` (a cron line), or in the body that could not be read, counted from 0."""
    parameter: str | None = None
    """The query parameter or header at fault."""
    service: str | None = None
    """The part of the API that serves the route, where it is not this server's."""
    request_id: str | None = None
    error: str | None = None
    """The code for clients of OAuth, where it is one of theirs (RFC 6749, section 5.2)."""
    results: list[ResultView] | None = None
    """Of an atomic batch: what is wrong with which job."""
    challenge: str | None = None
    """Of a right password that is not enough: the secret of the second step, for `grant_type=second_factor`."""
    factors: list[str] | None = None
    """The kinds of second factors that the person can show: `totp`, `passkey` (in the pages), `recovery_code`."""
    expires_in: int | None = None
    """The seconds for which the challenge works."""


class ResultView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The result for one job of a batch."""

    status: int
    job_id: UUID | None = None
    operation_id: UUID | None = None
    """Of a job that is accepted and not stored yet."""
    warnings: tuple[str, ...] = ()
    problem: Problem | None = None


Headers = list[tuple[bytes, bytes]]


def problem_of(failure: TickwiseError, request_id: str | None = None) -> tuple[Problem, Headers]:
    """The problem, and the headers that belong to it."""
    status, title = 500, "An error of the server's own"
    for kind, number, words in _STATUS:
        if isinstance(failure, kind):
            status, title = number, words
            break
    detail = detail_of(failure) if status != 500 else "an unexpected error; its log lines have the request_id"
    code = failure.code if status != 500 else "internal"
    problem = Problem(
        type=TYPE_PREFIX + code,
        title=title,
        status=status,
        code=code,
        detail=detail,
        pointer=_short_pointer(failure.pointer) if isinstance(failure, Refused) else None,
        position=failure.position if isinstance(failure, CronInvalid | MalformedAt) else None,
        parameter=failure.parameter if isinstance(failure, BadParameter | BadHeader) else None,
        service=failure.service if isinstance(failure, NotServedHere) else None,
        request_id=request_id,
        error=_oauth_error(failure),
        results=failure.results if isinstance(failure, BatchRefused) else None,
    )
    if isinstance(failure, SecondFactorRequired):
        problem.challenge, problem.factors = failure.challenge, list(failure.factors)
        problem.expires_in = failure.expires_in
    return problem, _headers(failure)


def _oauth_error(failure: TickwiseError) -> str | None:
    if isinstance(failure, NoTokenGiven):
        return failure.code
    return "invalid_request" if isinstance(failure, TokenRequestInvalid) else None


def _headers(failure: TickwiseError) -> Headers:
    if isinstance(failure, Unavailable):
        return [(b"retry-after", str(max(1, math.ceil(failure.retry_after_seconds))).encode())]
    if isinstance(failure, SecondFactorRequired):
        return [(b"www-authenticate", b'Bearer realm="tickwise"'), (b"cache-control", b"no-store")]
    if isinstance(failure, Unauthenticated):
        return [(b"www-authenticate", b'Bearer realm="tickwise"')]
    if isinstance(failure, MethodNotAllowed):
        return [(b"allow", failure.allow.encode())]
    if isinstance(failure, RangeNotSatisfiable):
        return [(b"content-range", b"bytes */%d" % failure.size)]
    return []


class MalformedAt(Malformed):
    """A body that is no JSON from `position` on."""

    def __init__(self, detail: str, position: int | None) -> None:
        super().__init__(detail, pointer="")
        self.position = position
