"""Status pages: how chosen jobs are, for people who have no account.

    jobs of a component ──look of a scheduler──► state ──its seconds──► day by day ──┐
    announcements, written by people ───────────────────────────────────────────────┴──► the public page

Invariant: a component shows the name that its administrator wrote, and nothing else of its jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import RunState

MAX_PAGES: Final = 20
"""Status pages of a namespace."""
MAX_PUBLISHED: Final = 1_000
"""Pages of the installation that are served, those first that were made first."""
MAX_COMPONENTS: Final = 20
MAX_JOBS: Final = 50
"""Jobs that are named in a component, and jobs of its labels that are looked at."""
MAX_ANNOUNCEMENTS: Final = 100
"""Of one page."""
MAX_UPDATES: Final = 50
"""Of one announcement."""
HISTORY_DAYS: Final = 90
LOOK_SECONDS: Final = 60.0
"""Between two looks at a page."""
COUNTED_SECONDS: Final = 2 * LOOK_SECONDS
"""A state counts for the time since the look before, for so long at most: nothing is known of a longer gap."""
OVERDUE_SECONDS: Final = 60.0
"""A job that waits so long for its start is late, …"""
MISSING_SECONDS: Final = 900.0
"""… and one that waits so long has failed to run."""
BAD_DAY_SECONDS: Final = 60.0
"""A day in which a state lasted less than this shows as if it had not been."""


class ComponentState(StrEnum):
    """The state of a component, of a day, or of a page. The values are public: never rename one."""

    OPERATIONAL = "operational"
    LATE = "late"
    """Jobs start late, or burn the budget of their objective."""
    DEGRADED = "degraded"
    """Some of its jobs fail."""
    DOWN = "down"
    """All of its jobs fail."""
    UNKNOWN = "unknown"


_RANK: Final = {
    ComponentState.UNKNOWN: 0, ComponentState.OPERATIONAL: 1, ComponentState.LATE: 2, ComponentState.DEGRADED: 3,
    ComponentState.DOWN: 4,
}  # fmt: skip


class AnnouncementKind(StrEnum):
    """The kinds of announcements."""

    INCIDENT = "incident"
    MAINTENANCE = "maintenance"


class AnnouncementState(StrEnum):
    """The state that an update gives to an announcement. The values are public: never rename one."""

    INVESTIGATING = "investigating"
    IDENTIFIED = "identified"
    MONITORING = "monitoring"
    RESOLVED = "resolved"
    ANNOUNCED = "announced"
    """Of a maintenance that is to come or under way."""
    ENDED = "ended"
    """Of a maintenance that is over, or was called off."""


STATES_OF: Final[Mapping[AnnouncementKind, tuple[AnnouncementState, ...]]] = {
    AnnouncementKind.INCIDENT: (
        AnnouncementState.INVESTIGATING, AnnouncementState.IDENTIFIED, AnnouncementState.MONITORING,
        AnnouncementState.RESOLVED,
    ),
    AnnouncementKind.MAINTENANCE: (AnnouncementState.ANNOUNCED, AnnouncementState.ENDED),
}  # fmt: skip
_OVER: Final = frozenset({AnnouncementState.RESOLVED, AnnouncementState.ENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusComponent:
    """A line of a status page: jobs under a public name."""

    name: str
    """Public, and unique on its page: its history goes by it."""
    jobs: tuple[UUID, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """The jobs that have all of these, beside `jobs`; none if empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPage:
    """A status page: what its administrator chose, and what the last look found."""

    page_id: UUID
    namespace: str
    slug: str
    """Its name in the address, unique in the installation."""
    title: str
    intro: str = ""
    enabled: bool = False
    """It is public, and schedulers look at it."""
    components: tuple[StatusComponent, ...] = ()
    shows_uptime: bool = False
    shows_punctuality: bool = False
    history_days: int = HISTORY_DAYS
    """0: no history is shown."""
    created_at: float
    created_by: str
    version: int = 1
    looks: int = 0
    """The looks so far: of two schedulers that look at once, one is counted."""
    looked_at: float | None = None
    states: Mapping[str, ComponentState] = field(default_factory=dict)
    """Of the last look, by the names of components."""


