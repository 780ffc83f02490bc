"""Reads Celery's schedule from the syntax tree of a Python module: nothing of the module is ever run.

    app.conf.beat_schedule = {"nightly": {"task": "shop.nightly", "schedule": crontab(minute=0, hour=3)}}
         └ found by its name     └ key        └ literals, and the few calls that make schedules

Values are literals, sums and products of numbers, `crontab(…)`, `schedule(…)`, `timedelta(…)`, `dict(…)`, and names
that the module binds once to one of these. All else raises `Untranslatable` with its line.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from tickwise.importers.celery_crontab import CRONTAB_FIELDS, Crontab, Interval, crontab_of_line
from tickwise.importers.translation import Untranslatable

MAX_SCRIPT_CHARACTERS: Final = 1 << 20
_MAX_NESTING: Final = 30
_MAX_VALUES: Final = 200_000
"""Values that are worked out in one module: names inside names could ask for billions."""
_MAX_NUMBER: Final = 1e15
_NODES_SHOWN: Final = 300
"""An expression of more parts is not printed: the same one may be at fault in every entry."""

_SCHEDULES: Final = frozenset({"beat_schedule", "celerybeat_schedule", "celery_beat_schedule"})
_ZONES: Final = frozenset({"timezone", "celery_timezone"})
_UTC: Final = frozenset({"enable_utc", "celery_enable_utc"})
_SETTINGS: Final = _SCHEDULES | _ZONES | _UTC

_OPERATIONS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_SPAN_SECONDS: Final = {
    "days": 86_400.0, "seconds": 1.0, "microseconds": 1e-6, "milliseconds": 1e-3, "minutes": 60.0, "hours": 3_600.0,
    "weeks": 604_800.0,
}  # fmt: skip


class CeleryEntry(NamedTuple):
    """One entry of the schedule, or what stands where one should."""

    line: int
    name: str
    value: ast.expr
    failure: Untranslatable | None = None
    """The reason why it is none."""


class Module:
    """The syntax tree of a module, and what its names mean."""

    def __init__(self, text: str) -> None:
        """Raises `Untranslatable` if it is no Python, or too long."""
        if len(text) > MAX_SCRIPT_CHARACTERS:
            raise Untranslatable(
                f"the module has more than {MAX_SCRIPT_CHARACTERS} characters; keep its schedule alone"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except SyntaxError as failure:
            raise Untranslatable(f"line {failure.lineno or 1} is no Python: {failure.msg}") from None
        except (ValueError, RecursionError, MemoryError, OverflowError) as failure:
            raise Untranslatable(f"it is no Python: {str(failure)[:200] or 'it is nested too deeply'}") from None
        self._nodes = list(ast.walk(tree))
        self._constants = _constants(tree)
        self._aliases = {
            alias.asname: alias.name.rpartition(".")[2]
            for node in self._nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            if alias.asname
        }
        self._left = _MAX_VALUES
        self._settings = sorted(self._find_settings(), key=lambda found: found.line)

    def entries(self) -> Iterator[CeleryEntry]:
        """The entries of all schedules in it, in their order."""
        calls = [
            node for node in self._nodes if isinstance(node, ast.Call) and _last_name(node.func) == "add_periodic_task"
        ]
        # A module often gives its schedule a name, and then gives that name to Celery.
        schedules = {id(self._resolved(each.value)): each for each in self._settings if each.name in _SCHEDULES}
        found = [entry for setting in schedules.values() for entry in self._of(setting)]
        for call in calls:
            reason = Untranslatable(
                f"line {call.lineno}: add_periodic_task names its task by an object of the program; write an entry "
                'with its name: beat_schedule = {"name": {"task": "module.function", "schedule": crontab(hour=3)}}'
            )
            found.append(CeleryEntry(call.lineno, "add_periodic_task", call, reason))
        yield from sorted(found, key=lambda entry: entry.line)

    def timezone(self) -> str | None:
        """The zone of the schedule; None if it is the machine's own. Raises `Untranslatable` if it cannot be read."""
        zone = self._last(_ZONES)
        if zone is not None and not isinstance(zone, str):
            raise Untranslatable("the setting `timezone` is no text")
        return zone or (None if self._last(_UTC) is False else "UTC")

    def _last(self, names: frozenset[str]) -> Any:
        nodes = [setting.value for setting in self._settings if setting.name in names]
        return self.value(nodes[-1]) if nodes else None

    # ----------------------------------------------------------------------------------------- finding the settings

    def _find_settings(self) -> Iterator[CeleryEntry]:
        for node in self._nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from self._assigned(target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
                yield from self._assigned(node.target, node.value)
            elif isinstance(node, ast.Call) and _last_name(node.func) == "update":
                yield from self._updated(node)

    def _assigned(self, target: ast.expr, value: ast.expr) -> Iterator[CeleryEntry]:
        name = _last_name(target)
        if name in _SETTINGS:
            yield CeleryEntry(target.lineno, name, value)
        elif isinstance(target, ast.Subscript) and (outer := _last_name(target.value)) in _SCHEDULES:
            # beat_schedule["nightly"] = {…}: an entry by itself.
            entry = ast.Dict(keys=[target.slice], values=[value])
            yield CeleryEntry(target.lineno, outer, ast.copy_location(entry, target))

    def _updated(self, call: ast.Call) -> Iterator[CeleryEntry]:
        """`app.conf.update(beat_schedule=…)`, `app.conf.update({"beat_schedule": …})`, `beat_schedule.update({…})`."""
        if isinstance(call.func, ast.Attribute) and (name := _last_name(call.func.value)) in _SCHEDULES:
            for value in call.args:
                yield CeleryEntry(value.lineno, name, value)
            return
        pairs = [(keyword.arg or "", keyword.value) for keyword in call.keywords]
        for argument in call.args:
            if isinstance(argument, ast.Dict):
                pairs += [
                    (key.value, value)
                    for key, value in zip(argument.keys, argument.values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
        for name, value in pairs:
            if name.lower() in _SETTINGS:
                yield CeleryEntry(value.lineno, name.lower(), value)

    def _of(self, setting: CeleryEntry) -> Iterator[CeleryEntry]:
        """The entries of one schedule."""
        node = self._resolved(setting.value)
        if not isinstance(node, ast.Dict):
            yield CeleryEntry(
                setting.line, setting.name, node, self._no_literal(node, 'a dictionary: {"name": {"task": …}}')
            )
            return
        for key, value in zip(node.keys, node.values, strict=True):
            name = key.value if isinstance(key, ast.Constant) else None
            if isinstance(name, str):
                yield CeleryEntry(value.lineno if key is None else key.lineno, name, value)
            else:
                place = value if key is None else key
                yield CeleryEntry(
                    place.lineno, setting.name, value, self._no_literal(place, "the name of an entry as a text")
                )

    # ------------------------------------------------------------------------------------------- working out values

    def _resolved(self, node: ast.expr) -> ast.expr:
        """The value of a name, if the module binds it once."""
        for _ in range(_MAX_NESTING):
            if not isinstance(node, ast.Name) or node.id not in self._constants:
                break
            node = self._constants[node.id]
        return node

    def _no_literal(self, node: ast.expr, instead: str) -> Untranslatable:
        return Untranslatable(
            f"line {node.lineno}: {shown_source(node)!a} is known only when the program runs, which an import does "
            f"not do; write {instead}"
        )

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression: plain values, `Crontab`, `Interval`. Raises `Untranslatable`."""
        self._left -= 1
        if depth > _MAX_NESTING or self._left < 0:
            raise Untranslatable(f"line {node.lineno}: it is nested too deeply or too large; write it out")
        node = self._resolved(node)
        inner = depth + 1
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [self.value(item, inner) for item in node.elts]
        if isinstance(node, ast.Dict):
            return self._dictionary(node, inner)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._number(node.operand, inner)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return self._calculated(node, inner)
        if isinstance(node, ast.Call):
            return self._called(node, inner)
        raise self._no_literal(node, "its value")

    def _dictionary(self, node: ast.Dict, depth: int) -> dict[str, Any]:
        found = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = None if key is None else self.value(key, depth)
            if not isinstance(name, str):
                raise self._no_literal(value if key is None else key, "a text as the name")
            found[name] = self.value(value, depth)
        return found

    def _number(self, node: ast.expr, depth: int) -> float | int:
        return self._as_number(self.value(node, depth), node)

    def _as_number(self, value: Any, node: ast.expr) -> float | int:
        if isinstance(value, Interval):
            return value.seconds
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_NUMBER:
            raise self._no_literal(node, "a number")
        return value

    def _calculated(self, node: ast.BinOp, depth: int) -> Any:
        operands = self.value(node.left, depth), self.value(node.right, depth)
        left, right = (self._as_number(operand, node) for operand in operands)
        if isinstance(node.op, ast.Div) and right == 0:
            raise self._no_literal(node, "a number that is not divided by 0")
        result = _OPERATIONS[type(node.op)](left, right)
        # timedelta(minutes=5) * 2 is a span of time again.
        return Interval(float(result)) if any(isinstance(operand, Interval) for operand in operands) else result

    def _called(self, node: ast.Call, depth: int) -> Any:
        name = _last_name(node.func)
        name = self._aliases.get(name, name)
        if any(keyword.arg is None for keyword in node.keywords) or any(
            isinstance(each, ast.Starred) for each in node.args
        ):
            raise self._no_literal(node, "each argument by itself")
        given = {str(keyword.arg): keyword.value for keyword in node.keywords}
        if name == "crontab":
            return self._crontab(node, given, depth)
        if name == "from_string" and len(node.args) == 1:
            return crontab_of_line(str(self.value(node.args[0], depth)))
        if name == "timedelta":
            return self._span(node, given, depth)
        if name in ("schedule", "float", "int", "maybe_schedule"):
            return self._interval(node, given, depth)
        if name == "dict" and not node.args:
            return {key: self.value(value, depth) for key, value in given.items()}
        if name in ("set", "frozenset", "list", "tuple") and len(node.args) == 1 and not given:
            return self.value(node.args[0], depth)
        if name == "solar":
            raise Untranslatable(
                f"line {node.lineno}: a schedule by the sun has no cron line; write a fixed time, such as "
                "crontab(minute=0, hour=6), and let the task wait or check"
            )
        raise self._no_literal(node, "its value")

    def _crontab(self, node: ast.Call, given: dict[str, ast.expr], depth: int) -> Crontab:
        if len(node.args) > len(CRONTAB_FIELDS):
            raise self._no_literal(node, "crontab(…) with at most five arguments")
        fields = {**dict(zip(CRONTAB_FIELDS, node.args, strict=False)), **given}
        fields.pop("app", None)
        unknown = [name for name in fields if name not in CRONTAB_FIELDS]
        if unknown:
            raise Untranslatable(f"line {node.lineno}: crontab's {unknown[0][:40]} has no counterpart; leave it out")
        return Crontab(**{name: self.value(value, depth) for name, value in fields.items()})

    def _span(self, node: ast.Call, given: dict[str, ast.expr], depth: int) -> Interval:
        fields = {**dict(zip(_SPAN_SECONDS, node.args, strict=False)), **given}
        if len(node.args) > len(_SPAN_SECONDS) or any(name not in _SPAN_SECONDS for name in fields):
            raise self._no_literal(node, "timedelta(…) with days, hours, minutes, seconds")
        return Interval(math.fsum(self._number(value, depth) * _SPAN_SECONDS[name] for name, value in fields.items()))

    def _interval(self, node: ast.Call, given: dict[str, ast.expr], depth: int) -> Any:
        """`schedule(run_every=…)`; and `float(…)` of a number."""
        every = node.args[0] if node.args else given.get("run_every")
        if every is None:
            raise self._no_literal(node, "schedule(run_every=60.0)")
        value = self.value(every, depth)
        if isinstance(value, Crontab):
            return value
        relative = given.get("relative") or (node.args[1] if len(node.args) > 1 else None)
        return Interval(float(self._number(every, depth)), relative is not None and bool(self.value(relative, depth)))


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The names that the module binds once, at its top, to an expression."""
    bound: dict[str, list[ast.expr]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            bound.setdefault(node.target.id, []).append(node.value)
    return {name: values[0] for name, values in bound.items() if len(values) == 1}


def _last_name(node: ast.expr) -> str:
    """`beat_schedule` of `app.conf.beat_schedule` and of `settings["BEAT_SCHEDULE"]`: settings are compared in small
    letters."""
    name: object = ""
    if isinstance(node, ast.Attribute):
        name = node.attr
    elif isinstance(node, ast.Name):
        name = node.id
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        name = node.slice.value
    if not isinstance(name, str):
        return ""
    return name.lower() if name.isupper() else name


def shown_source(node: ast.expr) -> str:
    """An expression for people."""
    if sum(1 for _ in islice(ast.walk(node), _NODES_SHOWN + 1)) > _NODES_SHOWN:
        return "…"
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return "…"
    return text if len(text) <= 100 else text[:99] + "…"
