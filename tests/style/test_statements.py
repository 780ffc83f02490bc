"""The SQL of the product stands by duty: beside the Python part that uses it, one name for each statement."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.style import source, tree
from tests.style.numbers import nameless
from tickwise.adapters.signals.postgres.link import statement as of_signals
from tickwise.adapters.statements import Statements, parsed
from tickwise.adapters.store.keeper.spilled import statement as of_keeper
from tickwise.adapters.store.postgres.codes import COLUMNS, NUMBERS
from tickwise.adapters.store.postgres.statements import statement as of_store
from tickwise.domain.errors import Bug
from tickwise.ports.store import Check

MAX_FILES_OF_A_FOLDER: Final = 60
MAX_LINES_OF_A_FILE: Final = 300
MAX_LINES_BESIDE_OTHERS: Final = 25
"""A statement with more lines of SQL has a file of its own; one with fewer has not."""
PACKAGES: Final = {"store": of_store, "signals": of_signals, "keeper": of_keeper}
NAMED_BY_CHECK: Final = frozenset(f"check_{check}" for check in Check)

both = pytest.mark.parametrize("statements", PACKAGES.values(), ids=PACKAGES)


def _alone(file: Path) -> bool:
    return file.parent.name == "sql"


def _lines(text: str) -> int:
    """The lines of SQL in a statement, without comments and blanks."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("--"))


def _place(file: Path) -> str:
    return file.relative_to(tree.ROOT).as_posix()


def _literals(module: Path) -> set[str]:
    """The literal texts of a module that are no docstrings."""
    nodes = [*ast.walk(source.parsed(_place(module)))]
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    }


def _package(statements: Statements) -> list[Path]:
    return sorted({file.parent.parent if _alone(file) else file.parent for file in statements.files()})


def _modules(statements: Statements) -> list[Path]:
    return [module for folder in _package(statements) for module in sorted(folder.glob("*.py"))]


