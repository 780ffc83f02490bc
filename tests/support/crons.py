"""The fires of a cron line as aware times; the product asks for seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tickwise.domain.cron.expression import Cron
from tickwise.domain.zones import DAY_SECONDS, DEBIAN, Dst

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fire_after(cron: Cron, instant: datetime, zone: ZoneInfo, dst: Dst = DEBIAN) -> datetime | None:
    """The first fire strictly after `instant`, in UTC. None: there is none before the year 10000."""
    found = cron.next_second(_whole_seconds(instant), zone, dst)
    return None if found is None else datetime.fromtimestamp(found, UTC)


def fire_at_or_before(cron: Cron, instant: datetime, zone: ZoneInfo, dst: Dst = DEBIAN) -> datetime | None:
    """The last fire at or before `instant`, in UTC. None: there is none since the year 1."""
    found = cron.previous_second(_whole_seconds(instant), zone, dst)
    return None if found is None else datetime.fromtimestamp(found, UTC)


def _whole_seconds(instant: datetime) -> int:
    """Unix seconds, rounded down. Subtracting keeps it exact where `timestamp` goes through a float."""
    passed = instant - _EPOCH
    return passed.days * DAY_SECONDS + passed.seconds
