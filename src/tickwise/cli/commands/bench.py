"""`tickwise bench`: the speed of the server that runs here, with jobs that do nothing.

A quick look at one set-up, over its own API; the project's measured figures come from `make bench`.
"""

from __future__ import annotations

from typing import Any, Final

import click

from tickwise.cli import moments, output
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.following import FINAL
from tickwise.cli.session import Session, server_options

_BATCH: Final = 1_000
_LOOK_SECONDS: Final = 0.1
_NAME: Final = "tickwise bench"


@click.command()
@click.option(
    "--jobs", "count", type=click.IntRange(1, 1_000_000), default=2_000, show_default=True, help="Number of jobs."
)
@click.option("--function", metavar="NAME", help="Call this registered function instead of the shell's `true`.")
@click.option(
    "--patience", metavar="SECONDS", type=float, default=120.0, show_default=True, help="Time after which it gives up."
)
@server_options
@click.pass_obj
def bench(session: Session, count: int, function: str | None, patience: float) -> int:
    """Measure a running server with jobs that do nothing.

    They are submitted in batches; the times are those that the server recorded.
    """
    task = {"kind": "function", "name": function} if function else {"kind": "shell", "argv": ["true"]}
    body = {"name": _NAME, "schedule_type": "IMMEDIATE", "task": task, "max_retries": 0, "labels": {"bench": "yes"}}
    began = moments.monotonic()
    ids: list[str] = []
    for start in range(0, count, _BATCH):
        answer = session.client.jobs_create([body] * min(_BATCH, count - start))
        ids += [_id(result) for result in answer["results"]]
    submit_seconds = moments.monotonic() - began
    runs = _await_all(session, ids, patience)
    failed = sum(run["status"] != "SUCCESS" for run in runs)
    figures: dict[str, Any] = {
        "jobs": count, "failed": failed, "submit_seconds": round(submit_seconds, 3),
        "submitted_per_second": round(count / submit_seconds, 1), **_from_their_times(runs),
    }  # fmt: skip
    if session.as_json:
        session.show_json(figures)
    else:
        output.record(session, {name.replace("_", " "): str(value) for name, value in figures.items()})
    return Exit.JOB_FAILED if failed else Exit.OK


def _from_their_times(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The figures by the runs' own times; polling them from outside took time of its own."""
    began = min((at for run in runs if (at := moments.instant(run.get("start_time"))) is not None), default=None)
    ended = max((at for run in runs if (at := moments.instant(run.get("end_time"))) is not None), default=None)
    if began is None or ended is None or ended <= began:
        return {}
    return {"run_seconds": round(ended - began, 3), "finished_per_second": round(len(runs) / (ended - began), 1)}


def _id(result: dict[str, Any]) -> str:
    if "job_id" not in result:
        problem = result.get("problem") or {}
        raise CommandFailure(f"the server refused a job of the measurement: {problem.get('detail')}", Exit.REFUSED)
    return str(result["job_id"])


def _await_all(session: Session, ids: list[str], patience_seconds: float) -> list[dict[str, Any]]:
    """Each job's run, once all have ended. Oldest first: when that one has ended, so have most of the others."""
    until = moments.monotonic() + patience_seconds
    ended: list[dict[str, Any]] = []
    while len(ended) < len(ids):
        latest = session.client.job_status(ids[len(ended)])["latest_run"]
        if latest is not None and latest["status"] in FINAL:
            ended.append(latest)
        elif moments.monotonic() > until:
            raise CommandFailure(
                f"{len(ids) - len(ended)} of {len(ids)} jobs had not ended after {patience_seconds:.0f} s.",
                Exit.JOB_FAILED, advice="Is an executor running? `tickwise doctor` looks closer.",
            )  # fmt: skip
        else:
            moments.pause(_LOOK_SECONDS)
    return ended
