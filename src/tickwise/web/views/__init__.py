"""All pages."""

from __future__ import annotations

from typing import Final

from tickwise.web.page import WebPage
from tickwise.web.views.bulk import BULK
from tickwise.web.views.calendars import CALENDARS
from tickwise.web.views.errors import ERRORS
from tickwise.web.views.factors import FACTORS
from tickwise.web.views.habits import HABITS
from tickwise.web.views.job_actions import JOB_ACTIONS
from tickwise.web.views.job_forms import JOB_FORMS
from tickwise.web.views.jobs import JOBS
from tickwise.web.views.keys import KEYS
from tickwise.web.views.letters import LETTERS
from tickwise.web.views.live import LIVE
from tickwise.web.views.machinery import MACHINERY
from tickwise.web.views.machines.devices import DEVICES
from tickwise.web.views.namespaces import NAMESPACES
from tickwise.web.views.notices import NOTICES
from tickwise.web.views.observing.analytics import ANALYTICS
from tickwise.web.views.observing.log_search import LOG_SEARCH
from tickwise.web.views.observing.objectives import OBJECTIVES
from tickwise.web.views.observing.status_pages import STATUS_PAGES
from tickwise.web.views.operations import OPERATIONS
from tickwise.web.views.output import OUTPUT
from tickwise.web.views.overview import OVERVIEW
from tickwise.web.views.people import PEOPLE
from tickwise.web.views.records import RECORDS
from tickwise.web.views.runs import RUNS
from tickwise.web.views.secrets import SECRETS
from tickwise.web.views.settings import SETTINGS
from tickwise.web.views.sign_in import SIGN_IN
from tickwise.web.views.sso.provider import PROVIDER_SIGN_IN
from tickwise.web.views.stops import STOPS
from tickwise.web.views.timeline import TIMELINE

PAGES: Final[tuple[WebPage, ...]] = (
    *SIGN_IN,
    *DEVICES,
    *PROVIDER_SIGN_IN,
    *FACTORS,
    *OVERVIEW,
    *JOB_FORMS,  # before the pages of one job: `/jobs/new` is no id
    *JOBS,
    *JOB_ACTIONS,
    *RUNS,
    *TIMELINE,
    *ANALYTICS,
    *OBJECTIVES,
    *BULK,
    *OPERATIONS,
    *OUTPUT,
    *LOG_SEARCH,
    *LIVE,
    *LETTERS,
    *ERRORS,
    *MACHINERY,
    *CALENDARS,
    *STOPS,
    *NOTICES,
    *STATUS_PAGES,
    *RECORDS,
    *PEOPLE,
    *KEYS,
    *SECRETS,
    *NAMESPACES,
    *SETTINGS,
    *HABITS,
)
