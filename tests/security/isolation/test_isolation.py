"""Each attack comes to what is stated of it, at each level, whether root or an ordinary user started the executor.

`make test` makes the quick ones as root; `make security` makes all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

import pytest
from _pytest.mark.structures import ParameterSet

from tests.security.isolation.attacks import Attack, Verdict
from tests.security.isolation.catalogue import ALL
from tests.security.isolation.report import Report, missing, report
from tests.security.probes import probe
from tests.services.packages import program
from tickwise.domain.rules.confinement import Isolation

IS_WHOLE = os.environ.get("ATTACKS") == "all"
USERS = ("root", "ordinary") if IS_WHOLE else ("root",)
CHOSEN = tuple(each for each in ALL if IS_WHOLE or each.is_quick)
POINTS = {Isolation.PROCESS: 12, Isolation.SANDBOX: 13}
LEVELS = tuple(POINTS)
"""Containers are walled by their engine: `tests/integration/test_container_ends.py` looks at what ours asks of it."""
WORDS = {Verdict.STOPPED: "", Verdict.OPEN: "nothing: ", Verdict.DEPENDS: "the machine decides: "}
pytestmark = [pytest.mark.skipif(missing() is not None, reason=missing() or ""), pytest.mark.takes_up_to(300)]

Reports = Callable[[str], Report]


@pytest.fixture(scope="module")
def reports() -> Reports:
    """What came of all chosen attacks, by the user who started the executor; made when it is first asked for."""

    @cache
    def made(user: str) -> Report:
        program("bwrap")
        more = ["--shown"] if user == "root" else []
        more += [] if IS_WHOLE else ["--without-database"]
        return report(user, LEVELS, [each.name for each in CHOSEN], more=more)

    return made


def _cases() -> list[ParameterSet]:
    found = []
    for user in USERS:
        for level in LEVELS:
            for each in CHOSEN:
                expected = each.expected.get((level, user))
                # A row says what holds where root started the executor.
                stated = each.expected[level, "root"]
                if expected is None:
                    continue
                marker = probe(
                    POINTS[level], tried=each.tried, stopped_by=WORDS[stated.verdict] + stated.because,
                    is_open=stated.verdict is not Verdict.STOPPED,
                )  # fmt: skip
                found.append(pytest.param(each, level, user, marks=marker, id=f"{each.name}-{level}-{user}"))
    return found


@pytest.mark.parametrize(("each", "level", "user"), _cases())
def test_an_attack_comes_to_what_is_stated(each: Attack, level: Isolation, user: str, reports: Reports) -> None:
    """What is tried stands at each attack."""
    found = reports(user)
    if level not in found.levels:
        pytest.skip(f"this machine gives no {level}: `tickwise doctor` says why")
    outcome = found.outcomes[level, each.name]
    assert outcome.reached is not None, outcome.said
    expected = each.expected[level, user]
    if expected.verdict is not Verdict.DEPENDS:
        assert (expected.verdict is Verdict.OPEN) == outcome.reached, f"{expected.because}; but: {outcome.said}"


@probe(12, stopped_by="nothing, where no scheduler is: so a probe above can fail", is_open=True)
def test_each_attack_gets_what_it_wants_where_nothing_stops_it(reports: Reports) -> None:
    """The same scripts, started by root in the namespaces of the machine."""
    found = reports("root").shown
    if IS_WHOLE:
        assert {each.name for each in ALL if each.is_shown} == found.keys()
    assert {} == {name: outcome.said for name, outcome in found.items() if not outcome.reached}
