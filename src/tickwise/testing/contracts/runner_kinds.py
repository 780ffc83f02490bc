"""A kind of task: it checks what a user writes, once, and so that a stored task keeps its meaning."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pytest

from tickwise.domain.errors import Invalid
from tickwise.domain.retry import FAILURES
from tickwise.ports.runner import KindWithReasons, TaskKind, TaskLimits
from tickwise.testing.contracts.base import Contract

STRANGE_VALUES: Final[Sequence[Any]] = (
    None, True, 0, -1, 1.5, 10**40, "", " ", "\0", "\ud800", "x" * 100_000, [], [None], [[]], {}, {"": None},
)  # fmt: skip
"""JSON that somebody may send for any field."""


class TaskKindContract(Contract):
    """The promises of `TaskKind`. The adapter's class provides the fixtures `kind` and `tasks`: tasks of that kind as a
    user may write them, which name all of its fields between them."""

    def taken(self, kind: TaskKind, task: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The checked task; None if it is refused, which must be with a pointer to a field or into it."""
        try:
            return kind.check(task)
        except Invalid as error:
            refused = error
        assert (refused.pointer or "").startswith("/"), f"no pointer: {refused.detail}"
        return None

    def test_a_checked_task_is_kept_as_it_is(self, kind: TaskKind, tasks: Sequence[Mapping[str, Any]]) -> None:
        """A stored task is checked again when it is submitted again: the meaning must not move."""
        assert tasks
        for task in tasks:
            checked = kind.check(task)
            assert kind.name == checked["kind"]
            assert checked == kind.check(checked)
            assert checked == msgspec.json.decode(msgspec.json.encode(checked)), "it is stored as JSON"

    def test_its_own_reasons_are_no_general_ones(self, kind: TaskKind) -> None:
        """A general reason stands in each list of reasons already. A kind may name none at all."""
        reasons = list(kind.reasons) if isinstance(kind, KindWithReasons) else []
        assert len(reasons) == len(set(reasons))
        assert not set(reasons) & FAILURES

    def test_a_check_changes_nothing_in_its_argument(self, kind: TaskKind, tasks: Sequence[Mapping[str, Any]]) -> None:
        """The caller still answers with it."""
        for task in tasks:
            before = copy.deepcopy(task)
            kind.check(task)
            assert before == task

    def test_an_unknown_field_is_refused_by_its_name(self, kind: TaskKind, tasks: Sequence[Mapping[str, Any]]) -> None:
        """The pointer is a JSON pointer (RFC 6901)."""
        for task in tasks:
            for name, pointer in (("fieldz", "/fieldz"), ("a/b~c", "/a~1b~0c")):
                with pytest.raises(Invalid) as refused:
                    kind.check({**task, name: 1})
                assert pointer == refused.value.pointer

    def test_any_json_is_taken_or_refused(self, kind: TaskKind, tasks: Sequence[Mapping[str, Any]]) -> None:
        """No text of a user's raises anything but `Invalid`."""
        for task in tasks:
            for name in task.keys() - {"kind"}:
                for value in STRANGE_VALUES:
                    self.taken(kind, {**task, name: value})

    def test_a_missing_field_has_a_default_or_is_asked_for(
        self, kind: TaskKind, tasks: Sequence[Mapping[str, Any]]
    ) -> None:
        """The checked task names the default, so a later release with another one changes no stored job."""
        for task in tasks:
            for missing in task.keys() - {"kind"}:
                checked = self.taken(kind, {name: value for name, value in task.items() if name != missing})
                assert checked is None or checked == kind.check(checked)

    def test_the_schema_describes_the_whole_task(self, kind: TaskKind, tasks: Sequence[Mapping[str, Any]]) -> None:
        """With its kind and each of its fields, and it is JSON."""
        schema = msgspec.json.decode(msgspec.json.encode(kind.schema))
        assert schema == kind.schema
        assert "object" == schema["type"]
        assert {"const": kind.name} == schema["properties"]["kind"]
        assert "kind" in schema["required"]
        assert False is schema["additionalProperties"]
        named = {"kind", *(name for task in tasks for name in kind.check(task))}
        assert set(schema["properties"]) == named, "the tasks of this suite must name every field between them"

    def test_the_limits_are_limits_of_a_task(self, kind: TaskKind) -> None:
        """A job that sets another one is refused."""
        assert set() == set(kind.limits) - set(TaskLimits._fields)
