"""The tests of promtool, made from `alarms.yaml`: what an alarm says of itself is taken from its rule."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.files import ALERTS, load
from tests.deploy.tools import said

CASES: Final = Path(__file__).with_name("alarms.yaml")
RECORDS: Final = "records"
"""The name of the file of tests that is about no alarm."""


@cache
def groups() -> Any:
    """The groups of rules. Reading them takes a tenth of a second."""
    return load(ALERTS)["groups"]


def rules() -> dict[str, dict[str, Any]]:
    """The alarms by name."""
    return {rule["alert"]: rule for group in groups() for rule in group["rules"] if "alert" in rule}


def records() -> set[str]:
    """The names of the recorded series."""
    return {rule["record"] for group in groups() for rule in group["rules"] if "record" in rule}


def promtool_tests() -> dict[str, dict[str, Any]]:
    """The tests in promtool's own form: a file of them for each alarm, by the alarm's name, and one for the records."""
    cases, known = load(CASES), rules()
    files = {RECORDS: [_record_test(case, cases["interval"]) for case in cases["records"]]}
    for case in cases["alarms"]:
        files.setdefault(case["alert"], []).append(_alarm_test(case, known[case["alert"]], cases["interval"]))
    return {
        name: {"rule_files": [f"{name}.rules.yaml"], "evaluation_interval": cases["interval"], "tests": tests}
        for name, tests in files.items()
    }


def rules_of(name: str) -> dict[str, Any]:
    """The part of the rules that an alarm can depend on: itself, and the records. `RECORDS`: these alone.

    promtool evaluates each rule of a file at each step of each test, and an alarm does not depend on another one: with
    all of them beside the alarm of a certificate, which is looked at for days, that took 25 s.
    """
    found = []
    for group in groups():
        kept = [rule for rule in group["rules"] if rule.get("alert") == name or _is_read(rule, name)]
        if kept:
            found.append({**group, "rules": kept})
    return {"groups": found}


def _is_read(rule: dict[str, Any], name: str) -> bool:
    return "record" in rule and (name == RECORDS or rule["record"] in rules()[name]["expr"])


def run(promtool: str, folder: Path) -> int:
    """Let promtool judge the rules; the number of tests. Raises AssertionError with what it says."""
    made = promtool_tests()
    (folder / ALERTS.name).write_text(ALERTS.read_text(encoding="utf-8"), encoding="utf-8")
    for name, tests in made.items():
        (folder / f"{name}.rules.yaml").write_text(yaml.safe_dump(rules_of(name)), encoding="utf-8")
        (folder / f"{name}.tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    said([promtool, "check", "rules", folder / ALERTS.name])
    said([promtool, "test", "rules", *(f"{name}.tests.yaml" for name in made)], folder=folder)
    return sum(len(each["tests"]) for each in made.values())


def _series(case: dict[str, Any]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in case["series"].items()]


def _alarm_test(case: dict[str, Any], rule: dict[str, Any], interval: str) -> dict[str, Any]:
    def fired(each: dict[str, Any]) -> dict[str, Any]:
        return {
            "exp_labels": {**rule["labels"], **each.get("labels", {})},
            "exp_annotations": {**rule["annotations"], "summary": each["summary"]},
        }

    checks = [
        {"eval_time": check["at"], "alertname": case["alert"], "exp_alerts": [*map(fired, check.get("fires", ()))]}
        for check in case["checks"]
    ]
    return {
        "name": f"{case['alert']}: {case['name']}",
        "interval": case.get("interval", interval),
        "input_series": _series(case),
        "alert_rule_test": checks,
    }


def _record_test(case: dict[str, Any], interval: str) -> dict[str, Any]:
    expected = [
        {
            "expr": record,
            "eval_time": case["at"],
            "exp_samples": [
                {"labels": f"{record}{labels}" if labels != "{}" else record, "value": value}
                for labels, value in samples.items()
            ],
        }
        for record, samples in case["values"].items()
    ]
    return {
        "name": case["name"],
        "interval": interval,
        "input_series": _series(case),
        "promql_expr_test": expected,
    }
