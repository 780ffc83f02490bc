"""A text with a pattern has that form to its end: a newline after it is a part of the text."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest

from tickwise.api.resources.runs import Cursor, ExecutorId
from tickwise.control.bodies import JobBody

decode: Final = msgspec.json.Decoder(JobBody).decode


@pytest.mark.parametrize("field", [{"queue": "nightly\n"}, {"requires": ["gpu\n"]}, {"requires": ["gpu=a\n"]}], ids=str)
def test_a_newline_at_the_end_is_refused(field: dict[str, Any]) -> None:
    """It would be another queue, which looks the same in every list."""
    body = {"name": "a", "task": {"kind": "shell", "command": "date"}}
    decode(json.dumps(body | {name: _without(value) for name, value in field.items()}))
    with pytest.raises(msgspec.ValidationError, match="regex"):
        decode(json.dumps(body | field))


@pytest.mark.parametrize(("kind", "text"), [(Cursor, "abc"), (ExecutorId, "12")])
def test_a_parameter_with_a_newline_is_refused(kind: Any, text: str) -> None:
    """Its address would not be the one that was asked for."""
    assert msgspec.convert(text, kind) == text
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.convert(f"{text}\n", kind)


def _without(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else [each.strip() for each in value]
