"""Failures of one cause, from the list to the dead letters that are run again."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import HOSTILE, Open, World

BROKEN = "echo 'ValueError: order 17 of <script>alert(1)</script> not in /data/a.csv' >&2; exit 5"


def _fails(here: World, job_id: str) -> dict[str, Any]:
    """A run of the job, which has failed."""
    run_id: str = here.client.request("POST", f"/jobs/{job_id}/runNow", body={}).body["run_id"]
    return here.ended(run_id)


@pytest.mark.takes_up_to(120)
def test_from_a_cause_to_the_runs_that_it_cost(here: World, opened: Open) -> None:
    """Ignored, resolved, open again when it fails again, and its dead letters run again together."""
    task = {"kind": "shell", "command": BROKEN}
    fields = {"name": f"imports orders {HOSTILE}", "schedule_type": "ON_DEMAND", "max_retries": 0, "task": task}
    job_id = here.client.job_create(fields)["job_id"]
    for _ in range(2):
        assert _fails(here, job_id)["status"] == "FAILED"
    page = opened("/", expects="422")
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", level=1)).to_have_text("Errors")
    page.get_by_label("A part of the exception").fill("order")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("text=order"))
    row = page.locator("tbody tr", has_text="ValueError")
    # Failures are counted behind the end of their run, and a page without a stream is renewed each 10 s.
    expect(row).to_contain_text("order <n> of <script>alert(<n>)</script> not in <path>")
    row.get_by_role("link", name="ValueError: order").click()
    expect(page.locator(".facts")).to_contain_text("2 failures")
    expect(page.locator(".sample")).to_contain_text("order 17 of <script>alert(1)</script>")

    page.locator("summary", has_text="Ignore for a while").click()
    page.get_by_label("For one").select_option("")
    page.get_by_role("button", name="Ignore").click()
    expect(page.get_by_role("alert")).to_contain_text("Say until when it is ignored")
    page.get_by_label("Failures more").fill("1")
    page.get_by_role("button", name="Ignore").click()
    expect(page.get_by_text("until it has failed 3 times")).to_be_visible()
    page.get_by_role("button", name="Open again").click()

    page.locator("summary", has_text="Resolve").click()
    page.get_by_role("textbox", name="Note").first.fill("the file is there again")
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator(".alert.good")).to_contain_text("Note: the file is there again")
    assert _fails(here, job_id)["status"] == "FAILED"
    expect(page.get_by_text("it has failed since")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("3 failures")

    page.reload()
    page.locator("summary", has_text="Run dead letters again").click()
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("3 dead letters were run again")).to_be_visible()
    page.locator("section", has_text="The newest one").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("/runs/"))
    page.get_by_role("link", name="All failures of this cause").click()
    expect(page).to_have_url(re.compile("/errors/"))
