"""What the sources of the product say of themselves: calls with their place, read from the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.style import rules, tree

LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


class Event(NamedTuple):
    """One call of a structured logger."""

    place: str
    logger: str
    level: str
    name: str
    fields: tuple[str, ...]


class Metric(NamedTuple):
    """One declaration of a metric."""

    place: str
    kind: str
    name: str
    meaning: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]


class Narrowed(NamedTuple):
    """One error that is raised with a code of its own; `code` is None if it is no literal."""

    place: str
    error: str
    code: str | None


def parsed(place: str) -> ast.Module:
    return rules.parsed(tree.read(place))


def nodes(place: str) -> tuple[ast.AST, ...]:
    return rules.nodes(tree.read(place))


def _calls(place: str) -> Iterator[tuple[str, ast.Call]]:
    for node in nodes(place):
        if isinstance(node, ast.Call):
            yield f"{place}:{node.lineno}", node


def _named(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def text(node: ast.expr | None) -> str | None:
    """The value of a literal text."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@cache
def events() -> list[Event]:
    """Every call of a logger that a module made with `structlog.get_logger`."""
    return [event for place in tree.python_files("src") for event in _events(place)]


def _events(place: str) -> Iterator[Event]:
    loggers: dict[str, str] = {}
    for node in parsed(place).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            (target, *_), made = node.targets, node.value
            if isinstance(target, ast.Name) and _named(made.func) == "get_logger":
                module = place.removeprefix("src/").removesuffix(".py").replace("/", ".")
                loggers[target.id] = text(made.args[0]) or module
    for where, call in _calls(place):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in LEVELS and isinstance(function.value, ast.Name):
            logger = loggers.get(function.value.id)
            if logger is not None:
                name = text(call.args[0]) or f"(computed at {where})"
                fields = tuple(keyword.arg or "…" for keyword in call.keywords if keyword.arg != "exc_info")
                yield Event(where, logger, function.attr, name, fields)


@cache
def metrics() -> list[Metric]:
    """Every declaration of a metric, in order."""
    kinds = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram", "BatchHistogram": "histogram"}
    found = []
    for place in tree.python_files("src"):
        for where, call in _calls(place):
            kind, name = kinds.get(_named(call.func) or ""), text(call.args[0]) if call.args else None
            if kind is None or name is None:
                continue
            labels = tuple(ast.literal_eval(call.args[2])) if len(call.args) > 2 else ()
            buckets = [keyword.value for keyword in call.keywords if keyword.arg == "buckets"]
            bounds = tuple(_constant(place, _named(buckets[0]) or "")) if buckets else ()
            found.append(Metric(where, kind, name, text(call.args[1]) or "", labels, bounds))
    return found


def _constant(place: str, name: str) -> list[float]:
    """The value of a module's constant."""
    for node in parsed(place).body:
        if isinstance(node, ast.AnnAssign) and _named(node.target) == name and node.value is not None:
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"{place} has no constant {name!r}")


@cache
def narrowed_codes(errors: frozenset[str]) -> list[Narrowed]:
    """Every `Error(…, code=…)` of the classes named."""
    return [
        Narrowed(where, name, text(keyword.value))
        for place in tree.python_files("src")
        for where, call in _calls(place)
        if (name := _named(call.func) or "") in errors
        for keyword in call.keywords
        if keyword.arg == "code" and not place.endswith("domain/errors.py")
    ]


def codes_of_command_line() -> set[str]:
    """The codes that the command line puts into the errors of `--json` by itself: `{"code": "…"}`."""
    return {
        value
        for place in tree.python_files("src/tickwise/cli")
        for node in nodes(place)
        if isinstance(node, ast.Dict)
        for key, said in zip(node.keys, node.values, strict=True)
        if text(key) == "code" and (value := text(said)) is not None
    }


_REASON_AT = {"Ending": 3, "Outcome": 5, "_failed": 3, "end_early": 0, "_stop": 1}


@cache
def reasons() -> set[str]:
    """The `reason`s that runners and the executor give to the end of an attempt, where they are literals."""
    return {
        reason
        for place in tree.python_files("src/tickwise/adapters", "src/tickwise/roles")
        for node in nodes(place)
        for expression in _reason_expressions(node)
        if (reason := text(expression)) is not None
    }


def _reason_expressions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        for target, value in zip(node.targets[0].elts, node.value.elts, strict=True):
            if _named(target) == "reason":
                yield value
    if not isinstance(node, ast.Call):
        return
    arguments, name = node.args, _named(node.func)
    if name == "call_later" and len(arguments) > 2:  # call_later(seconds, attempt.end_early, "timeout", …)
        arguments, name = arguments[2:], _named(arguments[1])
    at = _REASON_AT.get(name or "")
    if at is not None and len(arguments) > at:
        yield arguments[at]
    if name in ("Ending", "Outcome", "Result", "Report", "_replace"):
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")


def literal_anywhere(word: str) -> bool:
    """Whether the product holds this text as a literal, in Python or in SQL."""
    return any(
        f'"{word}"' in tree.read(place) or f"'{word}'" in tree.read(place)
        for place in tree.committed_files()
        if place.startswith("src/") and place.endswith((".py", ".sql"))
    )


def fields_said(place: str, name: str) -> dict[str, str]:
    """What the texts after the fields of a class say of them, each in one line."""
    [found] = [node for node in nodes(place) if isinstance(node, ast.ClassDef) and node.name == name]
    said: dict[str, str] = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            said[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return said