def _asked_for(module: Path) -> Iterator[str]:
    """The names in calls of `statement` with a literal name."""
    for node in ast.walk(source.parsed(_place(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "statement":
            yield from (one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str))


@both
def test_a_statement_stands_with_the_part_that_uses_it(statements: Statements) -> None:
    """`<part>.sql` belongs to `<part>.py`, `sql/<name>.sql` to a module of the package around it."""
    for file in statements.files():
        users = [*file.parent.parent.glob("*.py")] if _alone(file) else [file.with_suffix(".py")]
        used = {name for user in users for name in _literals(user)}
        if file.name == "health.sql" or _alone(file):
            used |= NAMED_BY_CHECK
        unused = {name for name, _ in parsed(file)} - used
        assert set() == unused, f"{_place(file)}: no use of these in {[user.name for user in users]}"


@both
def test_a_large_statement_has_a_file_of_its_own_and_a_small_one_has_not(statements: Statements) -> None:
    """A large one bears its file's name; a part's file stays a page or two."""
    for file in statements.files():
        found = dict(parsed(file))
        lines = {name: _lines(text) for name, text in found.items()}
        assert len(file.read_text(encoding="utf-8").splitlines()) <= MAX_LINES_OF_A_FILE, _place(file)
        if _alone(file):
            assert [file.stem] == [*found], _place(file)
            assert lines[file.stem] > MAX_LINES_BESIDE_OTHERS, f"{_place(file)}: {lines}: move it to the part's file"
        else:
            large = {name: count for name, count in lines.items() if count > MAX_LINES_BESIDE_OTHERS}
            assert {} == large, f"{_place(file)}: move these to sql/<name>.sql"


@both
def test_each_statement_that_python_names_is_there(statements: Statements) -> None:
    """A name that is wrong is found before a server is asked."""
    named = {name for module in _modules(statements) for name in _asked_for(module)}
    assert len(named) > 3
    assert set() == named - statements.texts.keys()
    if statements is of_store:
        assert set() == NAMED_BY_CHECK - statements.texts.keys()


@both
def test_each_statement_says_its_purpose(statements: Statements) -> None:
    """Right below its name, before its first line of SQL."""
    for file in statements.files():
        text = file.read_text(encoding="utf-8")
        said = re.findall(r"^-- name: (\w+)\n-- \S", text, re.MULTILINE)
        assert said == [name for name, _ in parsed(file)], _place(file)


def test_no_folder_is_a_heap_of_sql() -> None:
    """A folder holds at most 60 `.sql` files."""
    found = Counter(place.rsplit("/", 1)[0] for place in tree.committed_files() if place.endswith(".sql"))
    assert found
    assert {} == {folder: count for folder, count in found.items() if count > MAX_FILES_OF_A_FOLDER}


def test_every_sql_file_of_the_adapters_is_read_or_migrates() -> None:
    """No statement lies where the loader does not look."""
    read = {_place(file) for statements in PACKAGES.values() for file in statements.files()}
    folders = ("src/tickwise/adapters/store/", "src/tickwise/adapters/signals/")
    there = {place for place in tree.committed_files() if place.endswith(".sql") and place.startswith(folders)}
    assert read == {place for place in there if "/migrations/" not in place}


def test_a_statement_is_sent_without_its_leading_comment(tmp_path: Path) -> None:
    """A comment within stays: it is part of the text that a session prepares."""
    (tmp_path / "part.sql").write_text(
        "-- name: a\n-- Why.\n-- $1 what.\n\nSELECT 1\n  -- inside\n\n-- name: b\nSELECT 2\n"
    )
    assert {"a": "SELECT 1\n  -- inside", "b": "SELECT 2"} == Statements(tmp_path).texts


def test_an_unknown_statement_is_named(tmp_path: Path) -> None:
    """The error says which name is missing and below which folder."""
    with pytest.raises(Bug, match=rf"{re.escape(str(tmp_path))} has a statement '-- name: nothing'"):
        Statements(tmp_path)("nothing")


def test_two_statements_of_one_name_are_refused(tmp_path: Path) -> None:
    """Else the order of files would choose between them."""
    (tmp_path / "deep").mkdir()
    for place in ("one.sql", "deep/two.sql"):
        (tmp_path / place).write_text("-- name: a\n-- Why.\nSELECT 1\n")
    with pytest.raises(Bug, match="another statement is named 'a' too"):
        Statements(tmp_path)("a")


def test_a_statement_without_a_name_is_refused(tmp_path: Path) -> None:
    """Else it would be lost without a word."""
    (tmp_path / "part.sql").write_text("SELECT 1;\n\n-- name: a\nSELECT 2\n")
    with pytest.raises(Bug, match="a statement has no name"):
        Statements(tmp_path)("a")


def _as_written() -> dict[str, str]:
    """The statements of the store as they stand in their files."""
    return {name: text for file in of_store.files() for name, text in parsed(file)}


def test_a_number_with_a_meaning_is_named() -> None:
    """A state, a trigger, a standing, a policy: the loader reads its number from the enum, so the two cannot differ.

    Released migrations hold plain numbers and never change.
    """
    found = {name: nameless(text, COLUMNS) for name, text in _as_written().items()}
    assert {} == {name: each for name, each in found.items() if each}


NOTED_AFTERWARDS: Final = frozenset({"starts_begin", "starts_settle", "starts_return", "gates_refuse"})
"""Their transaction notes once what became of all its starts (`starts_note`)."""


def test_a_statement_that_makes_or_moves_runs_notes_it() -> None:
    """Ends are noted by a trigger; a new run, and a move in between, by its own statement. Each looks first whether
    somebody watches, so that it gathers nothing for nobody."""
    moves = re.compile(
        r"INSERT INTO tickwise\.runs\b|UPDATE tickwise\.runs\b(?:(?!\b(?:WHERE|FROM)\b).)*?\bstate = ", re.DOTALL
    )
    moving = {name: text for name, text in _as_written().items() if moves.search(text)}
    hot = {"jobs_add", "fires_commit", "timers_fire", "runs_make", "claim", "claim_named", "start", "release"}
    assert hot | NOTED_AFTERWARDS <= moving.keys()
    assert NOTED_AFTERWARDS == {name for name, text in moving.items() if "feed_note(" not in text}
    assert set() == {
        name for name, text in _as_written().items() if "feed_note(" in text and "feed_watched()" not in text
    }


def test_the_rule_of_named_numbers_sees_every_place_of_one() -> None:
    """Any one name in any statement, replaced by its number, is found."""
    missed = [
        (name, text[max(0, place.start() - 40) : place.end() + 20])
        for name, text in _as_written().items()
        for place in re.finditer(r"\{(\w+\.[A-Z_]+)\}", text)
        if not nameless(f"{text[: place.start()]}{NUMBERS[place[1]]}{text[place.end() :]}", COLUMNS)
    ]
    assert [] == missed


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM tickwise.runs r WHERE r.state = 3",
        "SELECT 1 FROM tickwise.runs r WHERE r.state IN ({RunState.QUEUED}, 4)",
        "SELECT 1 FROM tickwise.runs r WHERE r.state IN (1, 4)",
        "SELECT 1 FROM tickwise.runs WHERE state::int=6",
        "SELECT 1 FROM tickwise.runs WHERE trigger <> {RunState.QUEUED}",
        "SELECT 1 FROM tickwise.runs WHERE overlap <> 0",
        "UPDATE tickwise.runs SET holder = 0, on_unknown = 0",
        "UPDATE tickwise.runs SET overlap = CASE WHEN own THEN -3 ELSE overlap END",
        "SELECT CASE o.state WHEN 7 THEN o.error END FROM o",
        "SELECT CASE WHEN unbegun THEN 8 ELSE o.state END FROM o",
        "INSERT INTO tickwise.history (run_id, state, before) SELECT run_id, 8, state FROM d",
        "INSERT INTO tickwise.history (state) SELECT CASE WHEN a > 1 THEN 7 ELSE {RunState.SKIPPED} END FROM d",
        "SELECT 1 FROM tickwise.runs WHERE state = ANY('{1,2}')",
    ],
)
def test_a_number_without_a_name_is_found(text: str) -> None:
    """In comparisons, lists, branches, assignments and inserts; also a member of another enum."""
    assert nameless(text, COLUMNS)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) > 3 FROM tickwise.runs WHERE state = {RunState.RUNNING} AND attempt < 32767",
        "SELECT 1 FROM tickwise.runs WHERE overlap > 0 AND (overlap > 0)::int = 1",
        "SELECT 1 FROM tickwise.runs WHERE state = ANY($3) AND state = $4",
        "UPDATE tickwise.runs SET overlap = -overlap, attempt = attempt - 1",
        "INSERT INTO tickwise.history (run_id, attempt, state) SELECT run_id, 0, {RunState.SKIPPED} FROM d",
    ],
)
def test_a_number_that_is_a_number_is_left_alone(text: str) -> None:
    """A count, a sign, a parameter."""
    assert [] == nameless(text, COLUMNS)


def test_every_named_number_is_one_of_a_column() -> None:
    """The list of columns and the list of numbers speak of the same enums."""
    assert {each.__name__ for each in COLUMNS.values()} == {name.partition(".")[0] for name in NUMBERS}


def test_a_named_number_is_sent_as_a_number(tmp_path: Path) -> None:
    """The server knows no enums of ours. An unknown name is refused; an array literal is none."""
    (tmp_path / "part.sql").write_text("-- name: a\n-- Why.\nSELECT {RunState.RUNNING}, '{PAUSED}'\n")
    assert "SELECT 3, '{PAUSED}'" == Statements(tmp_path, NUMBERS)("a")
    with pytest.raises(Bug, match=r"no number is named \{RunState\.RUNNING\}"):
        Statements(tmp_path)("a")
