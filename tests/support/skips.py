"""Skipped tests: a machine may lack what a test needs, but the one that judges a change may not.

A skip is for what a developer's machine cannot give: root, a mount, control groups, another PostgreSQL, the history of
the repository. With `CI` in the environment (as `.ci/run` sets it) a test that skips fails, with its reason.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a failure of a skip."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = _refusal(item.nodeid, report.longrepr)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Make a failure of a whole file that skips."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = _refusal(collector.nodeid, report.longrepr)
    return report


def _refusal(name: str, longrepr: object) -> str:
    """`longrepr` is pytest's place and reason of a skip."""
    reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return f"{name} may not be skipped where CI is set: give this machine what it needs. {reason}"
