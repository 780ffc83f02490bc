"""A job's definition as JSON text: written by control, kept opaque by stores, read by scheduler and executor.

One text serves as the job's stored definition and as the body of each of its runs, so a submit encodes it
once and nothing on the hot path joins or re-encodes it. Fields at their default are left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tickwise.domain.retry import Backoff, RetryPolicy
from tickwise.domain.schedule import Schedule, ScheduleType

OUTPUT_LIMIT_BYTES = 10 * 1024 * 1024
"""Output kept of one attempt if the job says nothing: enough for any log that a person reads."""


class Retry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `retry` object of a job body; `max_retries` stands beside it."""

    backoff: Backoff = Backoff.EXPONENTIAL
    base_seconds: float = 1.0
    factor: float = 2.0
    cap_seconds: float = 300.0
    jitter: float = 0.2


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `limits` object of a job body; what is not built yet is not a field yet."""

    output_bytes: int = OUTPUT_LIMIT_BYTES


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part that the scheduler reads: when."""

    schedule_type: ScheduleType
    schedule_time: float | None = None
    cron_expression: str | None = None
    interval_seconds: float | None = None
    anchor: float | None = None
    timezone: str = "UTC"

    def schedule(self) -> Schedule:
        """As the domain knows it."""
        return Schedule(
            type=self.schedule_type,
            at=self.schedule_time,
            cron_expression=self.cron_expression,
            interval_seconds=self.interval_seconds,
            anchor=self.anchor,
            timezone=self.timezone,
        )


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part that the executor reads: what, and what then."""

    task: dict[str, Any]
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    timeout_seconds: float | None = None
    max_retries: int = 3
    retry: Retry = Retry()
    limits: Limits = Limits()

    def retry_policy(self) -> RetryPolicy:
        """As the domain knows it."""
        own = self.retry
        return RetryPolicy(
            max_retries=self.max_retries,
            backoff=own.backoff,
            base_seconds=own.base_seconds,
            factor=own.factor,
            cap_seconds=own.cap_seconds,
            jitter=own.jitter,
        )


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole: what `GET /jobs/{id}` answers, less the columns that the store keeps by themselves."""

    schedule_type: ScheduleType
    task: msgspec.Raw
    schedule_time: float | None = None
    cron_expression: str | None = None
    interval_seconds: float | None = None
    anchor: float | None = None
    timezone: str = "UTC"
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    timeout_seconds: float | None = None
    max_retries: int = 3
    retry: Retry = Retry()
    limits: Limits = Limits()
    description: str | None = None
    isolation: str = "process"
    task_id: str | None = None
    task_version: int | None = None
    warnings: tuple[str, ...] = ()


_encoder = msgspec.json.Encoder()
_definitions = msgspec.json.Decoder(Definition)
_plans = msgspec.json.Decoder(Plan)
_works = msgspec.json.Decoder(Work)

decode_definition = _definitions.decode
decode_plan = _plans.decode
decode_work = _works.decode


def encode_definition(definition: Definition) -> str:
    """The text to store."""
    return _encoder.encode(definition).decode()
