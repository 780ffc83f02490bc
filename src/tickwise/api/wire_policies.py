"""A job's definition in an answer: its objects have the defaults that the stored form leaves out.

The stored text is decoded straight into the types of the answer, so nothing is converted for each job of a list.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tickwise.documents.definition import (
    CalendarUse,
    ClockChanges,
    Concurrency,
    Definition,
    IdentityToken,
    Limits,
    MisfirePolicy,
    Rate,
    Retry,
    RetryOn,
)


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


class IdentityTokenView(IdentityToken, frozen=True, omit_defaults=False, forbid_unknown_fields=False):
    """The signed token that each attempt gets."""


class AnsweredDefinition(Definition, frozen=True, kw_only=True):
    """A definition whose objects are those of the answer."""

    dst: ClockChangesView = ClockChangesView()
    misfire: MisfireView = MisfireView()
    calendars: tuple[CalendarUseView, ...] = ()
    limits: LimitsView = LimitsView()
    retry: RetryView = RetryView()
    concurrency: ConcurrencyView | None = None
    rate: RateView | None = None
    identity_token: IdentityTokenView | None = None


decode_answered: Final = msgspec.json.Decoder(AnsweredDefinition).decode
