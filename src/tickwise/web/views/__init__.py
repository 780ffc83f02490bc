"""All pages."""

from __future__ import annotations

from typing import Final

from tickwise.web.page import WebPage
from tickwise.web.views.habits import HABITS
from tickwise.web.views.job_actions import JOB_ACTIONS
from tickwise.web.views.jobs import JOBS
from tickwise.web.views.letters import LETTERS
from tickwise.web.views.machinery import MACHINERY
from tickwise.web.views.output import OUTPUT
from tickwise.web.views.overview import OVERVIEW
from tickwise.web.views.records import RECORDS
from tickwise.web.views.runs import RUNS
from tickwise.web.views.sign_in import SIGN_IN

PAGES: Final[tuple[WebPage, ...]] = (
    *SIGN_IN,
    *OVERVIEW,
    *JOBS,
    *JOB_ACTIONS,
    *RUNS,
    *OUTPUT,
    *LETTERS,
    *MACHINERY,
    *RECORDS,
    *HABITS,
)
