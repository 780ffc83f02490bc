"""The fields of channels: what is refused, what is shown, what only the sender is told."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK
from tickwise.domain.notices.channels import (
    MAX_HEADERS,
    MAX_RECIPIENTS,
    channel_fields,
    signing_key,
    signing_secret,
    without_secrets,
)
from tickwise.domain.notices.rules import NoticeChannelKind

RANDOM = bytes(range(32))
URL = "https://user:pw@hooks.example.com:8443/T0/secret-of-it?key=x"
WEBHOOK, EMAIL, SLACK, APPRISE = NoticeChannelKind


def test_an_address_is_shown_by_its_scheme_and_host() -> None:
    """All else may be a secret; of apprise the host, too."""
    for kind, url, shown in (
        (WEBHOOK, URL, f"https://hooks.example.com:8443/{MASK}"),
        (SLACK, "https://hooks.slack.com/services/T/B/x", f"https://hooks.slack.com/{MASK}"),
        (APPRISE, "tgram://bottoken/chat", f"tgram://{MASK}"),
    ):
        settings, secrets = channel_fields(kind, {"url": url}, random=RANDOM)
        assert settings == {"url": shown}
        assert secrets["url"] == url


def test_a_webhook_has_a_signing_secret_of_its_own() -> None:
    """At least 24 random bytes in base64, as Standard Webhooks says; it stays when the channel is changed."""
    _, secrets = channel_fields(WEBHOOK, {"url": URL}, random=RANDOM)
    assert signing_key(secrets["signing_secret"]) == RANDOM
    _, changed = channel_fields(WEBHOOK, {"url": "https://other.example.com/"}, random=b"", before=secrets)
    assert changed["signing_secret"] == secrets["signing_secret"]
    for count in (0, 23):
        with pytest.raises(ValueError, match="24 bytes"):
            signing_secret(bytes(count))
    with pytest.raises(ValueError, match="base64"):
        signing_key("whsec_ä")


def test_what_comes_as_it_is_shown_stays_as_it_is() -> None:
    """At the same host; a secret goes to no other one."""
    fields: dict[str, Any] = {"url": URL, "headers": {"Authorization": "Bearer x"}}
    settings, secrets = channel_fields(WEBHOOK, fields, random=RANDOM)
    assert settings["headers"] == {"Authorization": MASK}
    again = channel_fields(WEBHOOK, dict(settings), random=RANDOM, before=secrets)
    assert (again.settings, again.secrets) == (settings, secrets)
    for wrong in (
        {"url": f"https://evil.example.com/{MASK}"},
        {"url": "https://evil.example.com/", "headers": {"Authorization": MASK}},
        {"url": settings["url"], "headers": {"X-Other": MASK}},
    ):
        with pytest.raises(Invalid):
            channel_fields(WEBHOOK, wrong, random=RANDOM, before=secrets)
    with pytest.raises(Invalid) as refused:
        channel_fields(SLACK, {"url": f"https://hooks.slack.com/{MASK}"})
    assert refused.value.code == "secret_masked"


def test_a_mail_has_recipients() -> None:
    """Its own server needs a sender; the address of the server is a secret."""
    settings, secrets = channel_fields(EMAIL, {"to": "ada@example.com"})
    assert (settings, secrets) == ({"to": ["ada@example.com"]}, {})
    own = {"to": ["a@x.org", "a@x.org", "b@x.org"], "from": "t@x.org", "url": "smtp://u:p@mail.x.org:587"}
    settings, secrets = channel_fields(EMAIL, own)
    assert settings == {"to": ["a@x.org", "b@x.org"], "from": "t@x.org", "url": f"smtp://mail.x.org:587/{MASK}"}
    assert secrets == {"url": own["url"]}


@pytest.mark.parametrize(
    ("kind", "fields", "pointer"),
    [
        (WEBHOOK, {}, "/url"),
        (WEBHOOK, {"url": "ftp://x"}, "/url"),
        (WEBHOOK, {"url": "https:///path"}, "/url"),
        (WEBHOOK, {"url": "https://x:port/"}, "/url"),
        (WEBHOOK, {"url": "https://x/\r\nHost: y"}, "/url"),
        (WEBHOOK, {"url": "https://x/" + "y" * 5_000}, "/url"),
        (WEBHOOK, {"url": "https://x/#y"}, "/url"),
        (WEBHOOK, {"url": 7}, "/url"),
        (WEBHOOK, {"url": URL, "to": "x"}, "/to"),
        (WEBHOOK, {"url": URL, "headers": []}, "/headers"),
        (WEBHOOK, {"url": URL, "headers": {f"h{n}": "x" for n in range(MAX_HEADERS + 1)}}, "/headers"),
        (WEBHOOK, {"url": URL, "headers": {"Webhook-Signature": "x"}}, "/headers/Webhook-Signature"),
        (WEBHOOK, {"url": URL, "headers": {"X-Own": "a", "x-own": "b"}}, "/headers/x-own"),
        (WEBHOOK, {"url": URL, "headers": {"a/b": "x"}}, "/headers/a~1b"),
        (WEBHOOK, {"url": URL, "headers": {"X": "a\r\nb"}}, "/headers/X"),
        (WEBHOOK, {"url": URL, "headers": {"X": 1}}, "/headers/X"),
        (EMAIL, {}, "/to"),
        (EMAIL, {"to": []}, "/to"),
        (EMAIL, {"to": [f"a{n}@x.org" for n in range(MAX_RECIPIENTS + 1)]}, "/to"),
        (EMAIL, {"to": ["a@x.org", "b@x.org, c@x.org"]}, "/to/1"),
        (EMAIL, {"to": ["a@x.org\r\nBcc: b@x.org"]}, "/to/0"),
        (EMAIL, {"to": ["<a@x.org>"]}, "/to/0"),
        (EMAIL, {"to": ["a@x.org"], "from": "no"}, "/from"),
        (EMAIL, {"to": ["a@x.org"], "url": "smtp://h"}, "/from"),
        (EMAIL, {"to": ["a@x.org"], "from": "b@x.org", "url": "https://h"}, "/url"),
        (SLACK, {"url": "xoxb-1"}, "/url"),
        (APPRISE, {"url": "ntfy://"}, "/url"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_is_refused(kind: NoticeChannelKind, fields: dict[str, Any], pointer: str) -> None:
    """With the field at fault."""
    with pytest.raises(Invalid) as refused:
        channel_fields(kind, fields, random=RANDOM)
    assert refused.value.pointer == pointer


def test_secrets_leave_texts() -> None:
    """Whole, in parts, and as they are decoded; hosts stay."""
    secrets = {"url": "smtp://ops:pa%3Ass%2Fw@mail.example.com:25", "token": "hush-hush-hush"}
    said = (
        "mail.example.com refused ops:pa:ss/w (pa%3Ass%2Fw) hush-hush-hush smtp://ops:pa%3Ass%2Fw@mail.example.com:25"
    )
    assert without_secrets(said, secrets) == f"mail.example.com refused ops:{MASK} ({MASK}) {MASK} {MASK}"
