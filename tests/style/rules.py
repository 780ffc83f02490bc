"""The rules of STYLE.md that a machine can judge, each a pure function from source text to findings.

Pure, so that each rule is itself tested: `test_rules.py` feeds every one of them a sample that it must refuse.
A finding is one line of text that names the place and what to do.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

FUNCTION_LINES_USUAL = 50
MAX_FUNCTION_LINES = 70
FUNCTION_SHARE_USUAL = 0.95
MAX_MODULE_LINES = 800
MAX_PAGE_LINES = 60
MAX_PORT_METHODS = 11
MAX_BASES = 3
MAX_PORT_POSITIONAL = 3
LINE_CHARACTERS_MOST_OF_AN_ASSET = 1_000

SQL = re.compile(
    r"\bSELECT\s+[\w*('\"]|\bINSERT\s+INTO\b|\bDELETE\s+FROM\b|\bUPDATE\s+[\w.\"{}]+\s+SET\b|\bTRUNCATE\s+\w"
    r"|\b(?:CREATE|ALTER|DROP)\s+(?:UNLOGGED\s+|UNIQUE\s+|OR\s+REPLACE\s+|TEMP(?:ORARY)?\s+)?"
    r"(?:TABLE|INDEX|FUNCTION|VIEW|DATABASE|ROLE|SCHEMA|TYPE|TRIGGER|SEQUENCE|KEYSPACE)\b"
    r"|\b(?:LISTEN|UNLISTEN|NOTIFY)\s+[\w\"{]|\bpg_notify\s*\(|\bpg_(?:try_)?advisory_\w+\s*\("
    r"|\bselect\s+[\w*('\"].*\bfrom\b|\binsert\s+into\b|\bdelete\s+from\b|\bupdate\s+\w+\s+set\b",
    re.DOTALL,
)
MIGRATION = re.compile(r"migrations/sql/(?:indexes/)?(?!0001_)\d{4}_\w+\.sql$")
TAKES_AWAY = re.compile(
    r"\bDROP\s+(?!CONSTRAINT\b|INDEX\s+CONCURRENTLY\b)[A-Z]+(?:\s+[\w.]+)?|\bRENAME\b|(?<!BEFORE )\bTRUNCATE\b"
    r"|\bSET\s+NOT\s+NULL\b|\bALTER\s+(?:COLUMN\s+)?\w+\s+TYPE\b",
    re.IGNORECASE,
)
FUNCTION = re.compile(r"\bCREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\b.*?\$\$.*?\$\$", re.IGNORECASE | re.DOTALL)
"""A function takes nothing away by being made. What it does when it is called is not this rule's matter."""
UNFILLED = re.compile(
    r"\bADD\s+COLUMN\b(?:(?!\bDEFAULT\b)[^,;])*\bNOT\s+NULL\b(?:(?!\bDEFAULT\b)[^,;])*(?=[,;])", re.IGNORECASE
)
LOCKING_INDEX = re.compile(
    r"\bCREATE\s+(?:UNIQUE\s+)?INDEX\s+(?!CONCURRENTLY\b).*?\bON\s+tickwise\.(\w+)", re.IGNORECASE | re.DOTALL
)
SAYS_WHOM_IT_SERVES = re.compile(r"\bUPDATE\s+tickwise\.schema_version\s+SET\s+serves\b", re.IGNORECASE)
DIRECTIVE = re.compile(
    r"#\s*type:\s*ignore(?P<type_code>\[[\w\-, ]+\])?"
    r"|#\s*noqa(?P<noqa_code>:\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)?",
)
# Homes of people and of build machines; what is committed runs anywhere. (The classes keep this line out of it.)
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:[h]ome|[U]sers|[r]oot|[w]ork(?:space)?)/[\w.]")


