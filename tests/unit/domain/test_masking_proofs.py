"""Secrets of http tasks in parameters, signatures, sign-ins and certificates: what is masked, and put back where."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.domain.audit_masking import changed
from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK, masked, restored

SECRETS = ("whsec_new", "whsec_old", "client-s3cr3t", "PEM KEY", "q-s3cr3t", "f-s3cr3t")


def task(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "http",
        "method": "POST",
        "url": "https://example.com/hook",
        "headers": {},
        "expect": ["2xx"],
        "query": {"access_token": "q-s3cr3t", "page": "2"},
        "form": {"password": "f-s3cr3t", "name": "ada"},
        "sign": {"secrets": ["whsec_new", "whsec_old"]},
        "oauth": {
            "token_url": "https://login.example.com/token",
            "client_id": "me",
            "client_secret": "client-s3cr3t",
            "authentication": "client_secret_basic",
        },
        "tls": {"certificate": "PEM", "key": "PEM KEY", "ca": "PEM CA"},
        **changes,
    }


def test_no_secret_is_shown() -> None:
    """Each is masked, and the rest is shown."""
    shown = masked(task())
    assert [] == [secret for secret in SECRETS if secret in str(shown)]
    assert {"access_token": MASK, "page": "2"} == shown["query"]
    assert {"password": MASK, "name": "ada"} == shown["form"]
    assert {"secrets": [MASK, MASK]} == shown["sign"]
    assert {"certificate": "PEM", "key": MASK, "ca": "PEM CA"} == shown["tls"]
    assert ("me", MASK) == (shown["oauth"]["client_id"], shown["oauth"]["client_secret"])


def test_an_answer_that_is_sent_back_changes_nothing() -> None:
    """All secrets are put back."""
    assert task() == restored(masked(task()), task())


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (["***"], ["whsec_new"]),
        (["whsec_next", "***"], ["whsec_next", "whsec_new"]),
        (["***", "whsec_next"], ["whsec_new", "whsec_next"]),
        (["whsec_a", "whsec_b"], ["whsec_a", "whsec_b"]),
    ],
)
def test_a_new_secret_goes_before_the_stored_one(sent: list[str], stored: list[str]) -> None:
    """The masks stand for the stored ones in their order: so one is changed without knowing the other."""
    assert stored == restored(task(sign={"secrets": sent}), task())["sign"]["secrets"]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"url": "https://evil.example/hook"}, "/query/access_token"),
        ({"url": "http://example.com/hook"}, "/query/access_token"),
        ({"url": "https://example.com:444/hook"}, "/query/access_token"),
        ({"url": "https://evil.example/", "query": {}, "form": {}}, "/sign/secrets/0"),
        ({"url": "https://evil.example/", "query": {}, "form": {}, "sign": None}, "/oauth/client_secret"),
        ({"url": "https://evil.example/", "query": {}, "form": {}, "sign": None, "oauth": None}, "/tls/key"),
        ({"query": {"api_key": MASK}}, "/query/api_key"),
        ({"sign": {"secrets": [MASK, MASK, MASK]}}, "/sign/secrets/2"),
    ],
)
def test_a_secret_goes_nowhere_else(changes: dict[str, Any], pointer: str) -> None:
    """A person that may change the job and does not know the secret cannot send it to another host."""
    with pytest.raises(Invalid) as refused:
        restored({**masked(task()), **changes}, task())
    assert (pointer, "secret_masked") == (refused.value.pointer, refused.value.code)


@pytest.mark.parametrize("url", ["https://evil.example/token", "http://login.example.com/token", "nonsense"])
def test_the_secret_of_a_client_goes_to_its_server_alone(url: str) -> None:
    """Though the task still calls the same address."""
    sent = dict(masked(task()))
    sent["oauth"] = {**sent["oauth"], "token_url": url}
    with pytest.raises(Invalid) as refused:
        restored(sent, task())
    assert "/oauth/client_secret" == refused.value.pointer
    moved = {**sent["oauth"], "token_url": "https://login.example.com/v2/token"}
    assert "client-s3cr3t" == restored({**sent, "oauth": moved}, task())["oauth"]["client_secret"]


@pytest.mark.parametrize("field", ["query", "form", "sign", "oauth", "tls"])
@pytest.mark.parametrize(
    "strange", [None, 7, "***", [], ["***"], {}, {"secrets": "***"}, {"key": 7}, {"token_url": []}]
)
def test_what_cannot_be_read_is_left_to_its_check(field: str, strange: Any) -> None:
    """Nothing but `Invalid` is raised."""
    try:
        restored({**masked(task()), field: strange}, task())
    except Invalid as refusal:
        if refusal.code != "secret_masked":
            raise


def test_the_audit_log_has_no_secret() -> None:
    """Neither of the task that was, nor of the one that is."""
    said = changed({"task": task()}, {"task": task(url="https://other.example/")})
    assert [] == [secret for secret in SECRETS if secret in f"{said.before} {said.after}"]
    new = changed(None, {"task": task()})
    assert [] == [secret for secret in SECRETS if secret in str(new.after)]
