"""The mutants fit the tree as it is: `make mutants` itself takes minutes, this is quick."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.__main__ import Unusable, patched
from tests.mutants.catalogue import MUTANTS, ROOT
from tests.mutants.mutant import Mutant

CONTRACTS = ROOT / "src" / "tickwise" / "testing" / "contracts"
NODE = re.compile(r"(?P<file>[\w/]+\.py)(?:::(?P<group>Test\w+))?::(?P<test>test_\w+)")


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.guard for mutant in MUTANTS])
def test_each_guard_is_where_the_catalogue_says(mutant: Mutant) -> None:
    """Exactly once, so that what is taken out is the guard; in Python, what is left can still be read."""
    left = patched((ROOT / mutant.file).read_text(encoding="utf-8"), mutant)
    if mutant.file.endswith(".py"):
        ast.parse(left)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.guard for mutant in MUTANTS])
def test_the_tests_that_miss_each_guard_are_there(mutant: Mutant) -> None:
    """Under the names that the catalogue gives them."""
    assert mutant.tests
    for node in mutant.tests:
        found = NODE.fullmatch(node)
        assert found is not None, node
        file = ROOT / found["file"]
        # The suites of a port are inherited by the tests of its adapters.
        inherited = frozenset() if found["group"] is None else _promised()
        assert found["test"] in _defined(file) | inherited, node
        assert found["group"] is None or f"class {found['group']}(" in file.read_text(encoding="utf-8"), node


def test_each_guard_has_a_name_of_its_own() -> None:
    """The table is read by it."""
    assert len(MUTANTS) == len({mutant.guard for mutant in MUTANTS})


def test_a_guard_that_is_not_there_is_an_error() -> None:
    """Else a mutant that changes nothing would be said to have survived, or worse."""
    gone = MUTANTS[0]._replace(old="what was never written")
    with pytest.raises(Unusable, match="0 times"):
        patched("text", gone)


@cache
def _defined(place: Path) -> frozenset[str]:
    """The names of the tests that a file defines."""
    return frozenset(re.findall(r"def (test_\w+)\(", place.read_text(encoding="utf-8")))


@cache
def _promised() -> frozenset[str]:
    """The names of the tests of all suites of the ports."""
    return frozenset().union(*map(_defined, CONTRACTS.rglob("*.py")))
