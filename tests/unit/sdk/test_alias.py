"""The names from before the SDK was a distribution of its own."""

from __future__ import annotations

import pytest

import tickwise.sdk
import tickwise_sdk


@pytest.mark.parametrize("name", ["Context", "PermanentError", "RetryLater", "task"])
def test_an_old_name_is_the_new_one_and_says_so(name: str) -> None:
    """Programs go on, and are told what to write."""
    with pytest.warns(DeprecationWarning, match=f"from tickwise_sdk import {name}"):
        found = getattr(tickwise.sdk, name)
    assert getattr(tickwise_sdk, name) is found


def test_what_there_never_was_is_not_there() -> None:
    """Of both."""
    for module in (tickwise.sdk, tickwise_sdk):
        with pytest.raises(AttributeError, match="has no attribute 'schedule_all'"):
            module.schedule_all  # noqa: B018 - asking is what is tested


def test_every_public_name_is_there() -> None:
    """Though each is loaded when it is asked for."""
    for name in tickwise_sdk.__all__:
        assert getattr(tickwise_sdk, name) is not None
    assert sorted(tickwise_sdk.__all__) == dir(tickwise_sdk)
