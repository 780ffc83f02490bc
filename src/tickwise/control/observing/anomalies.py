"""Anomalies of runs: one that took much longer or shorter, or wrote much more or less, than earlier runs of its job
(`domain.observing.anomalies`)."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.control.access import check_namespace, requires
from tickwise.control.context import ControlContext
from tickwise.control.runs.service import RunDetails
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal
from tickwise.domain.observing.anomalies import SAMPLE, Anomaly, AnomalyKind, MeasuredEnd, anomalies_of
from tickwise.domain.permissions import Permission


class AnomalyService:
    """Anomalies of runs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.RUNS_READ, by_labels=True)
    async def of_run(self, who: Principal, details: RunDetails) -> Sequence[Anomaly]:
        """The anomalies of a run that the caller was shown, and that goes on or succeeded, by its last attempt. Empty:
        it is as usual, or that cannot be told."""
        run = details.row
        check_namespace(who, run.namespace)
        if run.state not in (RunState.RUNNING, RunState.SUCCESS) or run.started_at is None:
            return []
        samples = await self._context.store.delays.samples([run.job_id], SAMPLE, before=run.run_id)
        # A job that was moved has left its runs in the namespace before.
        earlier = [each.measured for each in samples.get(run.job_id, ()) if each.namespace == run.namespace]
        if run.ended_at is None:
            now = await self._context.time.now()
            found = anomalies_of(MeasuredEnd(max(0.0, now - run.started_at)), earlier)
            # A run that goes on has not been quick yet.
            return [each for each in found if each.kind is AnomalyKind.MORE]
        last = next((each for each in reversed(details.attempts) if each.attempt == run.attempt), None)
        output = None if last is None else last.output_bytes
        return anomalies_of(MeasuredEnd(max(0.0, run.ended_at - run.started_at), output), earlier)
