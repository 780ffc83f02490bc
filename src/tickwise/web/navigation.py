"""The pages that a visitor is led to: those that are built, and that the visitor may open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tickwise.control.audit.service import AuditService
from tickwise.control.cluster import ClusterService
from tickwise.control.jobs.service import JobService
from tickwise.control.keys.service import KeyService
from tickwise.control.people.users import UserService
from tickwise.control.runs.letters import LetterService
from tickwise.control.runs.queues import QueueService
from tickwise.control.runs.service import RunService
from tickwise.control.stops import StopService


class Door(NamedTuple):
    """An entry of the navigation."""

    title: str
    path: str
    keys: str
    """The keys that lead there."""
    control: Callable[..., Any] | None
    """The method of control whose permission it takes; None: any visitor may."""


DOORS: Final = (
    Door("Overview", "/", "g o", None),
    Door("Jobs", "/jobs", "g j", JobService.search),
    Door("Runs", "/runs", "g r", RunService.search),
    Door("Dead letters", "/dead-letters", "g d", LetterService.search),
    Door("Executors", "/executors", "g e", ClusterService.executors),
    Door("Queues", "/queues", "g q", QueueService.overview),
    Door("Stops", "/stops", "g s", StopService.page),
    Door("Audit", "/audit", "g a", AuditService.search),
    Door("People", "/users", "g u", UserService.page),
    Door("Keys", "/keys", "g y", KeyService.page),
)
