"""The cost book is arithmetic on readings: differences, shares of a run, tables that leave nothing out in silence."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from bench.costs import book
from bench.costs.__main__ import chosen
from bench.costs.features import FEATURES, FOLDER, Cut, NoSuchPart, read_cut, shortened
from bench.costs.meter import Reading, Rows, Statement, Usage, canonical, cpu_seconds, less, named, reaped_seconds
from bench.costs.sampled import name_of
from bench.costs.spending import Span, cost_of, rows_text
from bench.costs.stages import STAGES
from tickwise.adapters.store.postgres.statements import statement

HEAD: dict[str, Any] = {
    "commit": "abc",
    "at": "now",
    "machine": {"cpu": "abacus", "cores": 2, "memory_gib": 1.0, "kernel": "none", "loop_ms": 5.0},
    "postgresql": {"server_version": "18"},
}
QUIET = Reading(programs={}, sessions={}, background={}, statements={}, tables={}, wal=0)


def _statement(calls: int) -> Statement:
    return Statement(calls, calls, 10.0 * calls, 100 * calls, calls, 0, 0)


def test_what_was_used_between_two_readings_is_their_difference() -> None:
    """Field by field; what came new counts whole, what did not change is left out."""
    before = {"claim": Usage(1.0, 100), "beat": Usage(2.0, 5)}
    after = {"claim": Usage(1.5, 160), "beat": Usage(2.0, 5), "finish": Usage(0.25, 7)}
    assert {"claim": Usage(0.5, 60), "finish": Usage(0.25, 7)} == less(after, before)


def test_a_stage_costs_what_its_sessions_used_divided_by_its_runs() -> None:
    """Microseconds, bytes and statements of one run; background processes apart."""
    used = Reading(
        programs={},
        sessions={"tickwise claim": Usage(0.002, 0), "tickwise finish": Usage(0.001, 0)},
        background={"walwriter": Usage(0.0005)},
        statements={"claim": _statement(4)},
        tables={},
        wal=50_000,
    )
    cost = cost_of(used, 1000, client_seconds=0.004)
    assert (4.0, 3.0, 0.5, 50.0, 0.004) == pytest.approx(
        (cost.client, cost.database, cost.background, cost.wal, cost.trips)
    )


def test_the_statements_of_the_measurement_are_not_counted() -> None:
    """Or a stage would seem to make more round trips than it does."""
    used = QUIET.since(QUIET)
    counted = Reading(used.programs, {}, {}, {"claim": _statement(2), "costs_wal": _statement(9)}, {}, 0)
    assert cost_of(counted, 2, client_seconds=0.0).trips == pytest.approx(1.0)


def test_rows_are_told_by_table_with_what_was_done_to_them() -> None:
    """An update that touched no index is marked; what hardly any run does is left out."""
    rows = {"runs": Rows(0, 1000, 1000, 1000), "history": Rows(1000, 0, 0, 0), "executors": Rows(0, 2, 2, 0)}
    assert rows_text(rows, 1000) == "history +1, runs ~1 HOT −1"


def test_an_update_that_touches_indexes_is_not_called_hot() -> None:
    """Half of them were: that is not what HOT promises."""
    assert rows_text({"timers": Rows(0, 100, 50, 0)}, 100) == "timers ~1"


@pytest.mark.parametrize("name", ["claim", "finish", "jobs_add", "timers_fire", "fires_commit", "executor_beat"])
def test_a_statement_is_known_again_as_postgresql_shows_it(name: str) -> None:
    """Its constants are parameters there, with numbers of their own, and its white space may differ."""
    shown = statement(name).replace("'1 second'", "$99").replace("\n", "\n  ")
    assert name == named(shown)


def test_a_statement_that_is_not_ours_is_named_by_how_it_begins() -> None:
    """So that the table by statement is whole."""
    assert named("SELECT 1 FROM strangers") == "select ? from strangers"


def test_comments_are_no_part_of_a_statement() -> None:
    """The files have them, and the server shows them."""
    assert canonical("SELECT a -- why\nFROM b;") == canonical("select  a from b")


def test_the_cpu_of_a_process_is_read() -> None:
    """This one has worked for a while; one that is gone has used nothing that could be read."""
    assert cpu_seconds(os.getpid()) > 0.0
    assert cpu_seconds(2**22 + 1) == 0.0


def test_what_ended_children_used_is_theirs_to_be_found() -> None:
    """A session that closes takes its figures along; its parent keeps the sum."""
    before = reaped_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert reaped_seconds(os.getpid()) > before
    assert reaped_seconds(2**22 + 1) == 0.0


def test_a_span_says_its_range_only_if_there_is_one() -> None:
    """Median, least, most."""
    assert str(Span.of([3.0, 1.0, 2.0])) == "2.0 [1.0 – 3.0]"
    assert str(Span.of([2.0])) == "2.0"


def test_a_function_is_named_by_its_module_in_the_product() -> None:
    """Whatever folder the product lies in."""
    assert name_of("/a/src/tickwise/roles/executor/held_runs.py", "Held.take") == "roles.executor.held_runs: Held.take"


def test_a_part_that_a_statement_lacks_is_not_left_out_in_silence() -> None:
    """A figure would be made up otherwise."""
    with pytest.raises(NoSuchPart):
        Cut("x", "", "")("a b c")
    with pytest.raises(NoSuchPart):
        Cut("c", "a", "")("a b c")


def test_a_piece_is_replaced_up_to_where_the_next_one_begins() -> None:
    """Only the first of its kind; what comes next stays, on a line of its own."""
    assert Cut("(", ")", "[")("one (two) three (four)") == "one [\n) three (four)"
    assert Cut("two", "", "2")("one two two") == "one 2 two"


def test_what_to_leave_out_is_read_from_a_file_with_its_purpose_on_top() -> None:
    """Pieces may have several lines; one that is missing is empty."""
    text = "-- Why.\n-- from\na\nb\n-- instead\nc\n"
    assert Cut("a\nb", "", "c") == read_cut(text)


def test_finish_without_history_inserts_nothing() -> None:
    """What is measured beside the whole is the whole without its record."""
    name, text = shortened("finish.history")
    assert name == "finish"
    assert "INSERT INTO" not in text


def test_every_part_that_can_be_left_out_has_its_file_and_every_file_its_part() -> None:
    """`finish.history` is a stage of its own."""
    named = {cut for several in FEATURES.values() for feature in several for cut in feature.cuts}
    assert {file.stem for file in FOLDER.glob("*.sql")} == named | {"finish.history"}


def _rounds(database: float) -> list[dict[str, float]]:
    return [{"client": 1.0, "database": database, "background": 0.0, "wal": 100.0, "trips": 0.002}] * 3


def test_the_book_names_what_was_never_measured() -> None:
    """An empty book is a page all the same."""
    page = book.book({})
    assert "Not measured yet: `make bench-profile PARTS=stages`" in page
    assert "# What a run costs" in page


def test_the_book_shows_each_stage_beside_its_limit() -> None:
    """With the ratio of the two."""
    stages: dict[str, Any] = {
        stage.name: {"head": HEAD, "product": _rounds(12.0), "limit": _rounds(4.0), "rows": "runs +1"}
        for stage in STAGES
    }
    line = next(line for line in book.book({"stages": stages}).splitlines() if "| claim |" in line)
    assert [cell.strip() for cell in line.split("|")[3:7]] == ["1.0", "12.0", "4.0", "3.0"]


def test_the_book_says_when_a_part_is_not_there_to_be_left_out() -> None:
    """Instead of a figure."""
    claim: dict[str, Any] = {"head": HEAD, **{name: _rounds(9.0) for name in ("bare", "wide", "all")}}
    claim |= {feature.name: _rounds(8.5) for feature in FEATURES["claim"]}
    claim[FEATURES["claim"][0].name] = "gone"
    page = book.book({"features": {"claim": claim}})
    assert page.count("not there any more") == 1
    assert f"| {FEATURES['claim'][1].name} | claim | 0.5 |" in page


def test_a_part_is_named_whole_or_by_its_items() -> None:
    """And what is not there is refused with what is."""
    assert [("stages", "claim"), ("api", "future")] == chosen(["stages.claim", "api"])
    with pytest.raises(ValueError, match=r"no 'stages\.sleep' to measure; there are whole\.T1"):
        chosen(["stages.sleep"])


def test_without_names_everything_is_measured() -> None:
    """Each stage among it."""
    assert {("stages", stage.name) for stage in STAGES} <= set(chosen([]))
