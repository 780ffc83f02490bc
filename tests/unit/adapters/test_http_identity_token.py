"""An identity token in an http task: in headers alone, and only of a job that asks for one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.adapters.test_http_templates import check
from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.adapters.runner.calls.rendering import TemplateValueError
from tickwise.adapters.runner.http.composing import first_request
from tickwise.adapters.runner.secret_values import forms_for
from tickwise.domain.errors import Invalid
from tickwise.ports.runner import Assignment
from tickwise.testing.contracts.runner import assignment

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJuczpkZWZhdWx0In0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
BEARER = {"Authorization": "Bearer {{ identity_token }}"}


def attempt(token: str | None, **task: Any) -> Assignment:
    return assignment(check(**task))._replace(identity_token=token)


def test_a_header_has_the_token() -> None:
    request = first_request(attempt(TOKEN, headers=BEARER), HttpAccess(), now=0.0)
    assert f"Bearer {TOKEN}" == request.headers["Authorization"]


def test_without_a_token_nothing_is_sent() -> None:
    """The message names the field of the job that is missing."""
    with pytest.raises(TemplateValueError, match="identity_token"):
        first_request(attempt(None, headers=BEARER), HttpAccess(), now=0.0)


@pytest.mark.parametrize(
    "task",
    [
        {"url": "https://example.com/{{ identity_token }}"},
        {"url": "https://example.com/?t={{ identity_token }}"},
        {"query": {"t": "{{ identity_token }}"}},
        {"method": "POST", "body": {"t": "{{ identity_token }}"}},
        {"method": "POST", "form": {"t": "{{ identity_token }}"}},
        {"headers": {"Host": "{{ identity_token }}"}},
        {"headers": {"A": '{{ identity_token | default("none") }}'}},
        {"headers": {"A": "{{ identity_token.sub }}"}},
    ],
)
def test_another_place_is_refused_when_the_task_is_stored(task: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        check(**task)


def test_the_token_is_masked_in_what_the_attempt_says() -> None:
    """Also one that took its place meanwhile."""
    forms = forms_for(attempt(TOKEN, headers=BEARER))
    assert forms is not None
    assert TOKEN not in forms.masked_text(f"401 for {TOKEN}")
    renewed = TOKEN[::-1]
    assert renewed in forms.masked_text(renewed)
    forms.add(renewed.encode())
    assert renewed not in forms.masked_text(f"x{renewed}y")
    assert forms_for(attempt(None, headers=BEARER)) is None
