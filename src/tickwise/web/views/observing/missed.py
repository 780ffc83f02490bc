"""The times of the last day that did not run although nobody chose that, for the first page.

Asked only where the counts of that day, which the page has, name a skip: else it costs nothing. The reasons are those
of rules about `did_not_run`; an index has the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tickwise.control.runs.service import RunService
from tickwise.domain.errors import Forbidden, Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.judging import UNCHOSEN
from tickwise.ports.store import RunQuery, Tally
from tickwise.web import texts
from tickwise.web.views.observing.verdict import MissedTimes
from tickwise.web.visit import Visit

MAX_READ: Final = 50
"""Records that are read of each reason."""
DAY_SECONDS: Final = 86_400.0
LONGEST_SECONDS: Final = 7 * DAY_SECONDS
"""A record that began so long before, and stands for times of the day, is found."""


async def missed_times(visit: Visit, tallies: Sequence[Tally] | None) -> MissedTimes | None:
    """Count the times that did not run; None: there are none, or the visitor may not ask. `tallies`: the counts of the
    day."""
    if not any(each.state is RunState.SKIPPED and each.runs for each in tallies or ()):
        return None
    if not visit.may(RunService.search):
        return None
    since = visit.now - DAY_SECONDS
    reasons = sorted(each.value for each in UNCHOSEN)
    asked = [
        RunQuery(
            namespace=visit.who.namespace, states=(RunState.SKIPPED,), reason=reason, due_after=since - LONGEST_SECONDS,
            limit=MAX_READ + 1,
        )
        for reason in reasons
    ]  # fmt: skip
    try:
        pages = await asyncio.gather(*(visit.control.runs.search(visit.who, query) for query in asked))
    except (Forbidden, Invalid):
        return None
    found = [run for page in pages for run in list(page)[:MAX_READ] if (run.until or run.due_at) >= since]
    if not found:
        return None
    # The filter leaves out what is due at its very instant.
    query = {"status": RunState.SKIPPED.value, "due_after": texts.iso(min(run.due_at for run in found) - 1.0)}
    given = {run.reason for run in found}
    if len(given) == 1:
        query["reason"] = str(given.pop())
    return MissedTimes(
        times=sum(run.occurrences for run in found),
        jobs=len({run.job_id for run in found}),
        more=any(len(page) > MAX_READ for page in pages),
        query=query,
    )
