"""A search and its count are statements of their own that must ask the same: what one leaves out is a wrong page."""

from __future__ import annotations

import re

import pytest

from tickwise.adapters.store.postgres.records.paging import bounded
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug

CONDITION = re.compile(r"^\s*(?:WHERE|AND) (\(\$\d+::.*)$", re.MULTILINE)


def _conditions(text: str) -> list[str]:
    return [found.replace("j.", "") for found in CONDITION.findall(text)]


def _candidates(text: str) -> list[str]:
    """Where `jobs_found` looks for jobs, in the order of its parts. Left out are those for jobs that are listed by a
    place of their own, which a count, that has no order, finds with all others."""
    text = " ".join(line.strip() for line in text.splitlines() if not line.lstrip().startswith("--"))
    parts = re.findall(r"\((SELECT job_id(?:, job_id AS listed)? FROM .*?) ORDER BY job_id DESC\)", text)
    return [part.replace(", job_id AS listed", "") for part in parts]


def test_a_list_of_runs_and_its_count_ask_the_same_in_both_their_parts() -> None:
    """Of runs by the time in their ids, and of those that are due long after it."""
    for name in ("runs_list", "runs_count"):
        near, late = statement(name).split("UNION ALL")
        assert [*_conditions(late), "($12::uuid IS NULL OR run_id >= $12)"] == _conditions(near)
    assert _conditions(statement("runs_list")) == _conditions(statement("runs_count"))
    assert 35 == len(_conditions(statement("runs_list")))


def test_the_bound_of_a_page_is_its_last_parameter_and_keeps_its_order() -> None:
    """Whatever the page itself asks for, and in whatever order it is."""
    for name, order, most in (
        ("jobs_list", "listed DESC", 16),
        ("runs_newest_of_job", "run_id DESC", 7),
        ("rules_list", 'name COLLATE "C"', 6),
        ("tasks_list", "task_id, version DESC", 4),
    ):
        text = bounded(name)
        assert statement(name) in text
        assert text.endswith(f"ORDER BY {order}")
        assert f"(ORDER BY {order} ROWS UNBOUNDED PRECEDING)" in text
        assert f"page_bytes <= ${most}::bigint" in text
        assert f"${most}" not in statement(name)


def test_a_statement_without_an_order_is_no_page() -> None:
    """Its rows could be cut off anywhere."""
    with pytest.raises(Bug, match="jobs_count is no page"):
        bounded("jobs_count")


def test_lists_of_jobs_and_their_counts_ask_the_same() -> None:
    """However the jobs are found."""
    found, counted = statement("jobs_found"), statement("jobs_found_count")
    assert 9 == len(_candidates(found))
    assert _candidates(found) == _candidates(counted)
    what = _conditions(found[found.index("tickwise.jobs_shown") :])
    assert what == _conditions(counted[counted.index("tickwise.jobs_shown") :])
    assert 10 == len(what)
