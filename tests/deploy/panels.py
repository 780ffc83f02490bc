"""Asks a running Prometheus what each panel of the dashboards would show.

    python -m tests.deploy.panels http://127.0.0.1:9090

It lists the questions that find nothing: a picture that stays empty. Some do so in an installation that is well, or
has no such part: no broker, nothing lost. The exit code is 1 if Prometheus refuses a question.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.deploy.files import DASHBOARD_FOLDER

VARIABLES: Final = {"$__rate_interval": "1m", "$instance": ".*", "$namespace": ".*"}
"""Of Grafana: an interval of four scrapes, and all that there is."""
TIMEOUT_SECONDS: Final = 10.0


class Question(NamedTuple):
    """One question of a panel."""

    dashboard: str
    panel: str
    expr: str


class Shown(NamedTuple):
    """What a question finds."""

    question: Question
    series: int
    """Those with a value: a quantile of nothing has none."""
    error: str | None = None


def questions() -> Iterator[Question]:
    """Each question of each dashboard, with Grafana's variables put in."""
    for file in sorted(DASHBOARD_FOLDER.glob("*.json")):
        for panel in json.loads(file.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                expr = target["expr"]
                for name, value in VARIABLES.items():
                    expr = expr.replace(name, value)
                yield Question(file.stem, panel["title"], expr)


def asked(prometheus: str, question: Question) -> Shown:
    """The answer of Prometheus."""
    address = f"{prometheus.rstrip('/')}/api/v1/query?{urlencode({'query': question.expr})}"
    try:
        with urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
    except HTTPError as refusal:
        return Shown(question, 0, refusal.read().decode(errors="replace")[:200])
    values = [each["value"][1] for each in found["data"]["result"]]
    return Shown(question, sum(value != "NaN" for value in values))


def main(prometheus: str) -> int:
    """List what is empty."""
    shown = [asked(prometheus, each) for each in questions()]
    for each in shown:
        if not each.series:
            why = f"  refused: {each.error}" if each.error else ""
            sys.stdout.write(f"{each.question.dashboard}: {each.question.panel}: {each.question.expr}{why}\n")
    refused = sum(each.error is not None for each in shown)
    empty = sum(not each.series for each in shown)
    sys.stdout.write(f"{len(shown)} questions, {empty} of them empty, {refused} refused\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
