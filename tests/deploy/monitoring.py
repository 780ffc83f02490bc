"""Writes what `deploy/` has twice or as JSON about monitoring: `python -m tests.deploy.monitoring`. A test compares.

deploy/prometheus/alerts.yaml ──copied──► files/alerts.yaml of the chart, which can read nothing outside of itself
tests/deploy/dashboards.py ────written──► files/dashboards/*.json of the chart ◄── the compose file, and people
"""

from __future__ import annotations

from pathlib import Path

from tests.deploy.dashboards import DASHBOARDS, written
from tests.deploy.files import ALERTS, CHART, DASHBOARD_FOLDER

HEAD = "# Copied from deploy/prometheus/alerts.yaml by `python -m tests.deploy.monitoring`: change it there.\n"


def files() -> dict[Path, str]:
    """Each file that is written, with its text."""
    copied = {CHART / "files" / ALERTS.name: HEAD + ALERTS.read_text(encoding="utf-8")}
    return copied | {DASHBOARD_FOLDER / f"{each.name}.json": written(each) for each in DASHBOARDS}


if __name__ == "__main__":
    DASHBOARD_FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in files().items():
        file.write_text(text, encoding="utf-8")
