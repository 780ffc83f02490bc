"""Tasks in the form of a job: each kind has inputs of its own, and one that the form does not know is written as JSON.

Invariant: reading what was written gives the same task; where it would not, the task is written as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tickwise.domain.errors import Invalid
from tickwise.web.editing.fields import OF_PROCESSES, PYTHON, SURROUNDINGS, TASKS, FormField
from tickwise.web.editing.http_tasks import http_task, http_texts, is_http
from tickwise.web.json_text import pretty_value

Task = dict[str, Any]
"""`{"task": {...}}`, or `{"taskId": "..."}`."""

INPUTS: Final = tuple(field.name for fields in (*TASKS.values(), SURROUNDINGS) for field in fields)


def fields_of(kind: str) -> Sequence[FormField]:
    """The inputs that say what a task of this kind of the form is."""
    around = [each for each in SURROUNDINGS if kind == "python" or each is not PYTHON]
    return (*TASKS[kind], *(around if kind in OF_PROCESSES else ()))


def task_of(said: Mapping[str, str]) -> Task:
    """The task of a form. Raises `Invalid`."""
    kind = said.get("kind", "")
    if kind not in TASKS:
        raise Invalid("choose what it runs", pointer="/task/kind")
    fields = fields_of(kind)
    for each in fields:
        if len(said.get(each.name, "")) > each.most:
            raise Invalid(f"at most {each.most} characters", pointer=f"/{each.name.replace('.', '/')}")
    first = fields[0].name
    if not said.get(first, "").strip():
        raise Invalid("this is missing", pointer=f"/{first.replace('.', '/')}")
    match kind:
        case "shell":
            return {"task": {"kind": "shell", "command": said[first], **_surroundings(kind, said)}}
        case "argv":
            argv = said[first].rstrip("\n").split("\n")
            return {"task": {"kind": "shell", "argv": argv, **_surroundings(kind, said)}}
        case "python":
            return {"task": {"kind": "python", "source": said[first], **_surroundings(kind, said)}}
        case "function":
            return {"task": {"kind": "function", "name": said[first].strip()}}
        case "stored":
            return {"taskId": said[first].strip()}
        case "http":
            return {"task": http_task(said)}
        case _:
            return {"task": _json(said[first])}


def _surroundings(kind: str, said: Mapping[str, str]) -> dict[str, Any]:
    """The interpreter, folder, variables and files that a form says, without those that say nothing."""
    found: dict[str, Any] = {}
    for name in ("python", "directory"):
        text = said.get(f"task.{name}", "").strip()
        if text and (kind == "python" or name != "python"):
            found[name] = text
    env = {}
    for line in said.get("task.env", "").splitlines():
        name, sign, value = line.partition("=")
        if line.strip() and not (sign and name.strip()):
            raise Invalid("write each variable as NAME=value", pointer="/task/env")
        if line.strip():
            env[name.strip()] = value
    files = said.get("task.files", "").strip()
    if files:
        try:
            found["files"] = msgspec.json.decode(files)
        except (ValueError, RecursionError) as fault:
            raise Invalid(f"this is no JSON: {fault}", pointer="/task/files") from None
    return found | ({"env": env} if env else {})


def _json(text: str) -> Any:
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError) as fault:
        raise Invalid(f"this is no JSON: {fault}", pointer="/task") from None
    if not isinstance(found, dict):
        raise Invalid('a task is an object such as {"kind": "shell", "command": "date"}', pointer="/task")
    return found


def task_texts(task: Task) -> dict[str, str]:
    """The texts of the inputs for a task."""
    found = _texts(task)
    try:
        exact = task_of(found) == task
    except Invalid:
        exact = False
    if not exact and task:
        found = {"kind": "json", "task": pretty_value(task.get("task", {}))}
    return {**dict.fromkeys(INPUTS, ""), "task.method": "GET", "kind": "shell", **found}


def _texts(task: Task) -> dict[str, str]:
    match task:
        case {"taskId": str(name)}:
            return {"kind": "stored", "taskId": name}
    said = task.get("task", {})
    match said:
        case {"kind": "shell", "command": str(command)}:
            return {"kind": "shell", "task.command": command, **_surrounding_texts(said)}
        case {"kind": "shell", "argv": [*argv]} if all(isinstance(each, str) for each in argv):
            return {"kind": "argv", "task.argv": "\n".join(argv), **_surrounding_texts(said)}
        case {"kind": "python", "source": str(source)}:
            return {"kind": "python", "task.source": source, **_surrounding_texts(said)}
        case {"kind": "function", "name": str(name)}:
            return {"kind": "function", "task.name": name}
        case {"kind": "http", "url": str()} if is_http(said):
            return http_texts(said)
    return {}


def _surrounding_texts(task: Mapping[str, Any]) -> dict[str, str]:
    """The texts of these fields. What they cannot hold reads as another task, so that is written as JSON."""
    found = {f"task.{name}": text for name in ("python", "directory") if isinstance(text := task.get(name), str)}
    env, files = task.get("env"), task.get("files")
    if isinstance(env, dict):
        found["task.env"] = "\n".join(f"{name}={value}" for name, value in env.items())
    if files is not None:
        found["task.files"] = pretty_value(files)
    return found
