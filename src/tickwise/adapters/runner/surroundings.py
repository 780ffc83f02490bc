"""The surroundings of a script or a command: its interpreter, its folder, the files that travel with it, its variables.

    {"kind": "python", "source": …, "python": "/srv/venv/bin/python", "directory": "/srv/reports",
     "files": {"helpers/dates.py": "…", "logo.png": {"base64": "…"}}, "env": {"REGION": "eu"}}

The fields of both kinds with a process of their own, and the checks of each. A file with its content here is kept
apart when the task is stored (`{"sha256": …}`). Light: the API loads it without any runner.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tickwise.adapters.runner.checks import json_type
from tickwise.domain.errors import Invalid
from tickwise.domain.secrets.references import Injection, read_reference

PYTHON: Final = "python"
START: Final = "start"
STARTS: Final = ("cold", "warm")
SURROUNDINGS: Final = ("directory", "files", "env")

MAX_PATH: Final = 1_000
MAX_FILES: Final = 100
MAX_FILES_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 10
"""Folders in the name of a file."""
MAX_VARIABLES: Final = 100
MAX_ENV_CHARACTERS: Final = 64 << 10
"""Names and values of all variables. Linux takes 128 kB for one."""
REFERENCES: Final = tuple(f"{each}:" for each in Injection)
OWN_VARIABLES: Final = "TICKWISE_"

_PROGRAM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LOADER: Final = re.compile(r"LD_.*|BASH_ENV|ENV|GLIBC_TUNABLES|GCONV_PATH")
"""Variables that the loader or a shell obeys before the limits of a task are set."""

SCHEMAS: Final[Mapping[str, Any]] = MappingProxyType({
    "directory": {
        "type": ["string", "null"],
        "pattern": "^/",
        "maxLength": MAX_PATH,
        "description": "The current folder of the task, a whole path on the executor. Default: a folder of its own.",
    },
    "files": {
        "type": ["object", "null"],
        "maxProperties": MAX_FILES,
        "description": "Files that lie in the task's own folder when it begins, by name (`helpers/dates.py`): modules "
        "to import, data to read. A text is written as UTF-8; other content as `{\"base64\": …}`.",
        "additionalProperties": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"base64": {"type": "string"}},
                    "required": ["base64"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"sha256": {"type": "string", "pattern": f"^{_DIGEST.pattern}$"}},
                    "required": ["sha256"],
                    "additionalProperties": False,
                    "description": "Content that was stored with a task, by its digest.",
                },
            ]
        },
    },
    "env": {
        "type": ["object", "null"],
        "maxProperties": MAX_VARIABLES,
        "additionalProperties": {"type": "string"},
        "description": "Environment variables. Names that begin with `TICKWISE_` are reserved. A value `secret:NAME` "
        "is that of a secret, `secret-file:NAME` the path of a file that holds it.",
    },
})  # fmt: skip
PYTHON_SCHEMA: Final[Mapping[str, Any]] = MappingProxyType({
    "type": ["string", "null"],
    "maxLength": MAX_PATH,
    "description": "The interpreter that runs the script, Python 3.9 or newer: a whole path on the executor, or the "
    "name of a program on its PATH (`python3.12`). Default: the Python of the executor.",
})  # fmt: skip
START_SCHEMA: Final[Mapping[str, Any]] = MappingProxyType({
    "enum": [*STARTS, None],
    "description": "`cold`: the script begins in a fresh interpreter. `warm`: it is forked from one that has begun, "
    "and waits for that if need be. Default: warm where scripts of its interpreter come often and nothing is against "
    "it.",
})  # fmt: skip


def surroundings(task: Mapping[str, Any], *, own_script: str) -> dict[str, Any]:
    """The fields `directory`, `files` and `env` of a task, checked; those that say nothing are left out. `own_script`:
    the name of its script among its files. Raises `Invalid`."""
    found: dict[str, Any] = {}
    if task.get("directory") is not None:
        found["directory"] = _whole_path(task["directory"], "directory")
    if task.get("files") is not None:
        found["files"] = _files(task["files"], own_script)
    if task.get("env") is not None:
        found["env"] = _env(task["env"])
    return {name: value for name, value in found.items() if value}


def checked_python(python: Any) -> str:
    """The interpreter of a script. Raises `Invalid`."""
    if isinstance(python, str) and _PROGRAM.fullmatch(python):
        return python
    return _whole_path(python, PYTHON, or_else=", or the name of a program such as python3.12")


def checked_start(start: Any) -> str:
    """The way in which a script starts. Raises `Invalid`."""
    if start not in STARTS:
        raise Invalid(f"`start` must be one of {', '.join(STARTS)}", pointer=f"/{START}")
    return str(start)


def _whole_path(path: Any, name: str, *, or_else: str = "") -> str:
    pointer = f"/{name}"
    if not isinstance(path, str):
        raise Invalid(f"`{name}` must be a text, not {json_type(path)}", pointer=pointer)
    if not path.startswith("/"):
        raise Invalid(f"`{name}` must be a whole path on the executor, from / on{or_else}", pointer=pointer)
    if len(path) > MAX_PATH:
        raise Invalid(f"`{name}` has {len(path)} characters, {MAX_PATH} are the most", pointer=pointer)
    if _CONTROL.search(path) or not _is_unicode(path):
        raise Invalid(f"`{name}` holds a control character, or half of a surrogate pair", pointer=pointer)
    return path


# ---------------------------------------------------------------------------------------- files


def _files(files: Any, own_script: str) -> dict[str, Any]:
    if not isinstance(files, Mapping):
        raise Invalid(f"`files` must be an object of contents by name, not {json_type(files)}", pointer="/files")
    if len(files) > MAX_FILES:
        raise Invalid(f"`files` has {len(files)} files, {MAX_FILES} are the most", pointer="/files")
    total = 0
    for name, said in files.items():
        _check_name(name, own_script)
        total += _size(name, said)
        if total > MAX_FILES_BYTES:
            raise Invalid(
                f"`files` has more than {MAX_FILES_BYTES} bytes; let the task fetch what is larger, or lay it on the "
                "executors and name its folder by `directory`",
                pointer="/files",
                code="script_too_large",
            )
    folders = {
        "/".join(parts[:count]) for parts in (name.split("/") for name in files) for count in range(1, len(parts))
    }
    for name in files:
        if name in folders:
            raise Invalid(f"{name} is a file and a folder at once", pointer=_pointer("files", name))
    return {str(name): dict(said) if isinstance(said, Mapping) else said for name, said in files.items()}


def _check_name(name: Any, own_script: str) -> None:
    pointer = "/files"
    if not isinstance(name, str) or not name or not _is_unicode(name) or _CONTROL.search(name):
        raise Invalid("the name of a file is a text without control characters", pointer=pointer)
    pointer = _pointer("files", name)
    parts = name.split("/")
    if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise Invalid(
            f"{name[:100]!r} is no name of a file in the task's folder: write it such as helpers/dates.py",
            pointer=pointer,
        )
    if len(parts) > MAX_DEPTH or len(name) > MAX_PATH or any(len(part.encode()) > 255 for part in parts):
        raise Invalid(f"the name {name[:100]!r} is too long, or has more than {MAX_DEPTH} folders", pointer=pointer)
    if name == own_script:
        raise Invalid(f"{name} is the name of the task's own script; call the file otherwise", pointer=pointer)


def _size(name: str, said: Any) -> int:
    """The bytes of a file; of one that is stored apart none are counted, for they were when it was stored."""
    pointer = _pointer("files", name)
    if isinstance(said, str):
        if not _is_unicode(said):
            raise Invalid("the text holds half of a surrogate pair", pointer=pointer)
        return len(said.encode())
    if isinstance(said, Mapping) and len(said) == 1:
        text, digest = said.get("base64"), said.get("sha256")
        if isinstance(text, str):
            try:
                return len(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError) as error:
                raise Invalid(f"this is no base64: {error}", pointer=pointer) from None
        if isinstance(digest, str) and _DIGEST.fullmatch(digest):
            return 0
    raise Invalid('the content of a file is a text, or {"base64": "…"} if it is none', pointer=pointer)


# ---------------------------------------------------------------------------------------- variables


def _env(env: Any) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise Invalid(f"`env` must be an object of texts by name, not {json_type(env)}", pointer="/env")
    if len(env) > MAX_VARIABLES:
        raise Invalid(f"`env` has {len(env)} variables, {MAX_VARIABLES} are the most", pointer="/env")
    for name, value in env.items():
        _check_variable(name, value)
    total = sum(len(name) + len(value) for name, value in env.items())
    if total > MAX_ENV_CHARACTERS:
        raise Invalid(
            f"`env` has {total} characters, {MAX_ENV_CHARACTERS} are the most; hand larger values over in `files` or "
            "in the payload",
            pointer="/env",
        )
    return dict(env)


def _check_variable(name: Any, value: Any) -> None:
    if not isinstance(name, str) or not name or "=" in name or _CONTROL.search(name) or not _is_unicode(name):
        # Where a name and its value were run together, the name holds the value.
        raise Invalid("the name of a variable is a text without `=` and control characters", pointer="/env")
    pointer = _pointer("env", name)
    if name.upper().startswith(OWN_VARIABLES):
        raise Invalid(f"{name[:100]} is reserved: Tickwise sets what begins with {OWN_VARIABLES}", pointer=pointer)
    if _LOADER.fullmatch(name):
        raise Invalid(
            f"{name[:100]} would take effect before the limits of the task; set it inside: "
            f"export {name[:100]}=… in a shell command",
            pointer=pointer,
        )
    if not isinstance(value, str):
        raise Invalid(f"the value of {name[:100]} must be a text, not {json_type(value)}", pointer=pointer)
    if "\0" in value or not _is_unicode(value):
        raise Invalid(f"the value of {name[:100]} holds NUL, or half of a surrogate pair", pointer=pointer)
    if value.startswith(REFERENCES):
        try:
            read_reference(value)
        except Invalid as refusal:
            refusal.pointer = pointer
            raise


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pointer(field: str, name: str) -> str:
    return f"/{field}/" + name[:200].replace("~", "~0").replace("/", "~1")
