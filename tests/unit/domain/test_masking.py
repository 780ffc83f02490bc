"""Secrets in http tasks: what is masked, and what is put back where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK, masked, masked_url, restored

SECRET = "s3cr3t-value"
NAMES = [
    "Authorization", "authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "apikey", "X-Auth-Token",
    "X-Access-Token", "Private-Token", "X-Amz-Security-Token", "X-Goog-Api-Key", "X-Vault-Token", "X-Auth",
    "Ocp-Apim-Subscription-Key", "X-Functions-Key", "X-Hub-Signature-256", "X-Client-Secret", "X-Password",
    "X-JWT", "X-Pin", "Key", "X-Signature", "PIN", "X-Acme", "Referer", "Idempotency-Key", "X-Request-Id",
]  # fmt: skip
PLAIN = ["Content-Type", "accept", "User-Agent", "ACCEPT-LANGUAGE", "If-None-Match", "Content-Language", "Range"]


def http(url: str = "https://example.com/hook", **headers: str) -> dict[str, Any]:
    return {"kind": "http", "method": "POST", "url": url, "headers": headers, "expect": ["2xx"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_header_that_may_carry_a_secret_is_masked(name: str) -> None:
    """Its value is nowhere, its name stays: whatever it is called, unless it is known to be harmless."""
    shown = masked(http(**{name: f"Bearer {SECRET}"}))
    assert {name: MASK} == shown["headers"]
    assert SECRET not in str(shown)


@pytest.mark.parametrize("name", PLAIN)
def test_a_header_that_carries_none_is_shown(name: str) -> None:
    """Who debugs a request needs to see it."""
    assert {name: "plain"} == masked(http(**{name: "plain"}))["headers"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:pw@example.com/a", "https://***@example.com/a"),
        ("https://token@example.com:8443/a?b=c", "https://***@example.com:8443/a?b=c"),
        ("https://example.com/?token=x&page=2", "https://example.com/?token=***&page=2"),
        ("https://example.com/?api_key=x&API-KEY=y&sig=z", "https://example.com/?api_key=***&API-KEY=***&sig=***"),
        ("https://example.com/?access%5Ftoken=x", "https://example.com/?access%5Ftoken=***"),
        ("https://example.com/?keyword=a&monkey=b&author=c", "https://example.com/?keyword=a&monkey=b&author=c"),
        ("https://example.com/?token", "https://example.com/?token"),
        ("https://[::1]:80/x?code=1#top", "https://[::1]:80/x?code=***#***"),
        ("https://example.com/#", "https://example.com/#"),
        ("https://example.com/#access_token=x", "https://example.com/#***"),
        ("https://example.com/#?token=x&b#y", "https://example.com/#***"),
        ("https://example.com/a;jsessionid=x/b;v=1", "https://example.com/a;jsessionid=***/b;v=1"),
        ("https://example.com/a;v=1;token=x;rest", "https://example.com/a;v=1;token=***"),
        ("https://example.com/?a=1;token=x;b&c=2", "https://example.com/?a=1;token=***&c=2"),
        ("https://example.com/?token=x;y&c=2", "https://example.com/?token=***&c=2"),
        ("https://example.com/?a?token=x?y", "https://example.com/?a?token=***"),
        (
            "https://example.com/?userPin=1&x-jwt=2&X.Key=3&pin=4",
            "https://example.com/?userPin=***&x-jwt=***&X.Key=***&pin=***",
        ),
        ("https://example.com/?next=https://ada:pw@b.example/", "https://example.com/?next=***"),
        ("https://example.com/?next=https%3A%2F%2Fada%3Apw%40b.example", "https://example.com/?next=***"),
        ("https://example.com/?next=https%3A%2F%2Fb.example%2F%3Fpage%3D1%26key%3Dx", "https://example.com/?next=***"),
        (
            "https://example.com/?next=https%3A%2F%2Fb.example%2F%3Fpage%3D1",
            "https://example.com/?next=https%3A%2F%2Fb.example%2F%3Fpage%3D1",
        ),
        ("https://example.com/get/https://ada:p@w@b.example/c", "https://example.com/get/https://***@b.example/c"),
        ("https://example.com/~ada/@types/a@b", "https://example.com/~ada/@types/a@b"),
        ("http://ada:pw@[::1/", "http://***@[::1/"),
    ],
)
def test_an_address_is_shown_without_user_password_and_secret_parameters(url: str, shown: str) -> None:
    """The rest of it is as it is written."""
    assert shown == masked_url(url)


@pytest.mark.parametrize("task", [{"kind": "shell", "command": "curl -H 'Authorization: x'"}, {"kind": "python"}])
def test_a_task_of_another_kind_is_as_it_is(task: dict[str, Any]) -> None:
    """Nothing is guessed of texts."""
    assert masked(task) is task
    assert restored(task, None) is task


words = st.text(alphabet="ab*=&%+ ", max_size=6)
parameters = st.lists(st.tuples(st.sampled_from(["token", "page", "sig", "access%5Ftoken"]), words), max_size=5)


addresses = st.lists(
    st.sampled_from(["/", "//", ";", "?", "#", "&", "=", "@", ":", "token", "a", "%40", MASK, "*"]), max_size=12
).map("".join)


@given(begin=st.sampled_from(["/", "//", "?", "#"]), rest=addresses)
def test_an_address_of_any_shape_is_put_back_whole(begin: str, rest: str) -> None:
    """What was masked and is sent again is what it was, also with a mask in the middle of it."""
    task = http("https://example.com" + begin + rest)
    shown = masked(task)
    assert task == restored(shown, task)
    assert masked(shown) == shown


@given(
    user=st.sampled_from(["", "ada:pw@", "token@"]),
    pairs=parameters,
    headers=st.dictionaries(
        st.sampled_from([*NAMES, *PLAIN]), st.text(alphabet="ab *", min_size=1, max_size=6), max_size=4
    ),
)
def test_what_was_masked_is_put_back_whole(user: str, pairs: list[tuple[str, str]], headers: dict[str, str]) -> None:
    """Read, sent again unchanged, and it is what it was: whatever the secrets are."""
    query = "&".join(f"{name}={value.replace('&', '')}" for name, value in pairs)
    task = http(f"https://{user}example.com/hook" + (f"?{query}" if query else ""), **headers)
    assert task == restored(masked(task), task)


def test_a_secret_stays_while_the_rest_is_changed() -> None:
    """Another path and body, a header in other letters, one more parameter before it."""
    before = http("https://ada:pw@example.com/a?token=one&token=two", Authorization=SECRET)
    sent = http("https://***@EXAMPLE.com:443/b?x=1&token=***&token=new", authorization=MASK, Accept="*/*")
    found = restored(sent, before)
    assert "https://ada:pw@EXAMPLE.com:443/b?x=1&token=one&token=new" == found["url"]
    assert {"authorization": SECRET, "Accept": "*/*"} == found["headers"]


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/hook",
        "http://example.com/hook",
        "https://example.com:444/hook",
        "https://example.com.evil/",
    ],
)
def test_a_secret_is_sent_nowhere_else(url: str) -> None:
    """Another scheme, host or port: whoever changes that must know the secret."""
    with pytest.raises(Invalid, match="send the secret itself") as refused:
        restored(http(url, Authorization=MASK), http(Authorization=SECRET))
    assert ("secret_masked", "/headers/Authorization") == (refused.value.code, refused.value.pointer)
    assert SECRET not in refused.value.detail


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        (http(Authorization=MASK), "/headers/Authorization"),
        (http("https://***@example.com/"), "/url"),
        (http("https://example.com/?token=***"), "/url"),
    ],
)
@pytest.mark.parametrize("before", [None, {"kind": "shell", "command": "date"}, http(Accept="a")])
def test_a_mask_for_which_nothing_is_stored_is_refused(
    sent: dict[str, Any], pointer: str, before: dict[str, Any] | None
) -> None:
    """A job that sends three asterisks is meant by nobody."""
    with pytest.raises(Invalid) as refused:
        restored(sent, before)
    assert ("secret_masked", pointer) == (refused.value.code, refused.value.pointer)
