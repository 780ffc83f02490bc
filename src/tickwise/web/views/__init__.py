"""All pages, in the order in which they were thought of first."""

from __future__ import annotations

from typing import Final

from tickwise.web.page import Page
from tickwise.web.views.job_actions import JOB_ACTIONS
from tickwise.web.views.jobs import JOBS
from tickwise.web.views.overview import OVERVIEW
from tickwise.web.views.runs import RUNS
from tickwise.web.views.sign_in import SIGN_IN

PAGES: Final[tuple[Page, ...]] = (*SIGN_IN, *OVERVIEW, *JOBS, *JOB_ACTIONS, *RUNS)
