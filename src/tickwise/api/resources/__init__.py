"""Every route, a module for each resource."""

from __future__ import annotations

from tickwise.api.endpoint import Endpoint
from tickwise.api.resources.audit import AUDIT
from tickwise.api.resources.auth import AUTH
from tickwise.api.resources.calendars import CALENDARS
from tickwise.api.resources.errors import ERRORS
from tickwise.api.resources.events import EVENTS
from tickwise.api.resources.explain import EXPLAIN
from tickwise.api.resources.factors.factors import FACTORS
from tickwise.api.resources.job_moves import JOB_MOVES
from tickwise.api.resources.jobs import JOBS
from tickwise.api.resources.keys import KEYS
from tickwise.api.resources.letters import LETTERS
from tickwise.api.resources.machines.devices import DEVICES
from tickwise.api.resources.machines.federations import FEDERATIONS
from tickwise.api.resources.namespaces import NAMESPACES
from tickwise.api.resources.observing.analytics import ANALYTICS
from tickwise.api.resources.observing.channels import CHANNELS
from tickwise.api.resources.observing.log_search import LOG_SEARCH
from tickwise.api.resources.observing.notification_rules import NOTIFICATION_RULES
from tickwise.api.resources.observing.objectives import OBJECTIVES
from tickwise.api.resources.observing.status_pages import STATUS_PAGES
from tickwise.api.resources.occurrences import OCCURRENCES
from tickwise.api.resources.operations import OPERATIONS
from tickwise.api.resources.queues import QUEUES
from tickwise.api.resources.roles import ROLES
from tickwise.api.resources.runs import RUNS
from tickwise.api.resources.saved_views import SAVED_VIEWS
from tickwise.api.resources.schedules import SCHEDULES
from tickwise.api.resources.secrets.identity_tokens import IDENTITY
from tickwise.api.resources.secrets.secrets import SECRETS
from tickwise.api.resources.sso.identities import IDENTITIES
from tickwise.api.resources.sso.providers import PROVIDERS
from tickwise.api.resources.stops import STOPS
from tickwise.api.resources.tasks import TASKS
from tickwise.api.resources.users import USERS

RESOURCES: tuple[Endpoint, ...] = (
    *JOBS,
    *JOB_MOVES,
    *SCHEDULES,
    *OCCURRENCES,
    *CALENDARS,
    *RUNS,
    *LOG_SEARCH,
    *ANALYTICS,
    *OBJECTIVES,
    *EVENTS,
    *LETTERS,
    *OPERATIONS,
    *ERRORS,
    *QUEUES,
    *STOPS,
    *SAVED_VIEWS,
    *CHANNELS,
    *NOTIFICATION_RULES,
    *STATUS_PAGES,
    *ROLES,
    *EXPLAIN,
    *TASKS,
    *SECRETS,
    *KEYS,
    *FEDERATIONS,
    *NAMESPACES,
    *USERS,
    *AUTH,
    *IDENTITY,
    *DEVICES,
    *PROVIDERS,
    *IDENTITIES,
    *FACTORS,
    *AUDIT,
)

__all__ = ["RESOURCES"]
