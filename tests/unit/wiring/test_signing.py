"""What signs and verifies messages follows from the settings."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.broker import REQUESTS, Delivery
from tickwise.roles.shared.signatures import Unverified
from tickwise.wiring.signing import request_check, requests_signer, result_check, results_signing

FIRST, SECOND = "4f1c9a7be02d5836714e0fdc92ab5e33", "b91e07d45ac2f8361d9e4470c3a85f12"
UNSIGNED = Delivery(REQUESTS, b"value", b"key", (), 0, 0, 0.0)


def settings(**said: Any) -> Settings:
    return Settings(broker_url="kafka://host:9092", **said)


def test_an_api_signs_with_the_first_secret_and_recorders_accept_each() -> None:
    """So that a secret is changed in two steps."""
    signer = requests_signer(settings(requests_keys=(FIRST, SECOND)))
    assert signer is not None
    signature = signer.sign(b"text")
    only = [requests_signer(settings(requests_keys=(key,))) for key in (FIRST, SECOND)]
    assert [True, False] == [each is not None and each.sign(b"text") == signature for each in only]


def test_an_api_without_a_secret_signs_nothing() -> None:
    """The log warns that a client that can write the topic can act as any key."""
    assert requests_signer(settings()) is None


def test_a_recorder_with_a_secret_refuses_what_is_not_signed() -> None:
    """As shipped; without a secret it cannot."""
    with pytest.raises(Unverified):
        request_check(settings(requests_keys=(FIRST,)), "cluster").verify(UNSIGNED)
    assert not request_check(settings(), "cluster").verify(UNSIGNED)
    introduced = settings(requests_keys=(FIRST,), unsigned_messages="accepted")
    assert not request_check(introduced, "cluster").verify(UNSIGNED)


def test_a_recorder_that_would_refuse_everything_does_not_start() -> None:
    """It says which setting is missing."""
    with pytest.raises(Misconfigured, match="TICKWISE_REQUESTS_KEYS"):
        request_check(settings(unsigned_messages="refused"), "cluster")


@pytest.mark.parametrize("weak", ["k" * 32, "ab" * 16, "abcdefghijklmnopqrstuvwxyz0123456789"])
def test_a_secret_that_can_be_guessed_is_refused(weak: str) -> None:
    """Whichever of them it is, by APIs and by recorders."""
    for given in ((weak,), (FIRST, weak)):
        with pytest.raises(Misconfigured, match="TICKWISE_REQUESTS_KEYS"):
            requests_signer(settings(requests_keys=given))
        with pytest.raises(Misconfigured, match="TICKWISE_REQUESTS_KEYS"):
            request_check(settings(requests_keys=given), "cluster")


async def test_executors_and_recorders_agree_on_a_key_without_a_setting() -> None:
    """One makes it, and the other verifies by what its row says."""
    signing = results_signing("cluster")
    assert result_check(settings(), MemoryStore(VirtualClock()), "cluster") is not None
    key, other = signing.keys.new(), signing.keys.new()
    assert signing.keys.verify(key.public, b"text", key.sign(b"text"))
    for public, text, signature in (
        (other.public, b"text", key.sign(b"text")),
        (key.public, b"texts", key.sign(b"text")),
        (key.public, b"text", b""),
        (b"", b"text", key.sign(b"text")),
    ):
        assert not signing.keys.verify(public, text, signature)
