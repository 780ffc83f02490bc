"""The rules of Prometheus and the dashboards of Grafana: judged by promtool, and by the names of our metrics."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy import alarms
from tests.deploy.dashboards import DASHBOARDS, STAT, UNITS
from tests.deploy.files import ALERTS, DASHBOARD_FOLDER, DEPLOY, ROOT, load
from tests.deploy.monitoring import files
from tests.deploy.test_names import METRIC, exported, refusal
from tests.deploy.tools import said
from tests.services.packages import program
from tests.services.server import INSTALL_SECONDS
from tests.support.alarm import more_time
from tickwise.domain.notices.rules import NoticeChannelKind

RECORD: Final = re.compile(r"\btickwise:[a-z0-9_:]+")
PROCESS: Final = re.compile(r"\bprocess_[a-z_]+\b")
RUNBOOKS: Final = ROOT / "docs" / "how-to" / "runbooks.md"


def shown() -> list[dict[str, Any]]:
    """Each dashboard, as Grafana reads it."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(DASHBOARD_FOLDER.glob("*.json"))]


def questions() -> list[str]:
    """Each question of each dashboard."""
    return [target["expr"] for page in shown() for panel in page["panels"] for target in panel["targets"]]


async def test_alarms_go_off_when_they_must_and_not_else(tmp_path: Path) -> None:
    """By promtool, over made-up series: each alarm of the table, and each recorded series."""
    with more_time(INSTALL_SECONDS):
        promtool = await asyncio.to_thread(program, "promtool")
        count = await asyncio.to_thread(alarms.run, promtool, tmp_path)
    assert count > 30


async def test_promtool_reads_both_configurations() -> None:
    """Of the compose file, and of an installation without containers, with the rules beside it."""
    with more_time(INSTALL_SECONDS):
        promtool = await asyncio.to_thread(program, "promtool")
        said([promtool, "check", "config", "--syntax-only", DEPLOY / "compose" / "prometheus.yaml"])
        said([promtool, "check", "config", DEPLOY / "prometheus" / "prometheus.yaml"])


def test_every_alarm_has_a_case_that_sets_it_off_and_one_that_does_not() -> None:
    """An alarm that never goes off, or always does, is worse than none."""
    checks = [(case["alert"], "fires" in check) for case in load(alarms.CASES)["alarms"] for check in case["checks"]]
    for does in (True, False):
        assert alarms.rules().keys() == {alert for alert, fires in checks if fires is does}


def test_every_recorded_series_has_a_case() -> None:
    """With its value."""
    assert alarms.records() == {name for case in load(alarms.CASES)["records"] for name in case["values"]}


def test_the_first_event_of_each_counter_is_an_increase() -> None:
    """An alarm on an increase needs a series that is there, at 0, before something happens."""
    from tickwise.observability.metrics import Metrics

    text = "\n".join(rule["expr"] for rule in alarms.rules().values())
    counted = set(re.findall(r'increase\((tickwise_\w+)(?:\{\w+="(\w+)"\})?', text))
    there = Metrics().render().decode()
    by_kind = {"tickwise_notices_dead_total"}  # a series for each kind of channel
    for name in by_kind & {name for name, _ in counted}:
        assert re.findall(rf'^{name}\{{kind="(\w+)"\}} 0\.0$', there, re.MULTILINE) == list(NoticeChannelKind)
    by_channel = {"tickwise_messages_parked_total", "tickwise_messages_unverified_total"}  # roles say what they expect
    for name, value in counted:
        if name not in by_channel | by_kind and name != "tickwise_runs_finished_total":
            assert re.search(rf'^{name}(\{{\w+="{value}"\}})? 0\.0$', there, re.MULTILINE), name
    assert len(counted) > 6


def test_every_alarm_has_a_runbook() -> None:
    """A section of its own, that says what it means, what to look at and what to do; and no section is of none."""
    text = RUNBOOKS.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (Tickwise\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert alarms.rules().keys() == sections.keys()
    for name, rule in alarms.rules().items():
        assert f"docs/how-to/runbooks.md#{name.lower()}" == rule["annotations"]["runbook_url"]
        for part in ("**Means.**", "**Look.**", "**Do.**"):
            assert part in sections[name], (name, part)


@pytest.mark.parametrize("place", [ALERTS, RUNBOOKS, ROOT / "docs/how-to/grafana.md"], ids=lambda place: place.name)
def test_what_alarms_and_their_pages_name_is_there(place: Path) -> None:
    """Metrics, recorded series, and commands with their options."""
    text = place.read_text(encoding="utf-8")
    assert set() == set(METRIC.findall(text)) - exported()
    assert set() == {name.rstrip(":") for name in RECORD.findall(text)} - alarms.records()
    words = [shlex.split(words) for words in re.findall(r"`tickwise ([^`]+)`", text)]
    wrong = {" ".join(each): refusal(each) for each in words}
    assert {} == {each: why for each, why in wrong.items() if why and "Missing argument" not in why}


def test_the_copies_are_as_they_are_written() -> None:
    """`python -m tests.deploy.monitoring` writes the chart's rules and dashboards; nothing else is there."""
    assert {} == {file.name: "differs" for file, text in files().items() if file.read_text(encoding="utf-8") != text}
    assert {file.name for file in DASHBOARD_FOLDER.iterdir()} == {f"{each.name}.json" for each in DASHBOARDS}


def test_dashboards_ask_for_what_there_is() -> None:
    """A picture of a name that nobody exports is empty for ever. Every metric is in some picture or alarm."""
    asked = "\n".join(questions())
    assert set() == set(METRIC.findall(asked)) - exported()
    assert set() == set(PROCESS.findall(asked)) - exported()
    assert set() == set(RECORD.findall(asked)) - alarms.records()
    assert len(questions()) > 60


async def test_prometheus_understands_each_question(tmp_path: Path) -> None:
    """promtool reads them as rules, with Grafana's variables put in."""
    put = {"$__rate_interval": "1m", "$instance": "a", "$namespace": "a"}
    rules = []
    for place, question in enumerate(questions()):
        for name, value in put.items():
            question = question.replace(name, value)
        rules.append({"record": f"question:{place}", "expr": question})
    (tmp_path / "questions.yaml").write_text(json.dumps({"groups": [{"name": "questions", "rules": rules}]}))
    with more_time(INSTALL_SECONDS):
        promtool = await asyncio.to_thread(program, "promtool")
        said([promtool, "check", "rules", "--lint=none", tmp_path / "questions.yaml"])


@pytest.mark.parametrize("page", shown(), ids=lambda page: str(page["uid"]))
def test_a_dashboard_can_be_read(page: dict[str, Any]) -> None:
    """Each panel has its own number and place, a unit of Grafana's and a question; none tells by a color alone."""
    panels = page["panels"]
    assert len(panels) == len({panel["id"] for panel in panels})
    assert len(panels) == len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels})
    assert len(panels) == len({panel["title"] for panel in panels})
    for panel in panels:
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["targets"], panel["title"]
        assert defaults["unit"] in UNITS, panel["title"]
        assert "thresholds" not in defaults, panel["title"]
        if panel["type"] == STAT:
            assert "none" == panel["options"]["colorMode"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]) or panel["type"] == STAT, panel["title"]
