"""The pages that a visitor is led to: those that are built, and that the visitor may open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tickwise.control.audit.service import AuditService
from tickwise.control.bulk.operations import OperationService
from tickwise.control.cluster import ClusterService
from tickwise.control.jobs.service import JobService
from tickwise.control.keys.service import KeyService
from tickwise.control.namespaces.service import NamespaceService
from tickwise.control.notices.alerts import AlertService
from tickwise.control.notices.channels import ChannelService
from tickwise.control.notices.rules import NotificationRuleService
from tickwise.control.observing.analytics import AnalyticsService
from tickwise.control.observing.objectives import ObjectiveService
from tickwise.control.observing.status_pages import StatusPageService
from tickwise.control.people.users import UserService
from tickwise.control.runs.error_groups import ErrorGroupService
from tickwise.control.runs.letters import LetterService
from tickwise.control.runs.queues import QueueService
from tickwise.control.runs.service import RunService
from tickwise.control.schedules.calendars import CalendarService
from tickwise.control.secrets.service import SecretService
from tickwise.control.stops.service import StopService


class Door(NamedTuple):
    """An entry of the navigation."""

    title: str
    path: str
    keys: str
    """The keys that lead there."""
    control: Callable[..., Any] | None
    """The method of control whose permission it takes; None: any visitor may."""
    for_installation: bool = False
    """The permission must hold in each namespace."""
    begins: bool = False
    """It is the first one of a group."""


DOORS: Final = (
    Door("Overview", "/", "g o", None),
    Door("Jobs", "/jobs", "g j", JobService.search),
    Door("Runs", "/runs", "g r", RunService.search),
    Door("Outputs", "/logs", "g w", RunService.search_outputs),
    Door("Timeline", "/timeline", "g t", RunService.search),
    Door("Analytics", "/analytics", "g m", AnalyticsService.answer),
    Door("Objectives", "/objectives", "g v", ObjectiveService.page),
    Door("Operations", "/bulk", "g b", OperationService.page),
    Door("Dead letters", "/dead-letters", "g d", LetterService.search, begins=True),
    Door("Errors", "/errors", "g f", ErrorGroupService.search),
    Door("Alerts", "/alerts", "g l", AlertService.page),
    Door("Rules", "/notification-rules", "g z", NotificationRuleService.page),
    Door("Channels", "/channels", "g h", ChannelService.all),
    Door("Status pages", "/status-pages", "g p", StatusPageService.all),
    Door("Executors", "/executors", "g e", ClusterService.executors, begins=True),
    Door("Queues", "/queues", "g q", QueueService.overview),
    Door("Calendars", "/calendars", "g c", CalendarService.covering),
    Door("Stops", "/stops", "g s", StopService.page),
    Door("Audit", "/audit", "g a", AuditService.search, begins=True),
    Door("People", "/users", "g u", UserService.page),
    Door("Keys", "/keys", "g y", KeyService.page),
    Door("Secrets", "/secrets", "g x", SecretService.page),
    Door("Namespaces", "/namespaces", "g n", NamespaceService.page),
    Door("Settings", "/settings", "g i", ClusterService.settings, for_installation=True),
)
