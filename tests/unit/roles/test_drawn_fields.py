"""The bodies that are drawn from declared fields hold each value to its declaration."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tickwise.documents.drawn_fields import with_sent_fields
from tickwise.domain.job_fields import JobField

SITE = JobField(
    name="site", kind=str, default=None, after="name", max_length=30, pattern=r"^https?://[^\s/?#]\S*$(?!\n)"
)


class Named(msgspec.Struct):
    """A body with one field of its own."""

    name: str = ""


BODY: Any = with_sent_fields([SITE])(Named)


@pytest.mark.parametrize("text", ["https://example.org/a", "http://example.org", None])
def test_a_text_of_the_declared_form_is_taken(text: str | None) -> None:
    """Also `null`, which means the default."""
    assert text == msgspec.convert({"site": text}, BODY).site


@pytest.mark.parametrize(
    "text", ["", "https://", "ftp://example.org", "javascript:alert(1)", "https://a b", "https://a\n"]
)
def test_a_text_of_another_form_is_refused(text: str) -> None:
    """With the place of the field."""
    with pytest.raises(msgspec.ValidationError, match=r"matching regex .* at `\$\.site`"):
        msgspec.convert({"site": text}, BODY)


def test_the_json_schema_has_the_form_beside_the_length() -> None:
    """Clients can check a text before they send it."""
    said = msgspec.json.schema(BODY)["$defs"]["Named"]["properties"]["site"]
    [text] = [each for each in said["anyOf"] if each["type"] == "string"]
    assert (SITE.pattern, SITE.max_length) == (text["pattern"], text["maxLength"])
