"""The references in tasks: where they stand, which are refused, and what is shown of them."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.domain.audit_masking import shown
from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK, masked, restored
from tickwise.domain.secrets.places import check_references, is_shown, references_in


def http(**fields: Any) -> dict[str, Any]:
    """A checked task."""
    return {"kind": "http", "method": "POST", "url": "https://example.com/", "headers": {}, "expect": ["2xx"], **fields}


def test_every_reference_of_a_task_is_found_once() -> None:
    """In variables, and in each place of a request; templates only where the task has them."""
    env = {"A": "secret:a", "B": "secret-file:a", "C": "secret:a", "D": "a secret:d", "E": "plain"}
    assert ("secret:a", "secret-file:a") == references_in({"kind": "shell", "command": "secret:x", "env": env})
    task = http(
        templates=True,
        headers={"X": 'Bearer {{ secret.h }} {{secret."vault:a/b#c"}} {{ secret.d.e }}', "Y": "secret:y"},
        query={"q": ["secret:q", 1]},
        body={"deep": [{"er": "secret:body"}, "{{ payload.secret }}"]},
        sign={"secrets": ["secret:new", "whsec_x"]},
        oauth={"client_secret": "secret:client", "token_url": "https://t/"},
        tls={"key": "secret:key"},
    )
    expected = {"secret:h", "secret:vault:a/b#c", "secret:d.e", "secret:y", "secret:q", "secret:body", "secret:new"}
    assert expected | {"secret:client", "secret:key"} == set(references_in(task))
    assert () == references_in(http(headers={"X": "{{ secret.h }}"}))


def test_an_unknown_provider_is_refused_with_those_that_there_are() -> None:
    """Where the process knows them."""
    task = {"kind": "shell", "env": {"A/B": "secret:vault:a"}}
    check_references(task)
    check_references(task, ["", "vault"])
    with pytest.raises(Invalid) as refused:
        check_references(task, ["", "files"])
    assert ("/env/A~1B", "secret_provider_unknown") == (refused.value.pointer, refused.value.code)
    assert "`files`" in refused.value.detail


@pytest.mark.parametrize(
    "text",
    ["secret:a", "secret:vault:a/b#c", "Bearer {{ secret.a }}", "{{secret.a}}", "token={{ secret.a }}"],
)
def test_a_reference_is_answered_as_it_is(text: str) -> None:
    """In a header that is masked otherwise, a secret parameter, and the fields of proofs."""
    task = http(
        headers={"Authorization": text},
        query={"token": text},
        sign={"secrets": [text]},
        oauth={"client_secret": text, "token_url": "https://t/"},
        tls={"key": text},
    )
    assert task == masked(task)
    assert restored(masked(task), None) == task


@pytest.mark.parametrize(
    "text",
    ["Bearer abc{{ secret.a }}", "{{ secret.a }}abc", "{{ payload.a }}", "secret:", "secret:-", "secrets:a", "x"],
)
def test_what_may_hold_a_value_beside_the_reference_stays_masked(text: str) -> None:
    """Nobody can tell which part of it is secret."""
    assert not is_shown(text)
    assert {"Authorization": MASK} == masked(http(headers={"Authorization": text}))["headers"]


def test_masks_of_signing_secrets_stand_for_those_that_were_masked() -> None:
    """A reference between them was answered as it is."""
    stored = http(sign={"secrets": ["secret:new", "whsec_old"]})
    assert ["secret:new", MASK] == masked(stored)["sign"]["secrets"]
    assert ["secret:new", "whsec_old"] == restored(masked(stored), stored)["sign"]["secrets"]
    assert ["secret:newest", "whsec_old"] == restored(http(sign={"secrets": ["secret:newest", MASK]}), stored)["sign"][
        "secrets"
    ]


def test_the_audit_log_shows_references_and_no_values() -> None:
    """A change from one secret to another can be seen."""
    text = shown({"task": {"kind": "shell", "env": {"A": "secret:a", "B": "value"}}})
    assert text is not None
    assert '"secret:a"' in text
    assert "value" not in text