@cache
def parsed(source: str) -> ast.Module:
    """Every rule looks at every file, and reading one costs more than looking."""
    return ast.parse(source)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a module. Walking through a tree costs as much as making it."""
    return tuple(ast.walk(parsed(source)))


@dataclass(frozen=True)
class Function:
    """One function of a module and its length, from `def` to its last line, docstring included."""

    place: str
    name: str
    lines: int


def functions(place: str, source: str) -> Iterator[Function]:
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Function(f"{place}:{node.lineno}", node.name, length)


def too_long_functions(found: list[Function]) -> list[str]:
    """None over the hard limit; few over the usual one."""
    findings = [
        f"{function.place}: {function.name} has {function.lines} lines, {MAX_FUNCTION_LINES} are the most"
        for function in found
        if function.lines > MAX_FUNCTION_LINES
    ]
    longish = [function for function in found if function.lines > FUNCTION_LINES_USUAL]
    if len(longish) > len(found) * (1 - FUNCTION_SHARE_USUAL):
        longest = sorted(longish, key=lambda function: -function.lines)[:10]
        findings.append(
            f"{len(longish)} of {len(found)} functions have more than {FUNCTION_LINES_USUAL} lines, "
            f"{1 - FUNCTION_SHARE_USUAL:.0%} may; the longest: "
            + ", ".join(f"{function.place} {function.name} {function.lines}" for function in longest)
        )
    return findings


def too_long_module(place: str, source: str) -> list[str]:
    lines = source.count("\n")
    if lines <= MAX_MODULE_LINES:
        return []
    return [f"{place} has {lines} lines, {MAX_MODULE_LINES} are the most: split it by duty"]


def _docstrings(source: str) -> set[int]:
    """The identities of the nodes that are documentation: any string that stands alone as a statement."""
    return {id(node.value) for node in nodes(source) if isinstance(node, ast.Expr)}


def sql_in_strings(place: str, source: str) -> list[str]:
    """SQL lives in .sql files, where editors, EXPLAIN tests and database people find it."""
    documentation = _docstrings(source)
    return [
        f"{place}:{node.lineno}: SQL in a Python string, move it to a .sql file: {node.value.strip()[:60]!r}"
        for node in nodes(source)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
        and SQL.search(node.value)
    ]


def migrations_that_break_the_release_before(place: str, text: str) -> list[str]:
    """Programs of the release before work on while the schema moves (docs/decisions/0021): a migration takes nothing
    away that they use, asks nothing of them that they do not know, and holds up no writer of a large table. No program
    names an index, so one that another index serves for may go."""
    if not MIGRATION.search(place):
        return []
    code = FUNCTION.sub("", re.sub(r"--.*", "", text))
    says = SAYS_WHOM_IT_SERVES.search(code) is not None
    taken = [] if says else [found[0] for found in TAKES_AWAY.finditer(code)]
    made = set(re.findall(r"CREATE TABLE tickwise\.(\w+)", code, re.IGNORECASE))
    locking = [found[0] for found in LOCKING_INDEX.finditer(code) if found[1] not in made]
    return [
        *(f"{place}: {what!r}: one release later, and say then whom the schema serves (0021)" for what in taken),
        *(
            f"{place}: {found[0]!r}: give a DEFAULT, who does not know the column cannot fill it"
            for found in UNFILLED.finditer(code)
        ),
        *(
            f"{place}: {what!r}: CONCURRENTLY, in a step of its own; writers would wait for the whole table"
            for what in locking
        ),
    ]


def _is_protocol(node: ast.ClassDef) -> bool:
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return any(
        (isinstance(base, ast.Name) and base.id == "Protocol")
        or (isinstance(base, ast.Attribute) and base.attr == "Protocol")
        for base in bases
    )


def towers_of_classes(place: str, source: str) -> list[str]:
    """Classes with more than three bases: what is put together of parts has them as attributes."""
    return [
        f"{place}:{node.lineno}: {node.name} has {len(node.bases)} bases, {MAX_BASES} are the most"
        for node in nodes(source)
        if isinstance(node, ast.ClassDef) and len(node.bases) > MAX_BASES
    ]


def wide_ports(place: str, source: str) -> list[str]:
    """A port is small enough to be read whole, and its calls can be read without counting commas."""
    findings = []
    for port in nodes(source):
        if not isinstance(port, ast.ClassDef) or not _is_protocol(port):
            continue
        methods = [
            node
            for node in port.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and not any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)
        ]
        if len(methods) > MAX_PORT_METHODS:
            findings.append(f"{place}: {port.name} has {len(methods)} methods, {MAX_PORT_METHODS} are the most")
        for method in methods:
            positional = [*method.args.posonlyargs, *method.args.args][1:]
            if len(positional) > MAX_PORT_POSITIONAL:
                findings.append(
                    f"{place}:{method.lineno}: {port.name}.{method.name} takes {len(positional)} positional "
                    f"parameters, {MAX_PORT_POSITIONAL} are the most: give it one frozen argument object"
                )
    return findings


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def bare_ignores(place: str, source: str) -> list[str]:
    """Whoever silences a checker names what it said, and why it is wrong here."""
    findings = []
    if not DIRECTIVE.search(source):
        return []
    for line, comment in _comments(source):
        directives = list(DIRECTIVE.finditer(comment))
        if not directives:
            continue
        if any(not (match["type_code"] or match["noqa_code"]) for match in directives):
            findings.append(f"{place}:{line}: name the code that is ignored: {comment}")
        reason = DIRECTIVE.sub(" ", comment)
        if len(re.findall(r"[^\W\d_]{2,}", reason)) < 2:
            findings.append(f"{place}:{line}: say after the directive why it is right here: {comment}")
    return findings


def machine_paths(place: str, text: str) -> list[str]:
    """What is committed says nothing about the machine that it was written on."""
    return [
        f"{place}:{number}: names a folder of one machine: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]


def suites(source: str) -> set[str]:
    """The classes of tests that a module of the test kit publishes: `…Contract`, with tests of their own."""
    return {
        node.name
        for node in parsed(source).body
        if isinstance(node, ast.ClassDef)
        and node.name.endswith("Contract")
        and any(getattr(member, "name", "").startswith("test_") for member in node.body)
    }


BANNED_WORDS = re.compile(
    r"\b(haunt\w*|ghosts?|bury|buri(?:ed|al|als|es)|births?|undertakers?|living|house|neighbours?|whoever)\b",
    re.IGNORECASE,
)
SQL_COMMENT = re.compile(r"\s*--(?! name:)")
_RIDDLES = re.compile(
    r"\s*(?:What|Which|Who|Whom|Whose|Whoever|Whatever|Whether|Whichever|Whenever|Wherever|How|Where|When|Why|The same|"
    r"So (?:long|many|much|far|near|often))\b"
)


def banned_words(place: str, source: str) -> list[str]:
    """Words for which the field has a term: expired, registered, active, dying, reaper, runtime, coordination."""
    return [
        f"{place}:{number}: {found.group()}"
        for number, line in enumerate(source.splitlines(), start=1)
        for found in BANNED_WORDS.finditer(line)
    ]


def riddles(place: str, source: str) -> list[str]:
    """Docstrings that begin with a clause in place of a thing: "What is known of a run" for "The facts of a run"."""
    return [
        f"{place}:{node.lineno}: {node.value.value.strip()[:60]}"
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str) and _RIDDLES.match(node.value.value)
    ]


def sql_riddles(place: str, text: str) -> list[str]:
    """Comments of statements that begin with a clause in place of an action or a thing. A migration is history."""
    if "migrations/sql/" in place:
        return []
    lines = text.splitlines()
    return [
        f"{place}:{number}: {line.strip()[:60]}"
        for number, (before, line) in enumerate(pairwise(["", *lines]), start=1)
        if SQL_COMMENT.match(line) and not SQL_COMMENT.match(before) and _RIDDLES.match(line.strip().removeprefix("--"))
    ]


def places_of_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Each class name with the places that define it. `sources`: the text of each place."""
    places: dict[str, list[str]] = {}
    for place, source in sources.items():
        for node in nodes(source):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(place)
    return places


