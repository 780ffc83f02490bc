"""Columns of the runs list that take one value out of the payload, the result or a label of each run.

    col=payload.customer.id, result.items.0, label.team      ──►      3 more columns, kept in the address

Invariant: a value behind a name of a secret is never shown (`domain.masking`), also inside of a value that is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from tickwise.control.runs.payloads import run_payload
from tickwise.documents.definition import decode_definition
from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK, is_secret_name
from tickwise.ports.store import JobRow, RunRow

COLUMNS_MAX: Final = 6
COLUMN_CHARACTERS_MAX: Final = 200
TEXT_MAX: Final = 80
SUGGESTED_MAX: Final = 30
DEPTH_MAX: Final = 20


class ColumnSource(StrEnum):
    """The part of a run that a value is taken from."""

    PAYLOAD = "payload"
    RESULT = "result"
    LABEL = "label"


class Column(NamedTuple):
    """One column."""

    source: ColumnSource
    path: tuple[str, ...]
    """Names of fields and places in lists; of a label its name."""

    @property
    def title(self) -> str:
        """As the address has it."""
        return ".".join((self.source, *self.path))


def columns_of(said: str) -> list[Column]:
    """The columns of an address. Raises `Invalid`."""
    found: list[Column] = []
    for each in said.split(","):
        text = each.strip()
        if not text:
            continue
        source, _, rest = text.partition(".")
        if source not in list(ColumnSource) or not rest or len(text) > COLUMN_CHARACTERS_MAX:
            raise Invalid("write a column as payload.NAME, result.NAME or label.NAME", pointer="/col")
        path = (rest,) if source == ColumnSource.LABEL else tuple(rest.split("."))
        column = Column(ColumnSource(source), path)
        if column not in found:
            found.append(column)
    if len(found) > COLUMNS_MAX:
        raise Invalid(f"at most {COLUMNS_MAX} columns", pointer="/col")
    return found


class Values:
    """Looks up values of the runs of one page. A payload that several runs share is read once."""

    def __init__(self, jobs: Mapping[Any, JobRow]) -> None:
        """`jobs` by their ids: those of the page that the visitor may see."""
        self._jobs = jobs
        self._payloads: dict[Any, Any] = {}
        self._own: dict[Any, Any] = {}
        self._results: dict[Any, Any] = {}

    def text(self, run: RunRow, column: Column) -> str | None:
        """The value as text; None: there is none."""
        if any(is_secret_name(name) for name in (*column.path, ".".join(column.path))):
            return MASK
        found = _at(self._whole(run, column.source), column.path)
        return None if found is None else _written(found)

    def suggested(self, runs: Iterable[RunRow]) -> list[str]:
        """Columns that these runs have a value for."""
        found: dict[str, None] = {}
        for run in runs:
            for source in ColumnSource:
                whole = self._whole(run, source)
                if isinstance(whole, Mapping):
                    names = [name for name in whole if isinstance(name, str) and "," not in name and name]
                    found |= {f"{source}.{name}": None for name in names if not is_secret_name(name)}
        return list(found)[:SUGGESTED_MAX]

    def _whole(self, run: RunRow, source: ColumnSource) -> Any:
        job = self._jobs.get(run.job_id)
        if source is ColumnSource.PAYLOAD:
            return self._payload(run, job)
        if source is ColumnSource.RESULT:
            if run.run_id not in self._results:
                self._results[run.run_id] = _decoded(run.result)
            return self._results[run.run_id]
        return {} if job is None else job.labels

    def _payload(self, run: RunRow, job: JobRow | None) -> Any:
        own = run_payload(run)
        if own is not None:
            if run.run_id not in self._own:
                self._own[run.run_id] = _decoded(bytes(own))
            return self._own[run.run_id]
        if job is None:
            return None
        if run.job_id not in self._payloads:
            payload = decode_definition(job.definition).payload
            self._payloads[run.job_id] = None if payload is None else _decoded(bytes(payload))
        return self._payloads[run.job_id]


def _decoded(text: str | bytes | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _at(value: Any, path: Sequence[str]) -> Any:
    """The value at a path. A label is found by its whole name, and so is a field whose name has dots."""
    for place, name in enumerate(path):
        if isinstance(value, Mapping):
            rest = ".".join(path[place:])
            if rest in value:
                return value[rest]
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 7:
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


def _written(value: Any) -> str:
    """The beginning of a value as text. No more of it is looked at than is shown: a payload may be a megabyte, and a
    page has hundreds of cells."""
    if isinstance(value, str):
        text = value[: TEXT_MAX + 1]
    else:
        text = ""
        for part in _parts(value, DEPTH_MAX):
            text += part
            if len(text) > TEXT_MAX:
                break
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _parts(value: Any, depth: int) -> Iterator[str]:
    """A value as JSON without its secrets, from the beginning on."""
    if isinstance(value, str):
        # The end of a long text is cut off with its quote.
        yield _json(value[: TEXT_MAX + 1])
    elif not isinstance(value, Mapping | list):
        yield _json(value)
    elif depth == 0:
        yield '"…"'
    elif isinstance(value, list):
        yield "["
        for place, each in enumerate(value):
            yield "," if place else ""
            yield from _parts(each, depth - 1)
        yield "]"
    else:
        yield "{"
        for place, (name, each) in enumerate(value.items()):
            yield ("," if place else "") + _json(str(name)[: TEXT_MAX + 1]) + ":"
            yield from _parts(MASK if is_secret_name(str(name)) else each, depth - 1)
        yield "}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
