"""Anomalies of runs: one that took much longer or shorter than earlier runs of its job
(`domain.observing.anomalies`)."""

from __future__ import annotations

from dataclasses import replace

from tickwise.control.access import check_namespace, requires
from tickwise.control.context import ControlContext
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal
from tickwise.domain.observing.anomalies import SAMPLE, DurationAnomaly, duration_anomaly
from tickwise.domain.permissions import Permission
from tickwise.ports.store import NO_TEXT, RunQuery, RunRow


class AnomalyService:
    """Anomalies of runs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.RUNS_READ, by_labels=True)
    async def of_run(self, who: Principal, run: RunRow, now: float) -> DurationAnomaly | None:
        """The anomaly of a run that goes on or succeeded, by its last attempt; None: it is as usual, or that cannot be
        told."""
        check_namespace(who, run.namespace)
        if run.state not in (RunState.RUNNING, RunState.SUCCESS) or run.started_at is None:
            return None
        query = RunQuery(
            namespace=run.namespace,
            job_id=run.job_id,
            states=(RunState.SUCCESS,),
            before=run.run_id,
            limit=SAMPLE,
            texts=NO_TEXT,
        )
        rows = await self._context.searches.runs(replace(query, within=who.within))
        earlier = [
            row.ended_at - row.started_at for row in rows if row.started_at is not None and row.ended_at is not None
        ]
        found = duration_anomaly((run.ended_at or now) - run.started_at, earlier)
        # A run that goes on has not been quick yet.
        return None if found is not None and run.ended_at is None and found.seconds < found.high else found
