"""The tests of promtool, made from `alarms.yaml`: what an alarm says of itself is taken from its rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.files import ALERTS, load
from tests.deploy.tools import said

CASES: Final = Path(__file__).with_name("alarms.yaml")


def rules() -> dict[str, dict[str, Any]]:
    """The alarms by name."""
    return {rule["alert"]: rule for group in load(ALERTS)["groups"] for rule in group["rules"] if "alert" in rule}


def records() -> set[str]:
    """The names of the recorded series."""
    return {rule["record"] for group in load(ALERTS)["groups"] for rule in group["rules"] if "record" in rule}


def promtool_tests() -> dict[str, Any]:
    """The tests in promtool's own form, for a file beside the rules."""
    cases, known = load(CASES), rules()
    tests = [_alarm_test(case, known[case["alert"]], cases["interval"]) for case in cases["alarms"]]
    tests += [_record_test(case, cases["interval"]) for case in cases["records"]]
    return {"rule_files": [ALERTS.name], "evaluation_interval": cases["interval"], "tests": tests}


def run(promtool: str, folder: Path) -> int:
    """Let promtool judge the rules; the number of tests. Raises AssertionError with what it says."""
    made = promtool_tests()
    (folder / ALERTS.name).write_text(ALERTS.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "tests.yaml").write_text(yaml.safe_dump(made), encoding="utf-8")
    said([promtool, "check", "rules", folder / ALERTS.name])
    said([promtool, "test", "rules", "tests.yaml"], folder=folder)
    return len(made["tests"])


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
