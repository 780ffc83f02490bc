"""Refusals and outages as pages: what is wrong, and what to do."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwise.domain.errors import (
    Busy,
    Conflict,
    Forbidden,
    Invalid,
    Malformed,
    NotFound,
    Refused,
    StoreUnavailable,
    TickwiseError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    VersionConflict,
)


class Failure(NamedTuple):
    """A failure as a page tells it."""

    status: int
    title: str
    detail: str
    advice: str = ""


_KINDS: Final[tuple[tuple[type[TickwiseError], int, str, str], ...]] = (
    (
        NotFound,
        404,
        "Not found",
        "It may be over for so long that it is no longer kept, or belong to another namespace.",
    ),
    (Forbidden, 403, "Not allowed", "Or choose another namespace in the menu above."),
    (VersionConflict, 409, "Changed meanwhile", "Open the page again to see what changed, and repeat."),
    (Conflict, 409, "Not possible now", ""),
    (Invalid, 422, "Not accepted", "Go back, correct it, and send it again."),
    (TooLarge, 413, "Too large", ""),
    (Malformed, 400, "Not understood", ""),
    (Unauthenticated, 401, "Not signed in", ""),
    (Busy, 429, "Please wait", "Try again in a moment."),
    (StoreUnavailable, 503, "The database is away", ""),
    (Unavailable, 503, "Not available", "Try again in a moment."),
    (Refused, 400, "Refused", ""),
)
AWAY: Final = (
    "The pages cannot be shown while the database does not answer. Executors go on with what they run. This page looks "
    "again by itself."
)


def failure_of(error: Exception) -> Failure:
    """The page of a failure. An error that is not ours is told as no more than that."""
    if isinstance(error, TickwiseError):
        for kind, status, title, advice in _KINDS:
            if isinstance(error, kind):
                return Failure(status, title, error.detail, AWAY if kind is StoreUnavailable else advice)
    return Failure(
        500, "Something went wrong", "This is a fault of Tickwise.", "The log of the server has the details."
    )
