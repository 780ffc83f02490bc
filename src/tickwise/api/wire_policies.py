"""A job's policies in an answer: the objects of its definition, with the defaults that the stored form leaves out."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tickwise.documents.definition import (
    CalendarUse,
    ClockChanges,
    Concurrency,
    Limits,
    MisfirePolicy,
    Rate,
    Retry,
    RetryOn,
)

V = TypeVar("V", bound=msgspec.Struct)


class ClockChangesView(ClockChanges, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """The handling of times that the clock skips or shows twice, for a CRON schedule; null: as Debian's cron does."""


class MisfireView(MisfirePolicy, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """The handling of occurrences that could not run in time."""


class CalendarUseView(CalendarUse, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """A calendar that the job goes by."""


class LimitsView(Limits, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """The resources that one attempt may use, with all processes that it starts."""


class RetryOnView(RetryOn, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """The failures that are worth another attempt, and those that are not."""


class RetryView(Retry, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """The rule by which another attempt follows a failed one."""

    on: RetryOnView = RetryOnView()


class ConcurrencyView(Concurrency, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """No more than `limit` runs with the same key go on at once."""


class RateView(Rate, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """Attempts with the same key begin evenly spaced, `limit` in `per_seconds`."""


def whole(view: type[V], policy: msgspec.Struct) -> V:
    """A policy of the definition as its view, field by field."""
    return view(*msgspec.structs.astuple(policy))


def retry_view(retry: Retry) -> RetryView:
    """The view of `retry`, and of the `on` in it."""
    return msgspec.structs.replace(whole(RetryView, retry), on=whole(RetryOnView, retry.on))
