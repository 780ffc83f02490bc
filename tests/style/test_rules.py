"""Each rule refuses what it was made to refuse, and lets its neighbour pass: a rule that cannot fail is no rule."""

from __future__ import annotations

import pytest

from tests.style import rules


def _function_of(lines: int, name: str = "long") -> str:
    return f"def {name}() -> None:\n" + "    pass\n" * (lines - 1)


def test_a_function_over_the_hard_limit_is_found() -> None:
    """71 lines are refused, 70 are not, however many short functions stand beside."""
    short = "".join(_function_of(2, f"short_{number}") for number in range(100))
    too_long = list(rules.functions("m.py", short + _function_of(71)))
    just_right = list(rules.functions("m.py", short + _function_of(70)))
    assert ["m.py:201: long has 71 lines, 70 are the most"] == rules.too_long_functions(too_long)
    assert [] == rules.too_long_functions(just_right)


def test_more_than_one_longish_function_in_twenty_is_found() -> None:
    """Five in a hundred may exceed the usual limit, six may not."""

    def tree(longish: int) -> list[rules.Function]:
        return [rules.Function("m.py:1", "f", 60 if number < longish else 10) for number in range(100)]

    assert [] == rules.too_long_functions(tree(5))
    assert len(rules.too_long_functions(tree(6))) == 1


def test_a_module_over_its_limit_is_found() -> None:
    """801 lines are refused, 800 are not."""
    assert rules.too_long_module("m.py", "\n" * 801)
    assert not rules.too_long_module("m.py", "\n" * 800)