class StateSeconds(NamedTuple):
    """The seconds of each state that is known."""

    operational: float = 0.0
    late: float = 0.0
    degraded: float = 0.0
    down: float = 0.0

    @property
    def known(self) -> float:
        """All of them."""
        return sum(self)

    @property
    def uptime(self) -> float | None:
        """The share of the time in which not all of its jobs failed; None: nothing is known."""
        return 1.0 - self.down / self.known if self.known else None

    @property
    def punctuality(self) -> float | None:
        """The share of the time in which nothing was late and nothing failed; None: nothing is known."""
        return self.operational / self.known if self.known else None

    @property
    def worst(self) -> ComponentState:
        """The worst state that lasted for `BAD_DAY_SECONDS`."""
        if not self.known:
            return ComponentState.UNKNOWN
        for state in (ComponentState.DOWN, ComponentState.DEGRADED, ComponentState.LATE):
            if getattr(self, state.value) >= BAD_DAY_SECONDS:
                return state
        return ComponentState.OPERATIONAL


class StatusDay(NamedTuple):
    """One day of a component, in UTC."""

    page_id: UUID
    component: str
    day: date
    seconds: StateSeconds


class AnnouncementUpdate(NamedTuple):
    """One text of an announcement."""

    at: float
    state: AnnouncementState
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """An incident or a maintenance on a status page, written by people."""

    announcement_id: UUID
    page_id: UUID
    kind: AnnouncementKind
    title: str
    components: tuple[str, ...] = ()
    """The public names of those that it is about."""
    starts_at: float
    ends_at: float | None = None
    """Of a maintenance: its planned end."""
    updates: tuple[AnnouncementUpdate, ...]
    """The oldest first; one at least."""
    created_by: str
    version: int = 1

    @property
    def state(self) -> AnnouncementState:
        """The state of the newest update."""
        return self.updates[-1].state

    @property
    def updated_at(self) -> float:
        """The time of the newest update."""
        return self.updates[-1].at

    @property
    def is_over(self) -> bool:
        """True if its newest update says that it is over."""
        return self.state in _OVER


class JobLook(NamedTuple):
    """The finding of a look at one job."""

    ended: RunState | None
    """Of its newest run that succeeded, failed, or was skipped for `reason`; None: there is none."""
    reason: str | None = None
    overdue_seconds: float = 0.0
    """For how long it waits for a start that is due."""
    burns: bool = False
    """The budget of its objective burns too fast, or is used up."""
    is_paused: bool = False


def is_judged(state: RunState, reason: str | None, late_reasons: Iterable[SkipReason]) -> bool:
    """Check whether the end of a run says how its job is: a cancelled run does not, nor a skip that was meant."""
    if state is RunState.SKIPPED:
        return reason in {each.value for each in late_reasons}
    return state in (RunState.SUCCESS, RunState.FAILED)


def state_of_job(look: JobLook) -> ComponentState:
    """The state of one job: DOWN, LATE, OPERATIONAL, or UNKNOWN for a job that is paused or has never ended."""
    if look.is_paused:
        return ComponentState.UNKNOWN
    if look.ended in (RunState.FAILED, RunState.SKIPPED) or look.overdue_seconds >= MISSING_SECONDS:
        return ComponentState.DOWN
    if look.burns or look.overdue_seconds >= OVERDUE_SECONDS:
        return ComponentState.LATE
    return ComponentState.UNKNOWN if look.ended is None else ComponentState.OPERATIONAL


def state_of_component(jobs: Sequence[JobLook]) -> ComponentState:
    """The state of a component by its jobs. Those of which nothing is known say nothing."""
    known = [state for job in jobs if (state := state_of_job(job)) is not ComponentState.UNKNOWN]
    if not known:
        return ComponentState.UNKNOWN
    if ComponentState.DOWN in known and set(known) != {ComponentState.DOWN}:
        return ComponentState.DEGRADED
    return worst_of(known)


def worst_of(states: Iterable[ComponentState]) -> ComponentState:
    """The worst of these states; UNKNOWN of none."""
    return max(states, key=_RANK.__getitem__, default=ComponentState.UNKNOWN)


def total(days: Iterable[StateSeconds]) -> StateSeconds:
    """The seconds of several days."""
    found = [0.0, 0.0, 0.0, 0.0]
    for day in days:
        found = [before + each for before, each in zip(found, day, strict=True)]
    return StateSeconds(*found)
