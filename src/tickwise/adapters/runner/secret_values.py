"""The values of secrets on their way into a task, and out of what it says.

    Assignment.secrets ──variables_of──────► environment of the task alone
                       ──write_secret_files► <folder>/secrets/0, 1, …   0400, gone with the folder
                       ──forms_for─────────► masks in output, errors and results

Invariant: a value is in no argument and in no text of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.identity_file import hidden_texts
from tickwise.domain.errors import Invalid
from tickwise.domain.secrets.output_masking import ValueForms, maskable
from tickwise.domain.secrets.references import Injection, SecretReference, read_reference
from tickwise.ports.runner import Assignment, Ending

FOLDER: Final = "secrets"
"""In the folder of an attempt."""
MAX_VARIABLE_BYTES: Final = 128 << 10
"""Linux takes no longer variable, its name included."""


def has_secret_files(assignment: Assignment) -> bool:
    """Check whether a task gets secrets as files."""
    return any(text.startswith(f"{Injection.FILE}:") for text in assignment.secrets)


def unfit(assignment: Assignment) -> str | None:
    """The reason that a variable of the task cannot hold its secret, for people; None: each can."""
    for name, text in assignment.task.get("env", {}).items():
        value = assignment.secrets.get(text)
        reference = None if value is None else _reference(text)
        if value is None or reference is None or reference.injection is Injection.FILE:
            continue
        cure = f"write secret-file:{text.partition(':')[2]}, and read the file that the variable names"
        if b"\0" in value:
            return f"the variable {name} cannot hold {text}, which has a zero byte; {cure}"
        if len(name) + len(value) + 2 > MAX_VARIABLE_BYTES:
            return f"the variable {name} cannot hold {text}, which has {len(value)} bytes; {cure}"
    return None


def variables_of(assignment: Assignment, folder: Path) -> dict[str, str]:
    """The variables that a task sets itself, with its secrets. `folder`: of the attempt, as the task sees it."""
    variables: Mapping[str, str] = assignment.task.get("env", {})
    if not assignment.secrets:
        return dict(variables)
    files = {text: str(folder / FOLDER / name) for name, text in secret_files(assignment)}
    values = {text: value.decode(errors="surrogateescape") for text, value in assignment.secrets.items()} | files
    return {name: values.get(text, text) for name, text in variables.items()}


def write_secret_files(assignment: Assignment, folder: Path) -> None:
    """Lay the secrets that are files into the folder of an attempt. Blocking. Raises `OSError`."""
    if not has_secret_files(assignment):
        return
    place = folder / FOLDER
    place.mkdir(mode=0o700)
    for name, text in secret_files(assignment):
        file = place / name
        file.touch(mode=0o600, exist_ok=False)
        file.write_bytes(assignment.secrets[text])
        file.chmod(0o400)


def secret_files(assignment: Assignment) -> Iterator[tuple[str, str]]:
    """The files of a task by name, and the reference of each."""
    texts = (text for text in assignment.secrets if text.startswith(f"{Injection.FILE}:"))
    return ((str(place), text) for place, text in enumerate(texts))


def _reference(text: str) -> SecretReference | None:
    try:
        return read_reference(text)
    except Invalid:
        return None


def forms_for(assignment: Assignment) -> ValueForms | None:
    """The forms of its secrets and of its identity token; None: it has none."""
    hidden = (*assignment.secrets.values(), *hidden_texts(assignment))
    return ValueForms(hidden) if hidden else None


def notes_on(assignment: Assignment) -> list[str]:
    """The lines about the secrets that cannot be masked in its output; empty: there are none."""
    lines = []
    for text, value in assignment.secrets.items():
        reason = maskable(value)
        if reason is not None:
            lines.append(f"[{text} is not masked in this output: {reason}]")
    return lines


def masked_ending(ending: Ending, forms: ValueForms | None) -> Ending:
    """An ending without the values of secrets."""
    if forms is None:
        return ending
    return ending._replace(
        error=None if ending.error is None else forms.masked_text(ending.error),
        result=None if ending.result is None else forms.masked_json(ending.result),
        symptoms=tuple(map(forms.masked_text, ending.symptoms)),
    )
