"""Pages of second factors: the second step of a sign-in, and the page on which people enrol and remove their own."""

from __future__ import annotations

from typing import Final

from tickwise.web.views.factors.second_step import SECOND_STEP
from tickwise.web.views.factors.security import SECURITY

FACTORS: Final = (*SECOND_STEP, *SECURITY)
