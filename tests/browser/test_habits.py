"""The palette, zone and times, columns, commands to copy, and the search in an output, as a person uses them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Open, World
from tests.support.local_up import ROOT

Contexts = Callable[..., BrowserContext]


def _palette(page: Page, text: str) -> None:
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+k")
    field = page.locator("#palette input")
    expect(field).to_be_focused()
    field.press_sequentially(text, delay=10)


def test_the_palette_goes_to_pages_jobs_and_ids(here: World, opened: Open) -> None:
    """By the keyboard alone; Escape closes it, and the page is as it was."""
    page = opened("/")
    _palette(page, "books")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{here.url}/jobs/{here.jobs['closes the books']}")
    _palette(page, here.failed)
    page.locator(f"#palette [data-goals] a[href='/runs/{here.failed}']").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{here.url}/runs/{here.failed}")
    _palette(page, "nothing of this name")
    expect(page.locator("#palette")).to_contain_text("Nothing here has this name or id.")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(page).to_have_url(f"{here.url}/runs/{here.failed}")


def test_the_palette_does_what_the_page_can_do(here: World, opened: Open) -> None:
    """An action of the page opens, with the field to type in; the colours change."""
    page = opened(f"/jobs/{here.jobs['fails']}")
    _palette(page, "pause")
    page.locator("#palette [data-actions] button", has_text="Pause").wait_for()
    page.locator("#palette [data-actions] button", has_text="Pause").click()
    expect(page.locator("details[open]").get_by_label("Reason")).to_be_focused()
    page.goto(here.url + "/jobs")
    _palette(page, "dark")
    page.locator("#palette [data-actions] button", has_text="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_url(here.url + "/jobs")


def test_times_in_the_zone_of_the_job_without_a_script(here: World, context: Contexts) -> None:
    """The form in the menu is a form."""
    page = context(java_script_enabled=False).new_page()
    page.goto(here.link())
    page.goto(f"{here.url}/jobs/{here.jobs['closes the books']}")
    page.locator("summary", has_text="admin").click()
    page.get_by_label("Times in").fill("job")
    page.get_by_label("Times are").select_option("absolute")
    page.get_by_role("button", name="Show it so").click()
    expect(page).to_have_url(f"{here.url}/jobs/{here.jobs['closes the books']}")
    expect(page.locator(".facts time")).to_have_text(re.compile(r"02:30:00 CES?T$"))


def test_the_zone_of_this_machine_is_offered(here: World, opened: Open) -> None:
    """By its name, in the list of the field and in the palette."""
    page = opened("/runs", timezone_id="America/New_York")
    _palette(page, "this machine")
    page.locator("#palette [data-actions] button", has_text="America/New_York").click()
    expect(page.locator("tbody time").first).to_have_attribute("title", re.compile("E[SD]T$"))
    page.goto(f"{here.url}/runs/{here.failed}")
    expect(page.locator(".times time").first).to_have_text(re.compile("E[SD]T$"))


def test_a_column_is_added_while_one_types_and_is_kept_in_the_address(here: World, opened: Open) -> None:
    """And its cross takes it away."""
    here.run_of("reports in colour")
    page = opened("/runs?job_name=colour")
    page.get_by_label("Further columns").press_sequentially("payload.for,label.team", delay=10)
    expect(page.locator("td.col").first).to_have_text("nobody")
    expect(page).to_have_url(re.compile("col=payload.for%2Clabel.team"))
    page.get_by_role("link", name="Without the column payload.for").click()
    expect(page.locator("td.col").first).to_have_text("data")
    page.reload()
    expect(page.locator("td.col").first).to_have_text("data")


def test_a_command_that_is_copied_does_what_the_page_shows(here: World, opened: Open) -> None:
    """Each of the three, run as it is: the failed runs of one job."""
    page = opened("/runs?status=FAILED&job_name=fails")
    page.locator("summary", has_text="Copy as curl").click()
    texts = [each.get_attribute("data-copy") or "" for each in page.locator("button[data-copy]").all()]
    environ = {**os.environ, "TICKWISE_API_KEY": here.up.key}
    curl = subprocess.run(["sh", "-c", texts[0]], env=environ, capture_output=True, text=True, timeout=100, check=True)
    by_curl = {each["run_id"] for each in json.loads(curl.stdout)}
    command = here.up.tickwise(*shlex.split(texts[1])[1:], "--json")
    assert command.code == 0, command.err
    by_command = {each["run_id"] for each in command.json}
    python = subprocess.run(
        [sys.executable, "-c", texts[2]], env=environ, capture_output=True, text=True, timeout=100, check=True, cwd=ROOT
    )
    assert here.failed in by_curl
    assert by_curl == by_command
    assert all(run_id in python.stdout for run_id in by_curl)


def test_a_search_in_a_long_output_scrolls_to_its_hit(here: World, opened: Open) -> None:
    """Over all of it, not over the part that is shown; the address of a line is one to send to somebody."""
    page = opened(f"/runs/{here.long}")
    log = page.locator(".log")
    expect(log).not_to_contain_text("line 1234\n")
    page.get_by_label("Search all of the output").fill("LINE 1234")
    page.get_by_role("button", name="Search", exact=True).click()
    line = page.locator(".line:target")
    expect(line).to_have_text(re.compile("line 1234"))
    expect(line).to_be_in_viewport()
    expect(line.locator("mark")).to_have_text("line 1234")
    page.get_by_role("link", name="Next hit").click()
    expect(page.locator(".line:target")).to_have_text(re.compile("line 12340"))
    page.get_by_role("link", name="Previous hit").click()
    expect(page.locator(".line:target")).to_have_text(re.compile("line 1234$", re.MULTILINE))
    page.get_by_label("Search all of the output").fill("no such line")
    page.get_by_role("button", name="Search from the end").click()
    expect(page.get_by_text("No line has it.")).to_be_visible()


def test_the_stages_of_a_run_say_what_they_waited_for(here: World, opened: Open) -> None:
    """With the attempt, its end and its reason."""
    page = opened(f"/runs/{here.failed}")
    stages = page.locator(".waterfall")
    expect(stages).to_contain_text("Attempt 1")
    expect(stages).to_contain_text("exit status 3: no disk left")
    for word in ("Due", "Queued", "Dispatched", "Started", "Ended"):
        expect(page.locator(".times dt", has_text=word)).to_have_count(1)


def test_an_output_that_goes_on_is_followed(here: World, opened: Open) -> None:
    """The last line stays in sight while it grows; a reader who scrolled up stays where they are."""
    lines = "i=0; while [ $i -lt 400 ]; do echo row $i; i=$((i+1)); [ $((i % 40)) = 0 ] && sleep 1; done; sleep 600"
    job = {"name": "talks", "schedule_type": "ON_DEMAND", "task": {"kind": "shell", "command": lines}}
    job_id = here.client.job_create(job)["job_id"]
    run_id = here.client.request("POST", f"/jobs/{job_id}/runNow", body={}).body["run_id"]
    page = opened(f"/runs/{run_id}")
    log = page.locator(".log")
    expect(log).to_contain_text("row 79")
    page.wait_for_function(
        "() => { const log = document.querySelector('.log');"
        " return log.scrollTop > 0 && log.scrollHeight - log.scrollTop - log.clientHeight < 40; }"
    )
    log.evaluate("log => { log.scrollTop = 0; }")
    expect(log).to_contain_text("row 199")
    assert log.evaluate("log => log.scrollTop") == 0
    here.client.run_cancel(run_id)
    here.ended(run_id)
    here.client.job_cancel(job_id)
