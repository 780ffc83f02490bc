"""The pages of alerts, channels, notices and notification rules, and of the links that act."""

from __future__ import annotations

from typing import Final

from tickwise.web.page import WebPage
from tickwise.web.views.notices.acting import ACTING
from tickwise.web.views.notices.alerts import ALERTS
from tickwise.web.views.notices.channels import CHANNELS
from tickwise.web.views.notices.many import MANY_ALERTS
from tickwise.web.views.notices.rules import NOTIFICATION_RULES

NOTICES: Final[tuple[WebPage, ...]] = (*MANY_ALERTS, *ALERTS, *CHANNELS, *NOTIFICATION_RULES, *ACTING)
