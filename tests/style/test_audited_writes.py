"""Each write says its entry of the audit log: the parameter is optional, and a forgotten one would be silent."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection
from typing import Final, get_type_hints

from tests.style import rules, tree
from tickwise.ports import audit, identity
from tickwise.ports import store as port
from tickwise.ports.store import Store
from tickwise.ports.store.wrapping import PARTS

PLACES: Final = tuple(f"src/tickwise/{name}" for name in ("control", "roles", "wiring"))
"""Where stores are called. The API and the command line call services, which have such names, too."""


def _writes() -> set[tuple[str, str]]:
    """The methods that take an entry, each with its part of the store."""
    names = {**vars(port), **vars(identity), **vars(audit)}
    parts = {name: get_type_hints(vars(Store)[name].fget, names)["return"] for name in PARTS}
    return {
        (name, method)
        for name, part in parts.items()
        for method, function in inspect.getmembers(part, inspect.isfunction)
        if "audit" in inspect.signature(function).parameters
    }


def _silent(place: str, text: str, writes: Collection[tuple[str, str]]) -> list[str]:
    """The calls of such methods without an entry. A part is known by its name: `store.keys`,
    `self._keys`, `keys`; a service of that name has the principal, `who`, as its first argument."""
    findings = []
    for call in rules.nodes(text):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        owner = call.func.value
        name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
        is_service = bool(call.args) and isinstance(call.args[0], ast.Name) and call.args[0].id == "who"
        is_write = (name.lstrip("_"), call.func.attr) in writes and not is_service
        if is_write and not any(keyword.arg in ("audit", None) for keyword in call.keywords):
            findings.append(f"{place}:{call.lineno}: say the entry of {name}.{call.func.attr}: audit=…, or audit=None")
    return findings


def test_each_write_says_its_entry() -> None:
    """Also one that has none on purpose: it says `audit=None`."""
    writes = _writes()
    assert ("keys", "revoke") in writes
    files = tree.python_files(*PLACES)
    calls = [finding for place in files for finding in _silent(place, tree.read(place), writes)]
    assert [] == calls


def test_the_rule_finds_a_silent_write() -> None:
    """By whatever name the part of the store is at hand."""
    writes = {("keys", "revoke")}
    silent = ("store.keys.revoke(None, key)", "self._keys.revoke(None, key)", "keys.revoke(None, key)")
    assert 3 == sum(len(_silent("p.py", text, writes)) for text in silent)
    said = ("store.keys.revoke(None, key, audit=None)", "self._keys.find(key)", "self._keys.revoke(who, key)", "f(key)")
    assert [] == [finding for text in said for finding in _silent("p.py", text, writes)]