@pytest.mark.parametrize(
    "source",
    [
        'q = "SELECT 1"',
        'q = f"SELECT * FROM {table}"',
        'q = "DELETE FROM jobs WHERE id = $1"',
        'q = """\n    INSERT INTO jobs VALUES ($1)\n"""',
        'q = "UPDATE jobs SET name = $1"',
        'await connection.execute("LISTEN tickwise")',
        'q = "CREATE UNLOGGED TABLE t ()"',
        'q = "ALTER ROLE tickwise CREATEDB"',
        'q = "select id from jobs"',
    ],
)
def test_sql_in_a_string_is_found(source: str) -> None:
    """Statements are found in plain, formatted and multi-line strings, in capitals or not."""
    assert len(rules.sql_in_strings("m.py", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Runs SELECT 1 against the server."""',
        'def f() -> None:\n    """INSERT INTO is what this stands for."""',
        'message = "select one of these"',
        'message = "update the job, then set it going"',
    ],
)
def test_prose_is_not_taken_for_sql(source: str) -> None:
    """Docstrings and ordinary sentences pass."""
    assert [] == rules.sql_in_strings("m.py", source)


LATER = "src/migrations/sql/0003_later.sql"


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE tickwise.follows;",
        "ALTER TABLE tickwise.runs DROP COLUMN place;",
        "DROP INDEX tickwise.runs_paced;",
        "drop function tickwise.wake(int, int, int, int);",
        "ALTER TABLE tickwise.runs RENAME COLUMN slot TO place_in_time;",
        "ALTER TABLE tickwise.tasks ALTER version TYPE bigint;",
        "ALTER TABLE tickwise.tasks ALTER COLUMN version TYPE bigint;",
        "ALTER TABLE tickwise.jobs ALTER owner SET NOT NULL;",
        "TRUNCATE tickwise.tallies;",
        "ALTER TABLE tickwise.jobs ADD COLUMN site text NOT NULL;",
        "ALTER TABLE tickwise.jobs ADD COLUMN a int DEFAULT 1, ADD COLUMN site text NOT NULL CHECK (site <> '');",
        "CREATE INDEX runs_due ON tickwise.runs (due);",
        "CREATE UNIQUE INDEX jobs_name\n  ON tickwise.jobs_lasting (name);",
    ],
)
def test_a_migration_that_would_break_the_release_before_is_found(text: str) -> None:
    """What it takes away, what it asks of those who do not know it, what it holds up; the first schema may do all."""
    assert len(rules.migrations_that_break_the_release_before(LATER, text)) == 1
    assert [] == rules.migrations_that_break_the_release_before(LATER.replace("0003", "0001"), text)


@pytest.mark.parametrize(
    "text",
    [
        "-- DROP TABLE is for the release after this.\nCREATE TABLE tickwise.sites (site text NOT NULL);",
        "CREATE TABLE tickwise.sites (site text);\nCREATE INDEX sites_site ON tickwise.sites (site);",
        "CREATE INDEX CONCURRENTLY runs_due ON tickwise.runs (due);",
        "DROP INDEX CONCURRENTLY IF EXISTS tickwise.runs_due;",
        "ALTER TABLE tickwise.jobs ADD COLUMN site text, ADD COLUMN rank int NOT NULL DEFAULT 0;",
        "ALTER TABLE tickwise.operations DROP CONSTRAINT a, ADD CONSTRAINT a CHECK (status <> '');",
        "CREATE OR REPLACE FUNCTION tickwise.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT 1';",
        "UPDATE tickwise.schema_version SET serves = '0002';\nDROP TABLE tickwise.alembic_version;",
    ],
)
def test_a_migration_that_only_adds_passes(text: str) -> None:
    """And one that takes away, but says which programs the schema serves from then on."""
    assert [] == rules.migrations_that_break_the_release_before(LATER, text)


def test_a_port_with_too_many_methods_is_found() -> None:
    """26 methods are refused, 25 are not; a class that is no Protocol may have any number."""

    def port(methods: int, base: str = "Protocol") -> str:
        return f"class Store({base}):\n" + "".join(f"    def m{n}(self) -> None: ...\n" for n in range(methods))

    assert ["p.py: Store has 12 methods, 11 are the most"] == rules.wide_ports("p.py", port(12))
    assert [] == rules.wide_ports("p.py", port(11))
    assert [] == rules.wide_ports("p.py", port(12, "Base"))


def test_a_port_method_with_too_many_positional_parameters_is_found() -> None:
    """Four positional parameters are refused; named-only ones do not count, their call says what they are."""
    four = "class Store(Protocol):\n    async def m(self, a: int, b: int, c: int, d: int) -> None: ...\n"
    named = "class Store(typing.Protocol[T]):\n    async def m(self, a: int, *, b: int, c: int, d: int) -> None: ...\n"
    assert len(rules.wide_ports("p.py", four)) == 1
    assert [] == rules.wide_ports("p.py", named)


@pytest.mark.parametrize(
    "comment",
    [
        "# type: ignore",
        "# type: ignore  # the library has no types",
        "# type: ignore[attr-defined]",
        "# noqa",
        "# noqa: BLE001",
        "# noqa: BLE001, S110",
        "# type: ignore[misc]  # noqa: BLE001",
    ],
)
def test_an_ignore_without_code_or_reason_is_found(comment: str) -> None:
    """Neither a bare directive nor an unexplained code passes."""
    assert rules.bare_ignores("m.py", f"x = 1  {comment}\n")


@pytest.mark.parametrize(
    "comment",
    [
        "# type: ignore[attr-defined]  # the library has no types",
        "# noqa: BLE001 - a plugin may raise anything",
        "# type: ignore[misc]  # noqa: BLE001  # a plugin may raise anything",
        "# an ordinary remark",
    ],
)
def test_an_ignore_with_code_and_reason_passes(comment: str) -> None:
    """Code, then a few words."""
    assert [] == rules.bare_ignores("m.py", f"x = 1  {comment}\n")


@pytest.mark.parametrize("folder", ["home/ada", "Users/ada", "root/src", "work" + "space/x"])
def test_a_folder_of_one_machine_is_found(folder: str) -> None:
    """Home folders and checkouts of build machines are found in any text."""
    assert len(rules.machine_paths("README.md", f"see /{folder}/notes")) == 1


@pytest.mark.parametrize("text", ["/api/v1/jobs", "https://example.org/home/x", "file:///var/lib/tickwise", "~/.local"])
def test_a_path_that_exists_anywhere_passes(text: str) -> None:
    """Routes, addresses and system folders are fine."""
    assert [] == rules.machine_paths("README.md", text)


def test_a_port_without_a_suite_is_found() -> None:
    """A module without tests is none, and the suite of one port is not that of another whose name begins alike."""
    suite = "class SomeContract(Contract):\n    async def test_it(self) -> None: ...\n"
    bare = "class SomeContract(Contract):\n    async def helper(self) -> None: ...\ndef test_loose() -> None: ...\n"
    kit = {"store_claims": suite, "clock": suite, "runner": bare, "blobsy": suite, "base": bare}
    assert {"runner", "blobs"} == rules.ports_without_a_suite(["store", "clock", "runner", "blobs"], kit)


def test_a_suite_that_nobody_runs_is_found() -> None:
    """It is run where it is a base, not where it is named."""
    run = "class TestIt(Backend, OneContract):\n    pass\nprint(OtherContract)\n"
    assert {"OtherContract"} == rules.suites_that_nobody_runs(["OneContract", "OtherContract"], ["x = 1\n", run])


def test_a_module_that_the_page_of_its_package_does_not_name_is_found() -> None:
    """A word of a sentence is no name of a module: it stands as code, or in the drawing."""
    page = "The lease is kept.\n\n```\nrole ─► outbox\n```\n\n`run_log` writes lines.\n"
    assert ["it does not name `lease`"] == rules.page_gaps(page, ["role", "outbox", "run_log", "lease"])
    assert ["it has 61 lines, 60 at most"] == rules.page_gaps("\n" * 61, [])


def test_third_party_assets_are_found() -> None:
    """By name, by folder, or by a line that nobody wrote by hand."""
    assert rules.third_party_asset("src/tickwise/web/static/htmx.min.js", "x")
    assert rules.third_party_asset("src/tickwise/web/static/vendor/htmx.js", "x")
    assert rules.third_party_asset("src/tickwise/web/static/app.css", "x" * 1_001)
    assert not rules.third_party_asset("src/tickwise/web/static/app.css", "body { margin: 0 }\n")


def test_every_form_of_import_is_seen() -> None:
    """Late imports inside functions count as well."""
    source = "import a.b\nfrom c.d import e\ndef f():\n    import g\n"
    assert {"a", "c", "g"} == rules.imported_packages(source)


@pytest.mark.parametrize(
    "back",
    [
        "from tickwise.a import x",
        "import tickwise.a",
        "from tickwise import a",
        "def f():\n    from tickwise.a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tickwise.a import x",
    ],
)
def test_modules_that_import_each_other_are_found(back: str) -> None:
    """Through a third one, and however the import is written; the finding names each step."""
    sources = {
        "src/tickwise/__init__.py": "",
        "src/tickwise/a.py": "from tickwise.b import y",
        "src/tickwise/b/__init__.py": "from tickwise.b.c import z",
        "src/tickwise/b/c.py": back,
    }
    assert sorted(rules.import_circle(sources)) == [
        "src/tickwise/a.py imports tickwise.b",
        "src/tickwise/b/__init__.py imports tickwise.b.c",
        "src/tickwise/b/c.py imports tickwise.a",
    ]


def test_modules_that_share_a_third_one_are_no_circle() -> None:
    """Nor is a package that gives what its modules make, nor a module that the repository does not have."""
    sources = {
        "bench/__init__.py": "from bench.a import x",
        "bench/a.py": "from bench.c import z\nimport asyncio",
        "bench/b.py": "from bench.c import z\nfrom bench import a",
        "bench/c.py": "import bench.d",
    }
    assert rules.import_circle(sources) == []


def test_places_of_classes_are_found_inside_functions_too() -> None:
    """A name that two files define has both places."""
    sources = {"a.py": "class One: ...\n", "b.py": "def made():\n    class One: ...\n    class Two: ...\n"}
    assert rules.places_of_classes(sources) == {"One": ["a.py", "b.py"], "Two": ["b.py"]}


def test_banned_words_are_found_as_whole_words() -> None:
    """Not inside of others; in any case of letters."""
    assert rules.banned_words("a.md", "a warehouse\nthe Living executors") == ["a.md:2: Living"]


def test_a_docstring_that_begins_with_a_clause_is_found() -> None:
    """Of a module, a class, a function or an attribute; a clause further on is fine."""
    quotes = '"' * 3
    texts = [
        "Who asks.",
        "The key, and what it may do.",
        "What a key may do.",
        "The same for two.",
        "The sameness.",
        "So long.",
        "Whether it waits.",
        "Whichever is first.",
    ]
    source = "".join(f"{quotes}{text}{quotes}\n" for text in texts)
    clauses = [(1, "Who asks."), (3, "What a key may do."), (4, "The same for two."), (6, "So long.")]
    clauses += [(7, "Whether it waits."), (8, "Whichever is first.")]
    assert [f"a.py:{line}: {text}" for line, text in clauses] == rules.riddles("a.py", source)


def test_a_comment_of_a_statement_that_begins_with_a_clause_is_found() -> None:
    """Beside it, and inside of it; a clause further on is fine, and a migration is left as it was."""
    text = (
        "-- name: a\n-- What is asked.\n-- Who asks.\nSELECT\n  -- Who asked.\n  1\n-- name: b\n-- The key.\nSELECT 1\n"
    )
    assert rules.sql_riddles("a.sql", text) == ["a.sql:2: -- What is asked.", "a.sql:5: -- Who asked."]
    assert rules.sql_riddles("migrations/sql/0001_a.sql", text) == []


def test_a_class_of_four_bases_is_found() -> None:
    """Three are the most."""
    assert [] == rules.towers_of_classes("p.py", "class A(B, C, D): ...")
    assert ["p.py:1: A has 4 bases, 3 are the most"] == rules.towers_of_classes("p.py", "class A(B, C, D, E): ...")
