"""All pages."""

from __future__ import annotations

from typing import Final

from tickwise.web.page import WebPage
from tickwise.web.views.bulk import BULK
from tickwise.web.views.job_actions import JOB_ACTIONS
from tickwise.web.views.job_forms import JOB_FORMS
from tickwise.web.views.jobs import JOBS
from tickwise.web.views.letters import LETTERS
from tickwise.web.views.machinery import MACHINERY
from tickwise.web.views.operations import OPERATIONS
from tickwise.web.views.overview import OVERVIEW
from tickwise.web.views.records import RECORDS
from tickwise.web.views.runs import RUNS
from tickwise.web.views.sign_in import SIGN_IN

PAGES: Final[tuple[WebPage, ...]] = (
    *SIGN_IN,
    *OVERVIEW,
    *JOB_FORMS,  # before the pages of one job: `/jobs/new` is no id
    *JOBS,
    *JOB_ACTIONS,
    *RUNS,
    *BULK,
    *OPERATIONS,
    *LETTERS,
    *MACHINERY,
    *RECORDS,
)
