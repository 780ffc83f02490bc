"""The files that travel with a task: in the task itself, or stored apart by their digests.

    {"files": {"dates.py": "…"}}  ──apart──►  {"files": {"dates.py": {"sha256": "…"}}}  +  the contents by digest

Pure functions over checked tasks.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

FILES: Final = "files"
SHA256: Final = "sha256"
BASE64: Final = "base64"


class TaskApart(NamedTuple):
    """A task whose files are stored apart."""

    task: dict[str, Any]
    contents: Mapping[str, bytes]
    """By digest."""


def file_content(said: Any) -> bytes | None:
    """The content of a file; None: it is stored apart."""
    if isinstance(said, str):
        return said.encode()
    text = said.get(BASE64)
    return None if text is None else base64.b64decode(text)


def files_bytes(task: Mapping[str, Any]) -> int:
    """The bytes of all contents that stand in the task, as they stand there."""
    found = (said if isinstance(said, str) else said.get(BASE64, "") for said in task.get(FILES, {}).values())
    return sum(len(text.encode()) for text in found)


def stored_digests(task: Mapping[str, Any]) -> Sequence[str]:
    """The digests of the files that are stored apart."""
    files = task.get(FILES)
    if not isinstance(files, Mapping):
        return ()
    return [said[SHA256] for said in files.values() if isinstance(said, Mapping) and SHA256 in said]


def apart(task: Mapping[str, Any]) -> TaskApart:
    """The task with the digests of its files in place of their contents."""
    contents: dict[str, bytes] = {}
    files: dict[str, Any] = {}
    for name, said in task.get(FILES, {}).items():
        content = file_content(said)
        if content is None:
            files[name] = said
            continue
        digest = hashlib.sha256(content).hexdigest()
        contents[digest] = content
        files[name] = {SHA256: digest}
    return TaskApart({**task, FILES: files} if files else dict(task), contents)