def ports_without_a_suite(ports: Iterable[str], kit: Mapping[str, str]) -> set[str]:
    """The ports of which no module of the test kit, called as the port or with `_` and more behind it, has a suite.

    `kit`: the sources of its modules by their names."""
    published = {name for name, source in kit.items() if suites(source)}
    return {port for port in ports if not any(f"{name}_".startswith(f"{port}_") for name in published)}


def suites_that_nobody_runs(published: Iterable[str], sources: Iterable[str]) -> set[str]:
    """The published suites that none of these test modules has as the base of a class."""
    bases = {
        base.id
        for source in sources
        for node in nodes(source)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name)
    }
    return set(published) - bases


def page_gaps(page: str, modules: Iterable[str]) -> list[str]:
    """The findings of a package's README: modules that it names neither as code nor in a drawing, and its length."""
    code = " ".join(re.findall(r"```.*?```|`[^`\n]+`", page, re.DOTALL))
    gaps = [f"it does not name `{module}`" for module in sorted(modules) if not re.search(rf"\b{module}\b", code)]
    lines = len(page.splitlines())
    return gaps if lines <= MAX_PAGE_LINES else [*gaps, f"it has {lines} lines, {MAX_PAGE_LINES} at most"]


def third_party_asset(place: str, text: str) -> list[str]:
    """Browser libraries come as packages with their hashes; minified code cannot be reviewed."""
    parts = place.split("/")
    if not place.endswith((".js", ".css", ".mjs")):
        return []
    if ".min." in parts[-1] or {"node_modules", "vendor"} & set(parts):
        return [f"{place}: third-party code is installed, not committed"]
    if any(len(line) > LINE_CHARACTERS_MOST_OF_AN_ASSET for line in text.splitlines()):
        return [f"{place}: looks minified (a line over {LINE_CHARACTERS_MOST_OF_AN_ASSET} characters)"]
    return []


def imported_packages(source: str) -> set[str]:
    """The top-level names that a module imports, wherever in it the import stands."""
    names: set[str] = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def import_circle(sources: Mapping[str, str]) -> list[str]:
    """The imports of one circle of modules, if there is one.

    Modules that need each other cannot be read, tested or moved one at a time: what both need belongs below both. An
    import inside of a function, or for types alone, counts as any other.
    """
    places = {_module_of(place): place for place in sources}
    imports = {module: _imported_modules(sources[place], places) - {module} for module, place in places.items()}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        # Each module stands before the one that imports it.
        return [f"{places[module]} imports {imported}" for imported, module in pairwise(error.args[1])]
    return []


def _module_of(place: str) -> str:
    return (
        place.removeprefix("sdk/").removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    )


def _imported_modules(source: str, known: Collection[str]) -> set[str]:
    """Those of the known modules that a module imports."""
    found: set[str] = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name if name in known else node.module for name in submodules)
    return found.intersection(known)
