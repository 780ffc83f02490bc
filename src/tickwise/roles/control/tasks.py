"""Tasks: checking what is said of one, and keeping those that many jobs share.

A stored script goes into the blobs under its SHA-256, so the same text is kept once whoever stores it; the task
then names it. A job that says `taskId` gets the task's newest version, for good: later versions do not change it.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.ports.blobs import script_key
from tickwise.ports.runner import TaskKind, TaskLimits
from tickwise.ports.store import StoredTask
from tickwise.roles.control.bodies import TaskBody, decode_object
from tickwise.roles.control.core import Core, clean_id, clean_text

REMEMBERED_TASKS: Final = 1_024
REMEMBERED_BYTES: Final = 4_096
"""Checked tasks up to this size are remembered: the same few come again and again, and a script's check compiles it."""

_encode = msgspec.json.Encoder().encode


class CheckedTask(NamedTuple):
    """A task that was found good, in its long form."""

    kind: str
    text: msgspec.Raw
    function: str | None
    """The function's name, for the kind `function`."""


class TaskCheck:
    """Asks the kinds, and remembers what they said."""

    def __init__(self, kinds: Mapping[str, TaskKind]) -> None:
        self._kinds = kinds
        self._remembered: dict[bytes, CheckedTask] = {}

    def __call__(self, task: bytes) -> CheckedTask:
        """The task in its long form. Raises `Invalid` with a pointer below `/task`."""
        known = self._remembered.get(task)
        if known is not None:
            return known
        checked = self._ask(task)
        if len(task) <= REMEMBERED_BYTES:
            if len(self._remembered) >= REMEMBERED_TASKS:
                self._remembered.clear()
            self._remembered[task] = checked
        return checked

    def function(self, name: str) -> CheckedTask:
        """The task that runs the registered function of this name."""
        return self(_encode({"kind": "function", "name": name}))

    def limits(self, kind: str) -> Collection[str]:
        """What tasks of this kind can be held to; of one that is not known here, everything."""
        strategy = self._kinds.get(kind)
        return TaskLimits._fields if strategy is None else strategy.limits

    def _ask(self, task: bytes) -> CheckedTask:
        said = _decoded(task)
        kind = said.get("kind")
        if not isinstance(kind, str):
            known = ", ".join(sorted(self._kinds))
            raise Invalid(f"a task says its kind, one of {known}", pointer="/task/kind")
        strategy = self._kinds.get(kind)
        if strategy is None:
            raise Invalid(f"there is no task kind {kind[:50]!r}; {self._nearest(kind)}", pointer="/task/kind")
        try:
            normal = strategy.check(said)
        except Invalid as refusal:
            refusal.pointer = "/task" + (refusal.pointer or "")
            raise
        return CheckedTask(kind, msgspec.Raw(_encode(normal)), normal["name"] if kind == "function" else None)

    def _nearest(self, kind: str) -> str:
        near = difflib.get_close_matches(kind, self._kinds, n=1)
        return f"did you mean {near[0]}?" if near else f"write one of {', '.join(sorted(self._kinds))}"


def _decoded(task: bytes) -> dict[str, Any]:
    try:
        said = decode_object(task)
    except (ValueError, RecursionError) as failure:
        raise Invalid(f"the task cannot be read: {failure}", pointer="/task") from None
    if said is None:
        raise Invalid('a task is an object such as {"kind": "shell", "command": "date"}', pointer="/task")
    return said


def stored_as_checked(stored: StoredTask) -> CheckedTask:
    """A stored task was checked when it came in."""
    said = msgspec.json.decode(stored.task)
    return CheckedTask(
        said["kind"], msgspec.Raw(stored.task.encode()), said.get("name") if said["kind"] == "function" else None
    )


class Tasks(Core):
    """Stored tasks."""

    _check_task: TaskCheck

    async def task_put(self, who: Principal, body: TaskBody) -> StoredTask:
        """Keep a task as a new version; the content of the newest version again is that version."""
        if (body.task is UNSET) == (body.script is UNSET):
            raise Invalid("send either task or script", pointer="/task")
        if body.name is UNSET and body.task_id is UNSET:
            raise Invalid("a stored task needs a name, or a taskId that serves as one", pointer="/name")
        name = clean_text(body.name if body.name is not UNSET else str(body.task_id), "/name")
        task_id = clean_id(body.task_id if body.task_id is not UNSET else name, "/taskId")
        checked = self._check_task(_script_task(body))
        normal: dict[str, Any] = msgspec.json.decode(checked.text)
        source = normal.get("source")
        if checked.kind == "python" and isinstance(source, str):
            content = source.encode()
            digest = hashlib.sha256(content).hexdigest()
            await self._blobs.put(script_key(digest), content)
            normal = {
                **{field: value for field, value in normal.items() if field != "source"},
                "file": f"sha256:{digest}",
            }
        text = _encode(normal)
        task = StoredTask(
            namespace=who.namespace,
            task_id=task_id,
            version=0,
            name=name,
            task=text.decode(),
            digest=hashlib.sha256(name.encode() + b"\0" + text).hexdigest(),
            created_by=who.name,
            created_at=await self._time.now(),
        )
        return await self._surely(lambda: self._store.task_put(task))

    async def task_get(self, who: Principal, task_id: str, version: int | None = None) -> StoredTask:
        """One version, or the newest. Raises `NotFound`."""
        found = None
        if "\0" not in task_id:
            found = await self._store.task_get(who.namespace, task_id, version)
        if found is None:
            which = "" if version is None else f" in version {version}"
            raise NotFound(f"no task {task_id[:200]!r} is stored{which}")
        return found

    async def tasks_list(self, who: Principal, after: str | None, limit: int) -> Sequence[StoredTask]:
        """The newest version of each, by id."""
        return await self._store.tasks_list(who.namespace, after, limit)


def _script_task(body: TaskBody) -> bytes:
    if body.script is not UNSET:
        return _encode({"kind": "python", "source": body.script})
    return bytes(body.task)  # type: ignore[arg-type]  # UNSET was refused before
