"""The policies of a job in words: those that it sets itself, and all others with their defaults. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tickwise.documents.definition import Definition
from tickwise.domain.zones import zone_named
from tickwise.ports.store import JobRow
from tickwise.web.editing.fields import BOUNDS, CLOCK_CHANGES, DEFAULTS, POLICIES, FormField, Input
from tickwise.web.editing.form import body_of_job, texts_of
from tickwise.web.editing.values import duration_text, written

COUNTED: Final = ("concurrency", "rate")
"""Objects whose fields make one sentence."""
_UNSAID: Final = "none"


class PolicyText(NamedTuple):
    """A policy of a job."""

    label: str
    text: str


class PolicyTexts(NamedTuple):
    """The policies of a job."""

    own: list[PolicyText]
    """Those that differ from the default."""
    rest: list[PolicyText]
    """All others, as they are by default."""


def policy_texts(row: JobRow, definition: Definition) -> PolicyTexts:
    """All policies of a job."""
    body = body_of_job(row, definition)
    said = texts_of(body)
    own = [PolicyText(label, text) for label, text in _counted(body)]
    rest = []
    for field in _fields():
        text = said.get(field.name, "")
        if text and text != _default(field) and not _is_usual(field, text):
            own.append(PolicyText(field.label, _words(field, text)))
        else:
            rest.append(PolicyText(field.label, _words(field, _default(field)) or _usual(field) or _UNSAID))
    return PolicyTexts(own, rest)


def _fields() -> Iterator[FormField]:
    for group in (BOUNDS, CLOCK_CHANGES, *(fields for _, _, fields in POLICIES)):
        yield from (field for field in group if field.name.partition(".")[0] not in COUNTED)


def _default(field: FormField) -> str:
    value = DEFAULTS.get(field.name)
    return "" if value is None else written(field, value, zone_named("UTC"))


def _usual(field: FormField) -> str:
    """The value that its input shows while it is empty; of lists and texts that is an example, and no value."""
    return field.placeholder if field.input in (Input.DURATION, Input.WHOLE, Input.NUMBER, Input.TEXT) else ""


def _is_usual(field: FormField, text: str) -> bool:
    """Check whether a value is that of an empty input. A stored object has all of its values."""
    usual = _usual(field)
    return text == usual or (field.input is Input.NUMBER and bool(usual) and float(text) == float(usual))


def _words(field: FormField, text: str) -> str:
    """The value as people read it: of a choice its words, several lines as one."""
    if field.input is Input.CHOICE:
        return dict(field.choices).get(text, text)
    return ", ".join(text.splitlines())


def _counted(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The limits that are counted over several runs, a sentence each."""
    limit, rate = body["concurrency"], body["rate"]
    if limit:
        yield "Concurrency", f"at most {_runs(limit['limit'], 'run')} at once{_over(limit)}"
    if rate:
        per = duration_text(rate.get("per_seconds", 1.0))
        yield "Rate", f"at most {_runs(rate['limit'], 'start')} in {per}{_over(rate)}"


def _runs(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _over(said: Mapping[str, Any]) -> str:
    key = said.get("key", "job")
    return " of this job" if key == "job" else f", counted over {key}"
