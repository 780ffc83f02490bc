"""The kind `container`: a program of an image, run in a container of its own. Light: the API loads it without any
runner.

    {"kind": "container", "image": "ghcr.io/acme/etl:1", "command": ["load", "--all"], "env": {"REGION": "eu"},
     "mounts": [{"source": "/srv/data", "target": "/data"}], "pull": "missing"}

A `command` that is a list is what the image's entry point gets; a text is a script for the image's /bin/sh.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from tickwise.adapters.runner.checks import json_type, refuse_unknown, text
from tickwise.adapters.runner.container.references import MAX_IMAGE, read_image
from tickwise.adapters.runner.containers import CONTAINER_LIMITS, CONTAINER_REASONS
from tickwise.adapters.runner.surroundings import MAX_PATH, SCHEMAS, surroundings
from tickwise.domain.errors import Invalid

MAX_ARGUMENTS: Final = 1_000
MAX_ARGUMENT: Final = 100_000
MAX_MOUNTS: Final = 20
MAX_CPUS: Final = 1_024.0
PULLS: Final = ("missing", "always", "never")
OWN_FOLDER: Final = "/tickwise"
"""The folder of Tickwise in each container."""
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MOUNT_FIELDS: Final = ("source", "target", "read_only")
_ARGUMENTS_SCHEMA: Final = MappingProxyType({
    "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_ARGUMENTS,
})  # fmt: skip


class ContainerKind:
    """`{"kind": "container", "image", "command", …}`: a program of an image, in a container."""

    name: ClassVar[str] = "container"
    limits: ClassVar[Collection[str]] = CONTAINER_LIMITS
    reasons: ClassVar[Collection[str]] = CONTAINER_REASONS
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "kind": {"const": "container"},
            "image": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_IMAGE,
                "description": "The image: `python:3.12`, `ghcr.io/acme/etl:1`, or with a digest `…@sha256:…`. "
                "Executors run images that their setting `container_images` allows.",
            },
            "command": {
                "anyOf": [{"type": ["string", "null"], "minLength": 1}, dict(_ARGUMENTS_SCHEMA)],
                "description": "An array: the arguments of the entry point. A text: a script for the image's "
                "`/bin/sh`. Default: the image's own.",
            },
            "entrypoint": {
                "anyOf": [{"type": "null"}, dict(_ARGUMENTS_SCHEMA)],
                "description": "The program with its first arguments, in the place of the image's entry point.",
            },
            "env": dict(SCHEMAS["env"]),
            "working_dir": {
                "type": ["string", "null"],
                "pattern": "^/",
                "maxLength": MAX_PATH,
                "description": "The current folder in the container. Default: the image's own.",
            },
            "user": {
                "type": ["string", "null"],
                "pattern": f"^{_USER.pattern}$",
                "description": "A user of the image, or numbers: `1000:1000`. Default: the image's own; 65534:65534 "
                "where that is root or not said.",
            },
            "mounts": {
                "type": ["array", "null"],
                "maxItems": MAX_MOUNTS,
                "description": "Folders of the engine's host. Each must be in the setting `container_mounts` of the "
                "executor.",
                "items": {
                    "type": "object",
                    "properties": {
                        "source": {"type": "string", "pattern": "^/"},
                        "target": {"type": "string", "pattern": "^/"},
                        "read_only": {"type": "boolean", "default": True},
                    },
                    "required": ["source", "target"],
                    "additionalProperties": False,
                },
            },
            "pull": {
                "enum": [*PULLS, None],
                "default": "missing",
                "description": "`missing`: the image is pulled if it is not there; `always`: before each run; `never`.",
            },
            "cpus": {
                "type": ["number", "null"],
                "exclusiveMinimum": 0,
                "maximum": MAX_CPUS,
                "description": "The most processors that it uses at once: `0.5`, `2`. Default: no limit.",
            },
        },
        "required": ["kind", "image"],
        "additionalProperties": False,
    }

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        refuse_unknown(task, self.schema["properties"])
        checked: dict[str, Any] = {
            "kind": self.name,
            "image": checked_image(text(task, "image", characters_most=MAX_IMAGE)),
        }
        if task.get("entrypoint") is not None:
            checked["entrypoint"] = _arguments(task["entrypoint"], "entrypoint")
        if task.get("command") is not None:
            checked["command"] = _command(task)
        checked |= surroundings({"env": task.get("env")}, own_script="")
        if task.get("working_dir") is not None:
            checked["working_dir"] = _folder(task["working_dir"], "/working_dir")
        if task.get("user") is not None:
            checked["user"] = _user(task["user"])
        if task.get("mounts") is not None:
            checked["mounts"] = _mounts(task["mounts"])
        checked["pull"] = _pull(task.get("pull"))
        if task.get("cpus") is not None:
            checked["cpus"] = _cpus(task["cpus"])
        return checked


def checked_image(name: str, pointer: str = "/image") -> str:
    """The name of an image. Raises `Invalid`."""
    try:
        read_image(name)
    except Invalid as wrong:
        raise Invalid(wrong.detail, pointer=pointer) from None
    return name


def _arguments(said: Any, name: str) -> list[str]:
    pointer = f"/{name}"
    if not isinstance(said, list | tuple) or not said:
        raise Invalid(f"`{name}` must be an array of texts that is not empty", pointer=pointer)
    if len(said) > MAX_ARGUMENTS:
        raise Invalid(f"`{name}` has {len(said)} items, {MAX_ARGUMENTS} are the most", pointer=pointer)
    for place, argument in enumerate(said):
        if not isinstance(argument, str) or len(argument) > MAX_ARGUMENT or not _is_argument(argument):
            raise Invalid(
                f"each item must be a text of at most {MAX_ARGUMENT} characters, without NUL",
                pointer=f"{pointer}/{place}",
            )
    return list(said)


def _is_argument(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in argument


def _command(task: Mapping[str, Any]) -> str | list[str]:
    said = task["command"]
    if not isinstance(said, str):
        return _arguments(said, "command")
    if task.get("entrypoint") is not None:
        raise Invalid(
            "a command that is a text runs in the image's /bin/sh; with an entry point, write it as an array",
            pointer="/command",
        )
    if not _is_argument(said):
        raise Invalid("`command` holds half of a surrogate pair, or NUL", pointer="/command")
    return text(task, "command", characters_most=MAX_ARGUMENT)


def _folder(said: Any, pointer: str) -> str:
    if not isinstance(said, str) or not said.startswith("/") or len(said) > MAX_PATH or _CONTROL.search(said):
        raise Invalid("a folder is a whole path, from / on, without control characters", pointer=pointer)
    if not _is_argument(said) or any(part in (".", "..") for part in said.split("/")) or "//" in said:
        raise Invalid("a folder is written without . and .. and //", pointer=pointer)
    return said if said == "/" else said.rstrip("/")


def _user(said: Any) -> str:
    if not isinstance(said, str) or not _USER.fullmatch(said):
        raise Invalid("`user` is a name or a number, perhaps with a group: app, 1000, 1000:1000", pointer="/user")
    return said


def _mounts(said: Any) -> list[dict[str, Any]]:
    if not isinstance(said, list | tuple):
        raise Invalid(f"`mounts` must be an array, not {json_type(said)}", pointer="/mounts")
    if len(said) > MAX_MOUNTS:
        raise Invalid(f"`mounts` has {len(said)} items, {MAX_MOUNTS} are the most", pointer="/mounts")
    found = [_mount(each, f"/mounts/{place}") for place, each in enumerate(said)]
    targets: Sequence[str] = [each["target"] for each in found]
    if len(set(targets)) != len(targets):
        raise Invalid("two mounts have one target", pointer="/mounts")
    return found


def _mount(said: Any, pointer: str) -> dict[str, Any]:
    if not isinstance(said, Mapping) or any(name not in _MOUNT_FIELDS for name in said):
        raise Invalid('a mount is {"source": "/srv/data", "target": "/data", "read_only": true}', pointer=pointer)
    read_only = said.get("read_only", True)
    if not isinstance(read_only, bool):
        raise Invalid("`read_only` is true or false", pointer=f"{pointer}/read_only")
    target = _folder(said.get("target"), f"{pointer}/target")
    if target == "/" or target == OWN_FOLDER or target.startswith(f"{OWN_FOLDER}/"):
        raise Invalid(f"nothing is mounted over {target}", pointer=f"{pointer}/target")
    return {"source": _folder(said.get("source"), f"{pointer}/source"), "target": target, "read_only": read_only}


def _pull(said: Any) -> str:
    if said is None:
        return PULLS[0]
    if said not in PULLS:
        raise Invalid(f"`pull` must be one of {', '.join(PULLS)}", pointer="/pull")
    return str(said)


def _cpus(said: Any) -> float | int:
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0.01 <= said <= MAX_CPUS:
        raise Invalid(f"`cpus` is a number from 0.01 to {MAX_CPUS:g}", pointer="/cpus")
    return said
