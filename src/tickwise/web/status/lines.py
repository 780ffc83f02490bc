"""A status page as people read it: a headline, a line for each component, announcements.

Pure: from what is public of a page (`PublicStatus`) and a time to values for the template and for JSON. No id and no
name of a job is among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

from tickwise.control.observing.status_pages import PublicStatus
from tickwise.domain.observing.status_pages import (
    LOOK_SECONDS,
    Announcement,
    AnnouncementKind,
    ComponentState,
    StateSeconds,
    StatusComponent,
    total,
    worst_of,
)

BLIND_SECONDS: Final = 5 * LOOK_SECONDS
"""States of a look that is older say nothing of now."""
PAST_SECONDS: Final = 30 * 86_400.0
"""Announcements that are over for longer are not shown."""
PAST_MOST: Final = 20
MAINTENANCE: Final = "maintenance"
"""In place of the state of a component whose maintenance is under way."""
WORDS: Final[Mapping[str, str]] = {
    ComponentState.OPERATIONAL: "Operational",
    ComponentState.LATE: "Late",
    ComponentState.DEGRADED: "Partly failing",
    ComponentState.DOWN: "Failing",
    ComponentState.UNKNOWN: "Not known",
    MAINTENANCE: "Maintenance",
}
HEADLINES: Final[Mapping[str, str]] = {
    ComponentState.OPERATIONAL: "Everything works",
    ComponentState.LATE: "Some work is late",
    ComponentState.DEGRADED: "Some work fails",
    ComponentState.DOWN: "Work fails",
    ComponentState.UNKNOWN: "The state is not known",
    MAINTENANCE: "Maintenance is under way",
}


class DayCell(NamedTuple):
    """One day of a component."""

    day: date
    state: str
    words: str


class ComponentLine(NamedTuple):
    """A component as it is shown."""

    name: str
    state: str
    """A `ComponentState`, or `MAINTENANCE`."""
    words: str
    uptime: str | None
    punctuality: str | None
    cells: Sequence[DayCell]
    troubles: Sequence[DayCell]
    """The days that were not well, the newest first."""


class StatusLines(NamedTuple):
    """A whole page."""

    state: str
    headline: str
    components: Sequence[ComponentLine]
    current: Sequence[Announcement]
    """Incidents that go on, and maintenance under way."""
    coming: Sequence[Announcement]
    past: Sequence[Announcement]


def lines_of(status: PublicStatus, now: float) -> StatusLines:
    """The page at this time."""
    page = status.page
    under_way = [each for each in status.announcements if is_under_way(each, now)]
    coming = [each for each in status.announcements if not each.is_over and each.starts_at > now]
    past = [
        each
        for each in status.announcements
        if each not in under_way and each not in coming and each.updated_at > now - PAST_SECONDS
    ]
    blind = page.looked_at is None or now - page.looked_at > BLIND_SECONDS
    days: dict[str, dict[date, StateSeconds]] = {}
    for each in status.days:
        days.setdefault(each.component, {})[each.day] = each.seconds
    in_maintenance = {
        name for each in under_way if each.kind is AnnouncementKind.MAINTENANCE for name in each.components
    }
    today = datetime.fromtimestamp(now, UTC).date()
    lines = []
    for component in page.components:
        state: str = page.states.get(component.name, ComponentState.UNKNOWN)
        if component.name in in_maintenance:
            state = MAINTENANCE
        elif blind:
            state = ComponentState.UNKNOWN
        lines.append(_line(status, component, state, days.get(component.name, {}), today))
    state, headline = _headline(lines, under_way)
    return StatusLines(state, headline, lines, under_way, coming, past[:PAST_MOST])


def is_under_way(announcement: Announcement, now: float) -> bool:
    """Check whether an incident goes on, or a maintenance is between its begin and its planned end."""
    if announcement.is_over or announcement.starts_at > now:
        return False
    return announcement.ends_at is None or now < announcement.ends_at


def as_json(status: PublicStatus, lines: StatusLines, *, is_current: bool) -> Mapping[str, Any]:
    """The page for programs."""
    page = status.page
    return {
        "title": page.title,
        "state": lines.state,
        "headline": lines.headline,
        "looked_at": None if page.looked_at is None else iso(page.looked_at),
        "current": is_current,
        "components": [
            {
                "name": each.name,
                "state": each.state,
                **({"uptime": each.uptime} if page.shows_uptime else {}),
                **({"punctuality": each.punctuality} if page.shows_punctuality else {}),
                "days": [{"day": cell.day.isoformat(), "state": cell.state} for cell in each.cells],
            }
            for each in lines.components
        ],
        "announcements": [
            {
                "kind": each.kind.value,
                "title": each.title,
                "state": each.state.value,
                "components": list(each.components),
                "from": iso(each.starts_at),
                "until": None if each.ends_at is None else iso(each.ends_at),
                "updates": [
                    {"at": iso(said.at), "state": said.state.value, "text": said.text} for said in each.updates
                ],
            }
            for each in (*lines.current, *lines.coming, *lines.past)
        ],
    }


def iso(instant: float) -> str:
    """A time to the second, in UTC."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _line(
    status: PublicStatus, component: StatusComponent, state: str, days: Mapping[date, StateSeconds], today: date
) -> ComponentLine:
    page = status.page
    span = [today - timedelta(days=back) for back in reversed(range(page.history_days))]
    cells = [_cell(day, days.get(day, StateSeconds())) for day in span]
    # Without a history, the shares are those of today.
    counted = total(days.get(day, StateSeconds()) for day in span or [today])
    return ComponentLine(
        name=component.name,
        state=state,
        words=WORDS[state],
        uptime=_share(counted.uptime) if page.shows_uptime else None,
        punctuality=_share(counted.punctuality) if page.shows_punctuality else None,
        cells=cells,
        troubles=[
            cell for cell in reversed(cells) if cell.state not in (ComponentState.OPERATIONAL, ComponentState.UNKNOWN)
        ],
    )


def _cell(day: date, seconds: StateSeconds) -> DayCell:
    worst = seconds.worst
    if worst is ComponentState.UNKNOWN:
        return DayCell(day, worst, "not known")
    if worst is ComponentState.OPERATIONAL:
        return DayCell(day, worst, "operational")
    words = {"down": "failing", "degraded": "partly failing", "late": "late"}
    told = [f"{words[name]} for {_span(spent)}" for name in words if (spent := getattr(seconds, name)) >= LOOK_SECONDS]
    return DayCell(day, worst, ", ".join(told))


def _span(seconds: float) -> str:
    minutes = round(seconds / 60.0)
    hours, rest = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def _share(share: float | None) -> str | None:
    """A share in percent. It is cut, not rounded: 100 % says that nothing was wrong."""
    return None if share is None else f"{int(share * 10_000 + 1e-6) / 100:.2f} %"


def _headline(lines: Sequence[ComponentLine], under_way: Sequence[Announcement]) -> tuple[str, str]:
    states = [ComponentState(each.state) for each in lines if each.state != MAINTENANCE]
    known = [state for state in states if state is not ComponentState.UNKNOWN]
    state: str = worst_of(known)
    if state == ComponentState.DOWN and set(known) != {ComponentState.DOWN}:
        state = ComponentState.DEGRADED
    if state in (ComponentState.OPERATIONAL, ComponentState.UNKNOWN) and under_way:
        if any(each.kind is AnnouncementKind.INCIDENT for each in under_way):
            return ComponentState.LATE, "An incident is being handled"
        return MAINTENANCE, HEADLINES[MAINTENANCE]
    return state, HEADLINES[state]
