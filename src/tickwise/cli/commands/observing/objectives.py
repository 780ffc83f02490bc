"""`tickwise objectives`: how the objectives of jobs stand."""

from __future__ import annotations

from itertools import islice

import click

from tickwise.cli import moments, output
from tickwise.cli.session import Session, view_options


@click.command()
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@view_options
@click.pass_obj
def objectives(session: Session, limit: int) -> None:
    """List the objectives for starts of jobs, and their error budgets.

    A job has one by --objective of `tickwise jobs create` and `jobs edit`.
    """
    query = {"limit": min(limit, 50)}
    found = list(islice((each for page in session.client.pages("/objectives", query) for each in page), limit))
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            each["name"], each["state"], f"{each['ratio']:.3%} in {moments.length(each['start_within_seconds'])}",
            str(each["good"]), str(each["late"]), f"{each['budget_left']:.1%}" if each["budget_left"] > 0 else "none",
            f"{max(burn['rate'] for burn in each['burn']):.1f}",
        )
        for each in found
    ]  # fmt: skip
    titles = ("JOB", "STATE", "OBJECTIVE", "IN TIME", "LATE", "BUDGET LEFT", "BURN")
    output.table(session, titles, rows, empty="No job has an objective.")
